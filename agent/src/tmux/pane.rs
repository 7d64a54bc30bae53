//! A session of one pane, and what becomes of a pane.

use std::{ffi::OsString, path::Path, process::Stdio};

use jiff::Timestamp;

use super::{restore::literal_path, server::Server};
use crate::error::{Error, Result};

/// The name of a run's tmux session: its session and its start (UTC). `.` and `:` are replaced, as they have a meaning in tmux.
pub fn session_name(session: &str, began: Timestamp) -> String {
    let plain: String =
        session.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '-' }).take(40).collect();
    let plain = plain.trim_matches('-');
    let plain = if plain.is_empty() { "session" } else { plain };
    format!("ph-{plain}-{}", began.strftime("%Y%m%dT%H%M%S"))
}

/// The status of a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaneStatus {
    /// Process id of the command that the pane was started with.
    pub process: i32,
    /// True if the process has ended.
    pub dead: bool,
    /// The exit code that it ended with.
    pub exit_code: Option<i32>,
}

impl Server {
    /// A name for a new session: this one, or the first behind it, by a number, that no session has.
    pub fn free_name(&self, wanted: &str) -> Result<String> {
        let mut name = wanted.to_owned();
        let mut number = 1;
        while self.is_running()? && self.has_session(&name)? {
            number += 1;
            name = format!("{wanted}-{number}");
        }
        Ok(name)
    }

    /// Makes a session of one pane, in which a command of two words or more runs; returns the pane's id.
    pub fn new_session(&self, name: &str, folder: &Path, command: &[OsString]) -> Result<String> {
        let mut arguments: Vec<OsString> = ["new-session", "-d", "-s", name, "-P", "-F", "#{pane_id}"].map(OsString::from).into();
        arguments.extend(["-c".into(), literal_path(folder)]);
        arguments.extend(command.iter().cloned());
        self.make(&arguments)
    }

    /// Kills a session and everything in its panes.
    pub fn end_session(&self, name: &str) -> Result<()> {
        self.call(["kill-session", "-t", &format!("={name}")]).map(|_| ())
    }

    /// Keeps a pane, with its text, after its process has ended; without `stays`, goes back to the user's setting.
    pub fn keep_dead(&self, pane: &str, stays: bool) -> Result<()> {
        let set: &[&str] =
            if stays { &["-p", "-t", pane, "remain-on-exit", "on"] } else { &["-pu", "-t", pane, "remain-on-exit"] };
        self.call(["set-option"].iter().chain(set)).map(|_| ())
    }

    /// The status of a pane; none if it is gone.
    pub fn pane(&self, pane: &str) -> Result<Option<PaneStatus>> {
        let asked = self.ask(["display-message", "-p", "-t", pane, "#{pane_pid} #{pane_dead} #{pane_dead_status}"]);
        let text = match asked {
            Ok(text) => text,
            Err(Error::Program { .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut words = text.split(' ');
        let process = words.next().and_then(|word| word.parse().ok());
        let (dead, code) = (words.next() == Some("1"), words.next().and_then(|word| word.parse().ok()));
        Ok(process.map(|process| PaneStatus { process, dead, exit_code: code }))
    }

    /// Has tmux look at once how its processes have ended. Version 3.3 sometimes misses that one has, and then never knows the exit code
    /// of a pane that stays; the end of any job of its own makes it look again.
    pub fn look_for_ends(&self) -> Result<()> {
        self.call(["run-shell", "true"]).map(|_| ())
    }

    /// Pastes a text into a pane; a program that has asked for that is told where it begins and ends. `buffer` is the name of tmux's buffer for
    /// it, which is gone afterwards.
    pub fn paste(&self, pane: &str, buffer: &str, text: Stdio) -> Result<()> {
        self.call_on(["load-buffer", "-b", buffer, "-"], text)?;
        self.call(["paste-buffer", "-d", "-p", "-r", "-b", buffer, "-t", pane]).map(|_| ())
    }

    /// The row in which a pane's cursor stands, from 0, and how many rows the pane has.
    pub fn cursor(&self, pane: &str) -> Result<Option<(u32, u32)>> {
        let text = self.ask(["display-message", "-p", "-t", pane, "#{cursor_y} #{pane_height}"])?;
        let numbers: Vec<u32> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        Ok(numbers.first().copied().zip(numbers.get(1).copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_tmux_keeps_as_it_is() {
        let at: Timestamp = "2026-01-16T14:30:22Z".parse().unwrap();
        assert_eq!(session_name("fix-auth", at), "ph-fix-auth-20260116T143022");
        assert_eq!(session_name("a.b: é", at), "ph-a-b-20260116T143022");
        assert_eq!(session_name("...", at), "ph-session-20260116T143022");
    }
}
