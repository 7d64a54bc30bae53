//! Handing an event over to a process of its own, which makes the checkpoint and outlives the agent.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::Instant,
};

use parhelia_agent::hooks::Event;
use parhelia_host::run::Sender;
use parhelia_life::{
    checkpoint::SavedWork,
    hook::{EventOutcome, fullness, handed_over, take_over, work},
};
use parhelia_store::record::Cause;

use crate::{
    context::Context,
    exit::Result,
    hook_log::{self as log, Log},
    thinned::removed_text,
};

/// The first words of that process's command line.
const WORDS: [&str; 2] = ["hook", "--work"];

/// Starts the process that does it, and gives it the event.
pub fn hand_over(context: &Context, event: &Event, sender: &Sender) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.args(WORDS);
    if let Some(store) = &context.global.store {
        command.arg("--store").arg(store);
    }
    let log = || log::open().map_or_else(Stdio::null, Stdio::from);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log())
        .current_dir("/")
        // Signals that end the agent's group do not reach it.
        .process_group(0)
        .spawn()?;
    match child.stdin.take() {
        Some(mut pipe) => pipe.write_all(handed_over(event, sender).as_bytes()),
        None => Ok(()),
    }
}

/// Reads the event, and does what it asks for.
pub fn run(context: &Context) {
    let began = Instant::now();
    // Its own session: a terminal that closes does not take it along.
    let _ = rustix::process::setsid();
    let (event, sender) = match take_over(&context.hook_host(), io::stdin().lock()) {
        Ok(found) => found,
        Err(e) => return log::line(&format!("the event cannot be read: {e}")),
    };
    match take(context, &event, &sender) {
        Ok(done) => log::line(&format!("{}: {done} in {} ms", event.hook_event_name, began.elapsed().as_millis())),
        Err(e) => log::line(&format!("{}: {e}", event.hook_event_name)),
    }
    if let Some(text) = fullness(&context.hook_host(), &event) {
        log::line(&format!("{}: {text}", event.hook_event_name));
    }
}

fn take(context: &Context, event: &Event, sender: &Sender) -> Result<String> {
    let store = context.open_or_make()?;
    let made = match work(&store, &context.hook_host(), event, sender, &Log(&event.hook_event_name))? {
        EventOutcome::OfNoSession => return Ok("belongs to no session".into()),
        EventOutcome::Busy => {
            return Ok("nothing was captured: another process still captures the session, or rolls it back".into());
        }
        EventOutcome::StoppedForRollback => {
            return Ok("nothing was captured: the run was stopped for a rollback meanwhile".into());
        }
        EventOutcome::Noted => return Ok("noted".into()),
        EventOutcome::Made(made) => made,
    };
    let what = match (made.outcome.skipped, made.is_damaged()) {
        (true, _) => "nothing has changed since",
        (false, true) => "made a checkpoint that is DAMAGED:",
        (false, false) => "made checkpoint",
    };
    let more = made.notice.clone().into_iter().chain(made.failed()).chain(made.thinned.as_ref().and_then(removed_text));
    let more: String = more.map(|text| format!("; {text}")).collect();
    // After this the conversation begins anew, and what it was about is only here.
    let cleared = made.outcome.checkpoint.record.cause() == Some(Cause::Clear);
    let work = cleared.then(|| SavedWork::of(&store, &made.outcome.checkpoint).ok().flatten()).flatten();
    let work = work.map(|work| format!(" with {}", work.text())).unwrap_or_default();
    Ok(format!("{what} {}{work}{more}", made.outcome.checkpoint.id()))
}
