//! Work after a verb, by a process of its own: no verb waits for it.

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::{
    context::{Context, StorePosition},
    hook_log, limits,
};

/// A verb that stays looks so often whether something was recorded.
const LOOK: Duration = Duration::from_secs(1);

/// The command that calls this program with some words for a store, apart from any terminal. What it says goes to the log of hooks.
pub fn command(context: &Context, store: &Path, words: [&str; 3]) -> Command {
    let program = std::env::current_exe();
    let mut command = Command::new(program.unwrap_or_else(|_| "parhelia".into()));
    command.arg("--store").arg(store);
    if let Some(config) = &context.global.config {
        command.arg("--config").arg(std::path::absolute(config).unwrap_or_else(|_| config.clone()));
    }
    command.args(words);
    let log = hook_log::open().map_or_else(Stdio::null, Stdio::from);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).current_dir("/").process_group(0);
    command
}

/// Starts it. Its end is nobody's business here.
pub fn start(mut command: Command) {
    let _ = limits::for_others(|| command.spawn());
}

/// Starts it each time that something was recorded in a store, on a thread of this name, which ends with the process.
pub fn watch(name: &str, mut opened: StorePosition, mut command: Command) {
    let watching = thread::Builder::new().name(name.into());
    let _ = watching.spawn(move || {
        loop {
            thread::sleep(LOOK);
            if opened.has_grown() {
                opened = opened.now();
                // It does what comes meanwhile as well.
                let _ = limits::for_others(|| command.spawn()).and_then(|mut started| started.wait());
            }
        }
    });
}
