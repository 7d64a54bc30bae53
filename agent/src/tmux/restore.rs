//! Making a tmux session look as it did: windows under their numbers, panes in their layout, their folders, text and focus.

use std::{
    ffi::OsString,
    fmt::Debug,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::{
    server::Server,
    state::{Pane, State, Window, geometry},
};
use crate::error::{Error, Result};

/// The request to restore a captured session.
pub struct RestoreRequest<'a> {
    /// The new session's name; none of that name may exist.
    pub name: &'a str,
    /// The folder for panes whose own is gone.
    pub folder: &'a Path,
    /// Variables that every pane gets.
    pub environment: &'a [(String, OsString)],
    /// The command for a pane; none means a shell.
    pub command: &'a dyn Fn(&Pane) -> Option<Vec<OsString>>,
    /// A file with the text that a pane shows first. The pane removes it then.
    pub scrollback: &'a dyn Fn(&Pane) -> Option<PathBuf>,
}

impl Debug for RestoreRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RestoreRequest({})", self.name)
    }
}

/// A tmux session that was made from a captured state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoredSession {
    /// The session's name.
    pub session: String,
    /// Old and new id of each pane.
    pub panes: Vec<(String, String)>,
    /// Differences from the captured session, with the reason.
    pub notes: Vec<String>,
}

impl RestoredSession {
    /// The new id of a pane.
    pub fn pane(&self, old: &str) -> Option<&str> {
        self.panes.iter().find(|(id, _)| id == old).map(|(_, new)| new.as_str())
    }
}

/// Shows a file, removes it, and then becomes another program: the shell, or what is named behind the file.
const SHOW_AND_RUN: &str =
    r#"cat -- "$1" 2>/dev/null; rm -f -- "$1"; shift; [ $# -gt 0 ] && exec "$@"; exec "${SHELL:-/bin/sh}""#;

/// Makes a session. Where that fails, what was made of it is taken away again.
pub fn restore(server: &Server, state: &State, wanted: &RestoreRequest<'_>) -> Result<RestoredSession> {
    if state.windows.iter().all(|window| window.panes.is_empty()) {
        return Err(Error::Invalid("the captured tmux session has no window".into()));
    }
    if server.is_running()? && server.has_session(wanted.name)? {
        return Err(Error::Invalid(format!("there is a tmux session {} already; choose another name", wanted.name)));
    }
    let mut work = Work { server, wanted, done: RestoredSession { session: wanted.name.into(), ..RestoredSession::default() } };
    match work.make(state) {
        Ok(()) => Ok(work.done),
        Err(e) => {
            let _ = server.call(["kill-session", "-t", &format!("={}", wanted.name)]);
            Err(e)
        }
    }
}

struct Work<'a> {
    server: &'a Server,
    wanted: &'a RestoreRequest<'a>,
    done: RestoredSession,
}

