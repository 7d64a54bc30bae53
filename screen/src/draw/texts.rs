//! Panes of text: the diff, the conversation, the help.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

use super::{Palette, has_keys, put, title};
use crate::{
    layout::Pane,
    state::{SIGN_COLUMNS, State},
    text::{Row, Text, Tone, one_line},
};

/// Draws the diff of the selected file.
pub fn diff(buffer: &mut Buffer, area: Rect, state: &State, palette: Palette) {
    let file = state.files.get(state.file.selected);
    let name = file.map_or_else(|| Pane::Diff.name().to_owned(), |file| file.path.clone());
    let place = if state.is_wide { format!("Esc: back  {}", place(&state.diff)) } else { place(&state.diff) };
    title(buffer, area, (&name, &place), has_keys(state, Pane::Diff), palette);
    if file.is_some() && state.diff_of != Some(state.file.selected) && state.diff.lines.is_empty() {
        put(buffer, (area.x, area.y + 1), " Reading…", palette.dim(), area.width);
        return;
    }
    text(buffer, below_title(area), &state.diff, palette);
}

/// Draws the pane with the conversation.
pub fn conversation(buffer: &mut Buffer, area: Rect, state: &State, palette: Palette) {
    let place = place(&state.conversation);
    title(buffer, area, (Pane::Conversation.name(), &place), has_keys(state, Pane::Conversation), palette);
    text(buffer, below_title(area), &state.conversation, palette);
}

/// Draws the keys.
pub fn help(buffer: &mut Buffer, area: Rect, state: &State, palette: Palette) {
    title(buffer, area, ("Keys", &format!("Esc: back  {}", place(&state.help))), true, palette);
    text(buffer, below_title(area), &state.help, palette);
}

fn below_title(area: Rect) -> Rect {
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

/// The last row in sight, of how many; nothing where all are in sight.
fn place(text: &Text) -> String {
    let (top, rows) = text.place();
    let last = top + text.shown().len();
    if rows > text.shown().len() { format!("{last}/{rows}") } else { String::new() }
}

fn text(buffer: &mut Buffer, area: Rect, text: &Text, palette: Palette) {
    for (y, row) in (area.y..area.bottom()).zip(text.shown()) {
        self::row(buffer, Rect { y, height: 1, ..area }, text, row, palette);
    }
}

/// Draws a row: the sign of its line where that begins, and its text in its colours.
fn row(buffer: &mut Buffer, area: Rect, text: &Text, row: &Row, palette: Palette) {
    let line = &text.lines[row.line];
    let (sign, x) = (if row.bytes.start == 0 { line.sign } else { "" }, area.x + SIGN_COLUMNS as u16);
    if matches!(line.tone, Tone::Added | Tone::Removed) || !sign.is_empty() {
        put(buffer, (area.x, area.y), if sign.is_empty() { " " } else { sign }, palette.sign(line.tone), 1);
    }
    let (mut at, mut column) = (row.bytes.start, x);
    let coloured = line.colours.iter().map(|(end, colour)| (*end, palette.code(*colour)));
    // What has no colours has that of its line.
    let rest = [(row.bytes.end, if line.colours.is_empty() { palette.tone(line.tone) } else { Style::default() })];
    for (end, style) in coloured.chain(rest) {
        let end = end.min(row.bytes.end);
        let Some(piece) = line.text.get(at..end).filter(|piece| !piece.is_empty()) else { continue };
        // No cut: the row was made to fit, and a mark would hide a character.
        column = buffer.set_stringn(column, area.y, one_line(piece), area.right().saturating_sub(column).into(), style).0;
        at = end;
    }
    if text.found == Some(row.line) {
        let marked = Style::default().add_modifier(Modifier::REVERSED);
        buffer.set_style(Rect { x, width: area.right().saturating_sub(x), ..area }, marked);
    }
}
