//! Delivering after a verb: a process of its own does it, so that no verb waits for a channel.

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use parhelia_service::trackers;

use crate::{context::Context, exit::Result, hook_log, limits};

/// A verb that runs for long looks so often whether something was recorded.
const LOOK: Duration = Duration::from_secs(1);

/// Has delivered what was recorded while a verb ran. Where that fails, it is delivered after the next one.
pub fn hand_over(context: &Context) {
    if let Some(opened) = context.opened()
        && opened.has_grown()
        && is_on(context)
    {
        let _ = start(context, &opened.path);
    }
}

/// Has delivered what is recorded while a verb runs that stays, such as `session run`. Ends with the process.
pub fn watch(context: &Context) {
    let Some(mut opened) = context.opened().filter(|_| is_on(context)) else { return };
    let command = command(context, &opened.path);
    let watching = thread::Builder::new().name("outbox".into());
    let _ = watching.spawn(move || {
        let Ok(mut command) = command else { return };
        loop {
            thread::sleep(LOOK);
            if opened.has_grown() {
                opened = opened.now();
                // It delivers what comes meanwhile as well.
                let _ = limits::for_others(|| command.spawn()).and_then(|mut started| started.wait());
            }
        }
    });
}

/// Starts the process, unless one is at it: that one looks once more before it ends.
pub fn start(context: &Context, store: &Path) -> Result<()> {
    let mut command = command(context, store)?;
    // Its end is nobody's business here.
    let _ = limits::for_others(|| command.spawn());
    Ok(())
}

fn is_on(context: &Context) -> bool {
    let Ok(config) = context.own_config() else { return false };
    // If no workspace has issues of Beads, the process ends at once. To look for them here would hold up the verb.
    let has_beads = || config.integrations.beads.enabled && context.host().is_ok_and(|host| trackers::has_program(&host));
    config.notifications.are_on() || config.integrations.are_on() || has_beads()
}

fn command(context: &Context, store: &Path) -> Result<Command> {
    let program = std::env::current_exe();
    let mut command = Command::new(program.unwrap_or_else(|_| "parhelia".into()));
    command.arg("--store").arg(store);
    if let Some(config) = &context.global.config {
        command.arg("--config").arg(std::path::absolute(config).unwrap_or_else(|_| config.clone()));
    }
    command.args(["outbox", "deliver", "--detached"]);
    let log = hook_log::open().map_or_else(Stdio::null, Stdio::from);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).current_dir("/").process_group(0);
    Ok(command)
}