impl Work<'_> {
    fn make(&mut self, state: &State) -> Result<()> {
        let windows = state.windows.iter().filter(|window| !window.panes.is_empty());
        for (n, window) in windows.enumerate() {
            self.window(window, n == 0)?;
        }
        // The one before the last first, so that tmux knows it as such.
        let order = |window: &&Window| (window.active, window.last);
        let mut shown: Vec<&Window> = state.windows.iter().filter(|w| w.active || w.last).collect();
        shown.sort_by_key(order);
        for window in shown {
            self.server.call(["select-window", "-t", &self.target(window)])?;
        }
        Ok(())
    }

    fn target(&self, window: &Window) -> String {
        format!("={}:{}", self.wanted.name, window.index)
    }

    /// Makes one window: its panes one below the other, then all of them where the layout says.
    fn window(&mut self, window: &Window, is_first: bool) -> Result<()> {
        let target = self.target(window);
        let mut last = String::new();
        for (n, pane) in window.panes.iter().enumerate() {
            let mut arguments: Vec<OsString> = match n {
                0 if is_first => self.new_session(window),
                0 => named(&["new-window", "-d", "-t", &target], window),
                _ => words(&["split-window", "-d", "-t", &last]),
            };
            arguments.extend(words(&["-P", "-F", "#{pane_id}"]));
            self.pane_arguments(pane, &mut arguments);
            last = if n == 0 && is_first { self.server.make(&arguments)? } else { self.server.ask(&arguments)? };
            if n == 0 && is_first {
                self.renumber(window)?;
            }
            self.done.panes.push((pane.id.clone(), last.clone()));
            if n > 0 {
                // Otherwise there is soon no room for another pane.
                self.server.call(["select-layout", "-t", &target, "tiled"])?;
            }
        }
        self.lay_out(window, &target)?;
        self.dress(window, &target)
    }

    fn new_session(&self, window: &Window) -> Vec<OsString> {
        let (columns, rows) = (window.columns.to_string(), window.rows.to_string());
        named(&["new-session", "-d", "-s", self.wanted.name, "-x", &columns, "-y", &rows], window)
    }

    /// The first window gets the lowest number; it may have had another.
    fn renumber(&self, window: &Window) -> Result<()> {
        let first = format!("={}:^", self.wanted.name);
        let index = self.server.ask(["display-message", "-p", "-t", &first, "#{window_index}"])?;
        if index != window.index.to_string() {
            self.server.call(["move-window", "-d", "-s", &first, "-t", &self.target(window)])?;
        }
        Ok(())
    }

    /// Folder and command of a pane.
    fn pane_arguments(&mut self, pane: &Pane, arguments: &mut Vec<OsString>) {
        let folder = self.folder(&pane.folder);
        if folder != Path::new(&pane.folder) {
            self.done.notes.push(format!("pane {}: {} is gone; it begins in {}", pane.id, pane.folder, folder.display()));
        }
        arguments.extend(["-c".into(), literal_path(&folder)]);
        for (name, value) in self.wanted.environment {
            arguments.extend(["-e".into(), assignment(name, value)]);
        }
        let command = (self.wanted.command)(pane);
        match ((self.wanted.scrollback)(pane), command) {
            (Some(file), command) => {
                arguments.extend(words(&["sh", "-c", SHOW_AND_RUN, "sh"]));
                arguments.push(file.into_os_string());
                arguments.extend(command.unwrap_or_default());
            }
            (None, Some(command)) if command.len() == 1 => {
                // One word alone would be given to a shell.
                arguments.extend(words(&["env", "--"]));
                arguments.extend(command);
            }
            (None, Some(command)) => arguments.extend(command),
            (None, None) => {}
        }
    }

    fn folder(&self, wanted: &str) -> PathBuf {
        let path = PathBuf::from(wanted);
        if path.is_dir() { path } else { self.wanted.folder.to_owned() }
    }

    fn lay_out(&mut self, window: &Window, target: &str) -> Result<()> {
        let laid = self.server.call(["select-layout", "-t", target, &window.layout]);
        let now = self.server.ask(["display-message", "-p", "-t", target, "#{window_layout}"])?;
        if geometry(&now) == geometry(&window.layout) {
            return Ok(());
        }
        let why = laid.err().map_or_else(|| "the sizes do not fit".to_owned(), |e| e.to_string());
        self.done.notes.push(format!("window {}: its layout could not be restored: {why}", window.index));
        Ok(())
    }

    /// Titles, focus, zoom and the name's ways.
    fn dress(&self, window: &Window, target: &str) -> Result<()> {
        let mine = &self.done.panes[self.done.panes.len() - window.panes.len()..];
        for (pane, (_, id)) in window.panes.iter().zip(mine) {
            if !pane.title.is_empty() {
                let mut command = words(&["select-pane", "-t", id, "-T"]);
                command.push(literal(&pane.title));
                self.server.call(command)?;
            }
        }
        for (_, (_, id)) in window.panes.iter().zip(mine).filter(|(pane, _)| pane.active) {
            self.server.call(["select-pane", "-t", id])?;
            if window.zoomed {
                self.server.call(["resize-pane", "-Z", "-t", id])?;
            }
        }
        if window.automatic_rename {
            self.server.call(["set-option", "-w", "-t", target, "automatic-rename", "on"])?;
        }
        Ok(())
    }
}

fn named(command: &[&str], window: &Window) -> Vec<OsString> {
    let mut command = words(command);
    command.extend(["-n".into(), literal(&window.name)]);
    command
}

fn words(text: &[&str]) -> Vec<OsString> {
    text.iter().map(OsString::from).collect()
}

/// A text that tmux takes as it stands. It would run what stands in `#(...)`, and take a `;` at the end for the end of the command; what
/// a pane calls itself is up to the program in it.
fn literal(text: &str) -> OsString {
    literal_bytes(text.as_bytes())
}

/// As [`literal`], of a path.
pub(super) fn literal_path(path: &Path) -> OsString {
    literal_bytes(path.as_os_str().as_bytes())
}

fn literal_bytes(bytes: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        let run = rest.iter().take_while(|byte| *byte == first).count();
        let (these, behind) = rest.split_at(run);
        out.extend_from_slice(these);
        // However many stand before a bracket, they stay as they are.
        if *first == b'#' && behind.first() != Some(&b'[') {
            out.extend_from_slice(these);
        }
        rest = behind;
    }
    if out.last() == Some(&b';') {
        out.insert(out.len() - 1, b'\\');
    }
    std::os::unix::ffi::OsStringExt::from_vec(out)
}

fn assignment(name: &str, value: &OsString) -> OsString {
    let mut text = name.as_bytes().to_vec();
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    std::os::unix::ffi::OsStringExt::from_vec(text)
}
