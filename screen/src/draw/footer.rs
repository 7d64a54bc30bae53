//! The last row: the line that is typed, a sentence, or the keys that matter most.

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::Style,
};

use super::{Palette, put};
use crate::{
    state::{Message, State},
    text::{cut_left, one_line, width, wrap},
};

/// The keys that are told all the time, the most important first.
const HINTS: &str = "? help  a approve  r reject  Enter diff  Tab pane  [ ] waiting  b base  L log  s shell  c continue  q quit";

/// Rows of a sentence.
const ROWS_MAX: usize = 6;

/// Draws it. Returns the place of the cursor while a line is typed.
pub fn draw(buffer: &mut Buffer, area: Rect, state: &State, palette: Palette) -> Option<Position> {
    if let Some(input) = &state.input {
        let x = put(buffer, (area.x, area.y), input.prompt(), palette.heading(), area.width);
        let room = area.right().saturating_sub(x + 1);
        let (before, behind) = input.text();
        let cursor = put(buffer, (x, area.y), &cut_left(&one_line(before), room.into()), Style::default(), room);
        put(buffer, (cursor, area.y), &one_line(behind), Style::default(), area.right().saturating_sub(cursor));
        return Some(Position::new(cursor.min(area.right().saturating_sub(1)), area.y));
    }
    match &state.message {
        Some(message) => say(buffer, area, message, palette),
        None => _ = put(buffer, (area.x, area.y), HINTS, palette.dim(), area.width),
    }
    None
}

/// Draws a sentence; a long one has further rows above the last one.
fn say(buffer: &mut Buffer, area: Rect, message: &Message, palette: Palette) {
    let style = if message.is_error { palette.bad() } else { palette.good() };
    let mut rows = Vec::new();
    wrap(&message.text, area.width.into(), true, |bytes| rows.push(&message.text[bytes]));
    rows.truncate(ROWS_MAX);
    let top = area.bottom().saturating_sub(rows.len() as u16);
    for (y, row) in (top..).zip(rows) {
        let fill = " ".repeat(usize::from(area.width).saturating_sub(width(row)));
        put(buffer, (area.x, y), &format!("{row}{fill}"), style, area.width);
    }
}
