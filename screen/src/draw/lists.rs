//! The list of files, and the session's checkpoints.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

use super::{Palette, has_keys, put, title};
use crate::{
    human,
    layout::Pane,
    state::{Counts, FileItem, LogItem, State},
    text::{cut_left, width},
};

/// Draws the list of changed files, the selected one in sight.
pub fn files(buffer: &mut Buffer, area: Rect, state: &State, palette: Palette) {
    let name = format!("{} ({})", Pane::Files.name(), human::number(state.files.len() as u64));
    let tab = if area.width == buffer.area.width { "Tab: diff, conversation" } else { "" };
    title(buffer, area, (&name, tab), has_keys(state, Pane::Files), palette);
    if state.files.is_empty() {
        let text = match &state.facts {
            None => "",
            Some(facts) if facts.base.is_none() => " Nothing to compare it with.",
            Some(_) => " No changes.",
        };
        put(buffer, (area.x, area.y + 1), text, palette.dim(), area.width);
    }
    let rows = area.y + 1..area.bottom();
    for (y, (number, file)) in rows.zip(state.files.iter().enumerate().skip(state.file.top)) {
        let is_selected = number == state.file.selected;
        self::file(buffer, Rect { y, height: 1, ..area }, file, is_selected, palette);
    }
}

fn file(buffer: &mut Buffer, row: Rect, file: &FileItem, is_selected: bool, palette: Palette) {
    let pieces = match file.counts {
        None | Some(Counts::Lines(0, 0)) => vec![],
        Some(Counts::Lines(added, removed)) => {
            vec![(format!("+{added}"), palette.good()), (format!(" -{removed}"), palette.bad())]
        }
        Some(Counts::Binary) => vec![("binary".to_owned(), palette.dim())],
        Some(Counts::TooLarge) => vec![("large".to_owned(), palette.dim())],
        Some(Counts::Unreadable) => vec![("unreadable".to_owned(), palette.bad())],
    };
    let columns: u16 = pieces.iter().map(|(text, _)| text.len() as u16).sum();
    let room = row.width.saturating_sub(columns + 4);
    put(buffer, (row.x + 1, row.y), &file.letter.to_string(), palette.letter(file.letter), 1);
    put(buffer, (row.x + 3, row.y), &cut_left(&file.path, room.into()), Style::default(), room);
    let mut x = row.right().saturating_sub(columns);
    for (text, style) in pieces {
        x = put(buffer, (x, row.y), &text, style, row.right().saturating_sub(x));
    }
    if is_selected {
        put(buffer, (row.x, row.y), ">", Style::default(), 1);
        buffer.set_style(row, palette.selected());
    }
}

/// Draws the session's checkpoints.
pub fn log(buffer: &mut Buffer, area: Rect, state: &State, palette: Palette) {
    let name = format!("Checkpoints ({})", human::number(state.log.len() as u64));
    title(buffer, area, (&name, "Enter shows one, Esc goes back"), true, palette);
    let rows = area.y + 1..area.bottom();
    for (y, (number, item)) in rows.zip(state.log.iter().enumerate().skip(state.log_list.top)) {
        let row = Rect { y, height: 1, ..area };
        let is_shown = state.facts.as_ref().is_some_and(|facts| facts.checkpoint == item.id);
        checkpoint(buffer, row, item, is_shown, state, palette);
        if number == state.log_list.selected {
            buffer.set_style(row, palette.selected());
        }
    }
}

fn checkpoint(buffer: &mut Buffer, row: Rect, item: &LogItem, is_shown: bool, state: &State, palette: Palette) {
    let mark = if is_shown { ">" } else { " " };
    let age = human::age(item.created_at, state.now);
    let style = if item.waits { palette.waits() } else { Style::default() };
    let style = if item.state == "rejected" { palette.bad() } else { style };
    let mut x = put(buffer, (row.x, row.y), &format!("{mark}{} ", item.id), Style::default(), row.width);
    for (text, columns, style) in [
        (item.state, 14, style),
        (item.trigger.as_str(), 11, Style::default()),
        (age.as_str(), 11, palette.dim()),
        (item.message.as_str(), usize::MAX, Style::default().add_modifier(Modifier::DIM)),
    ] {
        let fill = " ".repeat(columns.min(14).saturating_sub(width(text)));
        x = put(buffer, (x, row.y), &format!("{text}{fill}"), style, row.right().saturating_sub(x));
    }
}
