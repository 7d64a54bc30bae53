//! A tmux server of a test's own.

use std::{path::PathBuf, process::Command, time::Duration};

use parhelia_agent::tmux::{Limits, Server, SessionCapture, capture};

use crate::live::{kill, wait};

/// A server on a private socket, which ends with the test. It is not there before something starts it.
#[derive(Debug)]
pub struct Tmux {
    folder: tempfile::TempDir,
    /// The server.
    pub server: Server,
}

impl Default for Tmux {
    fn default() -> Self {
        Self::new()
    }
}

impl Tmux {
    /// A new one.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("no folder for a socket: {e}"));
        let server = Server::new(Some(folder.path().join("socket")), Duration::from_secs(30)).with_config("/dev/null");
        Tmux { folder, server }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Starts it, with nothing in its environment but the search path and these variables, and a session `other`.
    pub fn start(&self, variables: &[(&str, &str)]) {
        let mut command: Command = self.server.command();
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("TERM", "xterm-256color");
        command.envs(variables.iter().copied()).args(["new-session", "-d", "-s", "other", "sleep", "100000"]);
        let status = command.status().unwrap_or_else(|e| panic!("tmux is needed by these tests: {e}"));
        assert!(status.success(), "tmux cannot be started");
    }

    /// The output of one of its commands.
    pub fn ask(&self, arguments: &[&str]) -> String {
        self.server.ask(arguments).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Its sessions that are ours.
    pub fn sessions(&self) -> Vec<String> {
        let all = self.server.ask(["list-sessions", "-F", "#{session_name}"]).unwrap_or_default();
        all.lines().filter(|name| name.starts_with("ph-")).map(str::to_owned).collect()
    }

    /// The one session of ours.
    pub fn session(&self) -> String {
        let mut sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions.remove(0)
    }

    /// A session as it is now.
    pub fn capture(&self, session: &str) -> SessionCapture {
        capture(&self.server, session, Limits::default()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Waits until a pane shows a text; returns everything that it shows.
    pub fn wait_for(&self, pane: &str, text: &str) -> String {
        let mut last = String::new();
        let shown = wait_or(|| {
            last = self.server.screen(pane).unwrap_or_default();
            last.contains(text).then(|| last.clone())
        });
        shown.unwrap_or_else(|| panic!("pane {pane} never showed '{text}', but:\n{last}"))
    }

    /// Kills the server, as a crash would, and waits until it is gone.
    pub fn kill(&self) {
        let process = self.ask(&["display-message", "-p", "#{pid}"]);
        kill(process.parse().unwrap_or_else(|e| panic!("{process}: {e}")));
        wait(|| (!self.server.is_running().unwrap_or(true)).then_some(()));
    }
}

fn wait_or<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while std::time::Instant::now() < until {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.server.call(["kill-server"]);
    }
}
