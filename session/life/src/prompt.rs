//! A prompt for the live agent of a session: typed into its pane of tmux, where a person would type it.

use std::{
    fs::{self, File},
    io::{self, Seek, Write},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use parhelia_agent::tmux::Server;
use parhelia_ledger::{LedgerView as _, Session};
use parhelia_store::{Store, id::Ulid};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::overview::{Overview, observed::AgentState};
use parhelia_host::{
    Error, Result, RunRefusal,
    error::IoContext,
    intent,
    run::{Life, life, tmux_of},
};

/// The longest prompt, in bytes: an agent that is started with it has it as one argument, which the kernel bounds at 128 KiB.
pub const BYTES_MAX: usize = 100 << 10;
/// An agent takes no longer to say that it is at work.
const NOTICED_LIMIT: Duration = Duration::from_secs(2);
/// The time between a paste and the key that sends it off.
const AFTER_PASTE: Duration = Duration::from_millis(200);
/// So often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(20);
/// No call of tmux takes longer.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// Fails where a text is no prompt: there are no words in it, it is too long, or it has characters that are keys for a terminal.
pub fn check(text: &str) -> Result<()> {
    let invalid = |why: String| Err(Error::Invalid(why));
    if text.trim().is_empty() {
        return invalid("there are no words in the prompt".into());
    }
    if text.len() > BYTES_MAX {
        return invalid(format!("the prompt is longer than {BYTES_MAX} bytes; put it into a file, and name that"));
    }
    match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        Some(key) => invalid(format!("the prompt has the character U+{:04X}, which is a key for a terminal", u32::from(key))),
        None => Ok(()),
    }
}

/// Types a prompt in for an agent that has nothing to do. False of a session that is dead, whose agent has to be started first. Fails where the
/// agent is at work or waits for an answer, and where it is not in tmux.
pub fn type_in(store: &Store, session: &Session, text: &str) -> Result<bool> {
    check(text)?;
    // Two prompts at a time would become one.
    let _turn = intent::held(store, &session.id, &())?;
    let session = &store.refresh()?.session(&session.id)?.unwrap_or_else(|| session.clone());
    let overview = Overview::of(store, session)?;
    let id = || session.id.clone();
    match overview.observed {
        AgentState::None | AgentState::Dead => return Ok(false),
        // Whoever gives a prompt to one whose process nobody knows wants it resumed.
        AgentState::Unknown if !is_taken_for_alive(store, session)? => return Ok(false),
        AgentState::Idle => {}
        AgentState::Unknown => {
            let why = overview.why.map(|why| format!(" ({why})")).unwrap_or_default();
            return Err(RunRefusal::NotPrompted { session: id(), why: format!("its agent may be alive{why}") }.into());
        }
        AgentState::Elsewhere => {
            let why = overview.why.map(|why| format!(" ({why})")).unwrap_or_default();
            return Err(RunRefusal::NotPrompted { session: id(), why: format!("its agent is elsewhere{why}") }.into());
        }
        AgentState::Waiting => {
            let what = overview.why.map(|what| format!(" ({what})")).unwrap_or_default();
            return Err(RunRefusal::NotPrompted { session: id(), why: format!("its agent waits for an answer{what}") }.into());
        }
        AgentState::Live | AgentState::Starting => {
            let why = "its agent is at work, or does not say that it has nothing to do".to_owned();
            return Err(RunRefusal::NotPrompted { session: id(), why }.into());
        }
    }
    let terminal = terminal(store, session)?.map_err(|why| RunRefusal::NotPrompted { session: id(), why })?;
    terminal.paste(text)?;
    terminal.press("Enter")?;
    // Whoever has the turn next is told that it is at work.
    until(|| Ok(Overview::of(store, session)?.observed != AgentState::Idle))?;
    Ok(true)
}

/// True if the agent of a session counts as alive.
fn is_taken_for_alive(store: &Store, session: &Session) -> Result<bool> {
    Ok(store.view().newest_run(session)?.as_ref().map(life).is_some_and(|life| life.is_alive()))
}

/// A pane of tmux, in which an agent takes what is typed.
pub(crate) struct Terminal {
    server: Server,
    pane: String,
}

/// The terminal of a session's live agent; or the reason for which nothing can be typed into it.
pub(crate) fn terminal(store: &Store, session: &Session) -> Result<Result<Terminal, String>> {
    let Some(place) = tmux_of(store, session)? else {
        return Ok(Err("its agent is not in tmux, so that nobody but who sits there can type".to_owned()));
    };
    let server = Server::new(Some(place.socket.into()), CALL_LIMIT);
    let agent = store.view().newest_run(session)?.as_ref().map(life);
    let Some(Life::Agent(agent)) = agent else { return Ok(Err("its agent has just ended".to_owned())) };
    if !is_in_foreground(agent.process) {
        return Ok(Err("another program is in the foreground of its terminal, or it was stopped there".to_owned()));
    }
    if server.ask(["display-message", "-p", "-t", &place.pane, "#{pane_in_mode}"])? != "0" {
        return Ok(Err("somebody looks through its terminal in tmux (copy mode)".to_owned()));
    }
    Ok(Ok(Terminal { server, pane: place.pane }))
}

impl Terminal {
    /// The text that it shows.
    pub(crate) fn screen(&self) -> Result<String> {
        Ok(self.server.screen(&self.pane)?)
    }

    /// Pastes a text, in which a new line sends nothing off, and waits until the agent has taken it.
    pub(crate) fn paste(&self, text: &str) -> Result<()> {
        let input = held(text).at("hold the prompt in", "memory".as_ref())?;
        let before = self.screen()?;
        self.server.paste(&self.pane, &format!("parhelia-{}", Ulid::generate()), input)?;
        // The agent takes what it reads together with a paste for a part of it.
        until(|| Ok(self.screen()? != before))?;
        thread::sleep(AFTER_PASTE);
        Ok(())
    }

    /// Types a key, by the name that tmux has for it.
    pub(crate) fn press(&self, key: &str) -> Result<()> {
        self.server.call(["send-keys", "-t", &self.pane, key])?;
        Ok(())
    }
}

/// Waits until something is so, but not long.
pub(crate) fn until(is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let until = Instant::now() + NOTICED_LIMIT;
    while Instant::now() < until && !is_so()? {
        thread::sleep(LOOK);
    }
    Ok(())
}

/// True if what is typed into the terminal of a process reaches its group, and it is not stopped (proc_pid_stat(5)).
fn is_in_foreground(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name, which stands in brackets and may hold anything: state, ppid, pgrp, session, tty, tpgid.
    let fields: Vec<&str> = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    match fields.as_slice() {
        [state, _, group, _, _, foreground, ..] => !["T", "t"].contains(state) && group == foreground,
        _ => false,
    }
}

/// A text to be read by another process, on no disk and on no command line, which every user of the machine can read.
fn held(text: &str) -> io::Result<Stdio> {
    let mut file = File::from(memfd_create("prompt", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_text_and_no_keys() {
        for good in ["fix it", "fix\n\tthis: é"] {
            check(good).unwrap();
        }
        for (bad, why) in
            [("", "no words"), (" \n", "no words"), ("a\u{1b}[201~\rrm", "U+001B"), ("\u{3}", "U+0003"), ("a\rb", "U+000D")]
        {
            let said = check(bad).unwrap_err().to_string();
            assert!(said.contains(why), "{bad:?}: {said}");
        }
        assert!(check(&"x".repeat(BYTES_MAX + 1)).is_err());
    }
}
