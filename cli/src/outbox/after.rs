//! Delivering after a verb: a process of its own does it, so that no verb waits for a channel.

use std::path::Path;

use parhelia_service::trackers;

use crate::{context::Context, detached};

/// The words of the process.
const DELIVER: [&str; 3] = ["outbox", "deliver", "--detached"];

/// Has delivered what was recorded while a verb ran. Where that fails, it is delivered after the next one.
pub fn hand_over(context: &Context) {
    if let Some(opened) = context.opened()
        && opened.has_grown()
        && is_on(context)
    {
        start(context, &opened.path);
    }
}

/// Has delivered what is recorded while a verb runs that stays, such as `session run`. Ends with the process.
pub fn watch(context: &Context) {
    if let Some(opened) = context.opened().filter(|_| is_on(context)) {
        let command = detached::command(context, &opened.path, DELIVER);
        detached::watch("outbox", opened, command);
    }
}

/// Starts the process, unless one is at it: that one looks once more before it ends.
pub fn start(context: &Context, store: &Path) {
    detached::start(detached::command(context, store, DELIVER));
}

fn is_on(context: &Context) -> bool {
    let Ok(config) = context.own_config() else { return false };
    // If no workspace has issues of Beads, the process ends at once. To look for them here would hold up the verb.
    let has_beads = || config.integrations.beads.enabled && context.host().is_ok_and(|host| trackers::has_program(&host));
    config.notifications.are_on() || config.integrations.are_on() || has_beads()
}
