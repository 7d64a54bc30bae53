//! An event as it comes: whose it is, what of it is done at once, and what is handed over to a process that outlives the agent.

use std::{
    io::{self, Read},
    path::PathBuf,
};

use parhelia_agent::{
    command::Agent,
    hooks::Event,
    process::{ASKING, Identity, command_of},
};
use parhelia_host::{
    Host,
    run::{Sender, is_nested, meaning},
};
use serde_json::json;

/// The field of a handed-over event that tells of the process that it comes from: the one that does the work has no agent above it.
const SENDER: &str = "parhelia_sender";
/// So many characters of a text are handed over.
const TEXT_CHARS_MAX: usize = 4_000;

/// The destination of an event.
#[derive(Debug)]
pub enum Destination {
    /// None: it comes of an agent that is asked for a summary, or for its version.
    OfAsked,
    /// None: the agent that has started this one tells of it.
    OfNested,
    /// It is this agent's.
    Own {
        /// The process that it comes from.
        sender: Sender,
        /// True if the agent waits for an answer.
        is_answered: bool,
        /// True if something is done behind it.
        is_handed_over: bool,
    },
}

/// Decides what becomes of an event that has come to this process.
pub fn receive(host: &dyn Host, event: &Event) -> Destination {
    let sender = Sender::here(&|name| host.variable(name));
    // A project can set the variable for hooks; an agent that is asked has it from its start, also where it is asked for its version alone.
    let has_it = |agent: &Identity| agent.variables().is_ok_and(|found| found.iter().any(|(name, _)| name == ASKING));
    let is_agent = |process: &&Identity| {
        let argv = command_of(process.process);
        Agent::of(&argv).is_some() || Agent::managing(&argv).is_some()
    };
    let nearest = sender.line.iter().skip(1).find(is_agent).or(sender.agent.as_ref());
    if host.variable(ASKING).is_some() && nearest.is_none_or(has_it) {
        return Destination::OfAsked;
    }
    if is_nested() {
        return Destination::OfNested;
    }
    // Which of them it is only matters to whoever makes the checkpoint.
    let meaning = meaning(event, false);
    // Most changes of folder stay in the project.
    let project = host.variable("CLAUDE_PROJECT_DIR").map(PathBuf::from);
    let is_inside = project.zip(event.new_cwd.as_ref()).is_some_and(|(project, folder)| folder.starts_with(project));
    let moves = meaning.moves && !is_inside;
    let is_handed_over = meaning.checkpoint.is_some() || meaning.ends || meaning.says.is_some() || moves;
    Destination::Own { sender, is_answered: meaning.tells, is_handed_over }
}

/// An event and its sender, for the process that does the work. No more than it needs: a tool's whole output may be in an event.
pub fn handed_over(event: &Event, sender: &Sender) -> String {
    let short = |text: &Option<String>| text.as_ref().map(|text| text.chars().take(TEXT_CHARS_MAX).collect::<String>());
    let event = json!({
        "hook_event_name": event.hook_event_name,
        "session_id": event.session_id,
        "transcript_path": event.transcript_path,
        "cwd": event.cwd,
        "permission_mode": event.permission_mode,
        "tool_name": event.tool_name,
        "source": event.source,
        "prompt": short(&event.prompt),
        "trigger": event.trigger,
        "reason": event.reason,
        "last_assistant_message": short(&event.last_assistant_message),
        "agent_id": event.agent_id,
        "error": event.error,
        "notification_type": event.notification_type,
        "message": event.asked(),
        "old_cwd": event.old_cwd,
        "new_cwd": event.new_cwd,
        SENDER: sender,
    });
    event.to_string()
}

/// Reads an event that was handed over, and its sender. Whoever has an agent above them is believed no other one, and nobody what could not be seen
/// from here.
pub fn take_over(host: &dyn Host, input: impl Read) -> io::Result<(Event, Sender)> {
    let event = Event::read(input).map_err(io::Error::other)?;
    let told: Option<Sender> = event.more.get(SENDER).and_then(|value| serde_json::from_value(value.clone()).ok());
    let told = told.filter(|told| !host.call().is_below && told.is_from_here());
    let sender = told.unwrap_or_else(|| Sender::here(&|name| host.variable(name)));
    Ok((event, sender))
}
