//! Pushing after a verb: a process of its own does it, so that no verb waits for the remote.

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use parhelia_remote::RemoteFolder;

use crate::{context::Context, hook_log, limits};

/// A verb that stays looks so often whether something was recorded.
const LOOK: Duration = Duration::from_secs(1);

/// Has pushed what was recorded while a verb ran. Where that fails, it is pushed after the next one.
pub fn hand_over(context: &Context) {
    if let Some(opened) = context.opened()
        && opened.has_grown()
    {
        start(context, &opened.path);
    }
}

/// Has pushed what is recorded while a verb runs that stays, such as `session run` or `serve`. Ends with the process.
pub fn watch(context: &Context) {
    let Some(mut opened) = context.opened().filter(|opened| is_on(context, &opened.path)) else { return };
    let mut command = command(context, &opened.path);
    let watching = thread::Builder::new().name("remote".into());
    let _ = watching.spawn(move || {
        loop {
            thread::sleep(LOOK);
            if opened.has_grown() {
                opened = opened.now();
                // It pushes what comes meanwhile as well.
                let _ = limits::for_others(|| command.spawn()).and_then(|mut started| started.wait());
            }
        }
    });
}

/// True if a store has a remote, or one is configured, and checkpoints are pushed by themselves.
fn is_on(context: &Context, store: &Path) -> bool {
    let Ok(config) = context.own_config() else { return false };
    let has_joined = || RemoteFolder::of(&parhelia_ledger::layout(store)).joined().is_ok_and(|joined| joined.is_some());
    config.remote.push && (config.remote.url.is_some() || has_joined())
}

/// Starts the process, where that is wanted, unless one is at it: that one looks once more before it ends.
pub fn start(context: &Context, store: &Path) {
    if is_on(context, store) {
        // Its end is nobody's business here.
        let _ = limits::for_others(|| command(context, store).spawn());
    }
}

fn command(context: &Context, store: &Path) -> Command {
    let program = std::env::current_exe();
    let mut command = Command::new(program.unwrap_or_else(|_| "parhelia".into()));
    command.arg("--store").arg(store);
    if let Some(config) = &context.global.config {
        command.arg("--config").arg(std::path::absolute(config).unwrap_or_else(|_| config.clone()));
    }
    command.args(["remote", "push", "--detached"]);
    let log = hook_log::open().map_or_else(Stdio::null, Stdio::from);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).current_dir("/").process_group(0);
    command
}
