//! Pushing after a verb: a process of its own does it, so that no verb waits for the remote.

use std::path::Path;

use parhelia_remote::RemoteFolder;

use crate::{context::Context, detached};

/// The words of the process.
const PUSH: [&str; 3] = ["remote", "push", "--detached"];

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
    if let Some(opened) = context.opened().filter(|opened| is_on(context, &opened.path)) {
        let command = detached::command(context, &opened.path, PUSH);
        detached::watch("remote", opened, command);
    }
}

/// Starts the process, where that is wanted, unless one is at it: that one looks once more before it ends.
pub fn start(context: &Context, store: &Path) {
    if is_on(context, store) {
        detached::start(detached::command(context, store, PUSH));
    }
}

/// True if a store has a remote, or one is configured, and checkpoints are pushed by themselves.
fn is_on(context: &Context, store: &Path) -> bool {
    let Ok(config) = context.own_config() else { return false };
    let has_joined = || RemoteFolder::of(&parhelia_ledger::layout(store)).joined().is_ok_and(|joined| joined.is_some());
    config.remote.push && (config.remote.url.is_some() || has_joined())
}
