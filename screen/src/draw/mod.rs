//! Drawing the state. Whatever is drawn goes through [`put`], behind which nothing steers a terminal.

mod footer;
mod header;
mod lists;
mod palette;
#[cfg(test)]
mod tests;
mod texts;

use ratatui::{
    Frame,
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

pub use self::palette::Palette;
use crate::{
    layout::{Areas, Pane, SIZE_MIN},
    state::{Overlay, State},
    text::{cut, one_line},
};

/// Draws header, panes, what lies over them, and the footer.
pub fn draw(frame: &mut Frame<'_>, state: &State, palette: Palette) {
    let (area, buffer) = (frame.area(), frame.buffer_mut());
    let Some(areas) = state.areas() else { return too_small(buffer, area) };
    header::draw(buffer, areas.header, state, palette);
    match state.overlay {
        Overlay::Help => texts::help(buffer, areas.body, state, palette),
        Overlay::Log => lists::log(buffer, areas.body, state, palette),
        Overlay::None => panes(buffer, &areas, state, palette),
    }
    let cursor = footer::draw(buffer, areas.footer, state, palette);
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
}

fn panes(buffer: &mut Buffer, areas: &Areas, state: &State, palette: Palette) {
    if let Some(area) = areas.files {
        lists::files(buffer, area, state, palette);
    }
    if let Some(area) = areas.diff {
        texts::diff(buffer, area, state, palette);
    }
    if let Some(area) = areas.conversation {
        texts::conversation(buffer, area, state, palette);
    }
    for area in [areas.diff, areas.conversation].into_iter().flatten().filter(|area| area.x > 0) {
        for y in area.y..area.bottom() {
            put(buffer, (area.x - 1, y), "│", palette.dim(), 1);
        }
    }
}

fn too_small(buffer: &mut Buffer, area: Rect) {
    let text =
        format!("The review needs {} columns and {} rows; here are {} and {}.", SIZE_MIN.0, SIZE_MIN.1, area.width, area.height);
    let mut rest = text.as_str();
    for y in area.y..area.bottom() {
        let fits = rest.len().min(area.width.into());
        put(buffer, (area.x, y), &rest[..fits], Style::default(), area.width);
        rest = rest[fits..].trim_start();
    }
}

/// Draws a text of at most so many columns; a longer one is cut, and says so. Returns the column behind it.
fn put(buffer: &mut Buffer, (x, y): (u16, u16), text: &str, style: Style, columns: u16) -> u16 {
    let text = cut(&one_line(text), columns.into());
    buffer.set_stringn(x, y, text, columns.into(), style).0
}

/// Draws the title of a pane, in its first row. Another one may stand at its right end.
fn title(buffer: &mut Buffer, area: Rect, (left, right): (&str, &str), has_keys: bool, palette: Palette) {
    let row = Rect { height: 1, ..area };
    let style = if has_keys { Style::default().add_modifier(Modifier::REVERSED | Modifier::BOLD) } else { palette.heading() };
    let columns = u16::try_from(crate::text::width(right)).unwrap_or(u16::MAX);
    let has_right = columns > 0 && columns + 10 < area.width;
    let room = if has_right { area.width - columns - 1 } else { area.width };
    buffer.set_style(row, style);
    put(buffer, (area.x, area.y), &format!(" {left}"), style, room);
    if has_right {
        put(buffer, (area.right() - columns - 1, area.y), right, style, columns);
    }
}

/// True if a pane has the keys.
fn has_keys(state: &State, pane: Pane) -> bool {
    state.focus == pane && state.overlay == Overlay::None
}
