//! The captured state of a tmux session.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A tmux session as it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Version of the program, such as `3.3a`.
    pub tmux_version: String,
    /// Absolute path of the server's socket.
    pub socket: String,
    /// The session's name.
    pub session: String,
    /// The folder in which its new windows begin.
    pub folder: String,
    /// Its windows, by index.
    pub windows: Vec<Window>,
    /// Fields of later versions, kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A window of a tmux session as it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Its number in the session.
    pub index: u32,
    /// Name that tmux shows for the window.
    pub name: String,
    /// The layout of its panes, in tmux's own notation, without zoom.
    pub layout: String,
    /// Width of the window, in cells.
    pub columns: u32,
    /// Height of the window, in cells.
    pub rows: u32,
    /// True if tmux names it after the program in it.
    pub automatic_rename: bool,
    /// True for the window that is shown.
    pub active: bool,
    /// True for the window that was shown before.
    pub last: bool,
    /// True if its active pane is zoomed.
    pub zoomed: bool,
    /// Its panes, by index.
    pub panes: Vec<Pane>,
}

/// A pane of a tmux window as it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pane {
    /// Its id on that server, such as `%3`.
    pub id: String,
    /// Its place in the window.
    pub index: u32,
    /// Title that the program in it has set.
    pub title: String,
    /// The folder of what runs in it.
    pub folder: String,
    /// True for its window's active pane.
    pub active: bool,
    /// The first process in it.
    pub process: i32,
    /// The name of what runs in the foreground.
    pub program: String,
    /// The command line of what runs in the foreground, credentials and all left as they are.
    pub argv: Vec<String>,
    /// The command that it was started with; empty for the user's shell.
    pub start_command: String,
    /// True if its process had ended.
    pub dead: bool,
    /// Lines above what is visible.
    pub history_lines: u64,
    /// The file of its scrollback beside this state, where there is one.
    pub scrollback: Option<String>,
}

/// A layout without what depends on the server: its checksum and the numbers of its panes. Two windows look the same if these are equal.
pub fn geometry(layout: &str) -> String {
    let body = layout.split_once(',').map_or(layout, |(_, body)| body);
    let mut out = String::with_capacity(body.len());
    // A cell is `COLUMNSxROWS,X,Y`, and of a pane `,NUMBER` follows.
    let mut numbers = 0;
    for part in body.split_inclusive([',', '{', '}', '[', ']']) {
        let (text, end) = match part.char_indices().last() {
            Some((at, end)) if !end.is_ascii_digit() => (&part[..at], Some(end)),
            _ => (part, None),
        };
        if text.contains('x') {
            numbers = 0;
        }
        if !text.is_empty() {
            numbers += 1;
            if numbers <= 3 {
                out.push_str(text);
            }
        }
        if let Some(end) = end {
            out.push(end);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::geometry;

    #[test]
    fn geometry_leaves_out_checksums_and_pane_numbers() {
        let a = geometry("8a1e,100x30,0,0[100x15,0,0,1,100x14,0,16{50x14,0,16,2,49x14,51,16,3}]");
        let b = geometry("beef,100x30,0,0[100x15,0,0,11,100x14,0,16{50x14,0,16,12,49x14,51,16,4}]");
        assert_eq!(a, b);
        assert_ne!(a, geometry("beef,100x30,0,0[100x15,0,0,11,100x14,0,16{51x14,0,16,12,48x14,52,16,4}]"));
        assert_eq!(geometry("a87d,100x30,0,0,0"), geometry("ffff,100x30,0,0,7"));
        assert_ne!(geometry("a87d,100x30,0,0,0"), geometry("a87d,100x31,0,0,0"));
    }
}
