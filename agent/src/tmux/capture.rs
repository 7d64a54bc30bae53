//! Looking at a tmux session.

use std::fs;

use super::{
    parse::{format, lines},
    server::Server,
    state::{Pane, State, Window},
};
use crate::error::{Error, Result};

/// Limits of the captured scrollback.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Lines of a pane, the newest ones.
    pub lines_max: u32,
    /// Bytes of a pane, the newest ones.
    pub bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { lines_max: 20_000, bytes_max: 4 << 20 }
    }
}

/// A pane's text, with its colours.
#[derive(Clone, Debug, PartialEq)]
pub struct Scrollback {
    /// The name that the pane's state gives it.
    pub name: String,
    /// The text; attributes are escape sequences, lines that were wrapped are one.
    pub bytes: Vec<u8>,
}

/// A session as it is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionCapture {
    /// Everything but the text.
    pub state: State,
    /// The text of its panes.
    pub scrollback: Vec<Scrollback>,
    /// Parts that could not be captured, with the reason.
    pub problems: Vec<String>,
}

/// The name of the session that a pane belongs to.
pub fn session_of(server: &Server, pane: &str) -> Result<String> {
    server.ask(["display-message", "-p", "-t", pane, "#{session_name}"])
}

/// Captures one session. Other sessions of the same server are not looked at.
pub fn capture(server: &Server, session: &str, limits: Limits) -> Result<SessionCapture> {
    let target = format!("={session}:");
    let about = lines::<3>(&server.call([
        "display-message",
        "-p",
        "-t",
        &target,
        &format(&["version", "socket_path", "session_path"]),
    ])?)?;
    let [version, socket, folder] = about.into_iter().next().unwrap_or_default();
    let state = State { tmux_version: version, socket, session: session.into(), folder, ..State::default() };
    let mut captured = SessionCapture { state, ..SessionCapture::default() };
    captured.state.windows = windows(server, &target)?;
    for window in &mut captured.state.windows {
        window.panes = panes(server, &format!("={session}:{}", window.index))?;
        for pane in &mut window.panes {
            match scrollback(server, &pane.id, limits) {
                Ok(bytes) => {
                    let name = format!("{}.{}.txt", window.index, pane.index);
                    pane.scrollback = Some(name.clone());
                    captured.scrollback.push(Scrollback { name, bytes });
                }
                // A pane may close meanwhile.
                Err(e) => captured.problems.push(format!("scrollback of pane {}: {e}", pane.id)),
            }
        }
    }
    Ok(captured)
}

fn windows(server: &Server, target: &str) -> Result<Vec<Window>> {
    let fields = format(&[
        "window_index",
        "window_name",
        "window_layout",
        "window_width",
        "window_height",
        "automatic-rename",
        "window_active",
        "window_last_flag",
        "window_zoomed_flag",
    ]);
    let printed = server.call(["list-windows", "-t", target, "-F", &fields])?;
    let lines = lines::<9>(&printed)?;
    lines
        .into_iter()
        .map(|[index, name, layout, columns, rows, renames, active, last, zoomed]| {
            Ok(Window {
                index: number(&index)?,
                name,
                layout,
                columns: number(&columns)?,
                rows: number(&rows)?,
                automatic_rename: renames == "1" || renames == "on",
                active: active == "1",
                last: last == "1",
                zoomed: zoomed == "1",
                panes: Vec::new(),
            })
        })
        .collect()
}

fn panes(server: &Server, target: &str) -> Result<Vec<Pane>> {
    let fields = format(&[
        "pane_id",
        "pane_index",
        "pane_title",
        "pane_current_path",
        "pane_active",
        "pane_pid",
        "pane_current_command",
        "pane_start_command",
        "pane_dead",
        "history_size",
    ]);
    let printed = server.call(["list-panes", "-t", target, "-F", &fields])?;
    let lines = lines::<10>(&printed)?;
    lines
        .into_iter()
        .map(|[id, index, title, folder, active, process, program, start_command, dead, history]| {
            let process = number(&process)?;
            Ok(Pane {
                id,
                index: number(&index)?,
                title,
                folder,
                active: active == "1",
                argv: foreground(process),
                process,
                program,
                start_command,
                dead: dead == "1",
                history_lines: number(&history)?,
                scrollback: None,
            })
        })
        .collect()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::Program { command: "tmux".into(), reason: format!("'{text}' is no number") })
}

/// The command line of what runs in the foreground of a terminal whose first process is this one; empty if that is unknown.
fn foreground(process: i32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Behind the name, which stands in brackets and may hold anything: state, ppid, pgrp, session, tty, tpgid.
    let group = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(5)?.parse::<i32>().ok());
    let Some(group) = group.filter(|group| *group > 0) else { return Vec::new() };
    let bytes = fs::read(format!("/proc/{group}/cmdline")).unwrap_or_default();
    let words = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if words.is_empty() {
        return Vec::new();
    }
    words.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn scrollback(server: &Server, pane: &str, limits: Limits) -> Result<Vec<u8>> {
    let start = format!("-{}", limits.lines_max);
    let mut bytes = server.call(["capture-pane", "-p", "-e", "-J", "-S", &start, "-E", "-", "-t", pane])?;
    if bytes.len() > limits.bytes_max {
        let mut from = bytes.len() - limits.bytes_max;
        // From the beginning of a line on, where there is one.
        from += bytes[from..].iter().position(|b| *b == b'\n').map_or(0, |at| at + 1);
        bytes.drain(..from);
    }
    // Empty lines below the last text are the pane's room, not text.
    let end = bytes.iter().rposition(|b| !matches!(b, b'\n' | b' ')).map_or(0, |at| at + 1);
    bytes.truncate(end);
    if end > 0 {
        bytes.push(b'\n');
    }
    Ok(bytes)
}
