//! The header: the session, the checkpoint and its state, what it is compared with, and figures.

use parhelia_ledger::ApprovalStatus;
use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::{Palette, put};
use crate::{
    human,
    state::{Base, Facts, State},
    words,
};

pub fn draw(buffer: &mut Buffer, area: Rect, state: &State, palette: Palette) {
    let Some(facts) = &state.facts else {
        put(buffer, (area.x, area.y), "Reading the session…", palette.dim(), area.width);
        return;
    };
    let rows = [session(facts, state, palette), checkpoint(facts, palette), figures(facts, state, palette)];
    for (y, pieces) in (area.y..).zip(rows) {
        let mut x = area.x;
        for (text, style) in pieces {
            x = put(buffer, (x, y), &text, style, area.right() - x);
        }
    }
}

/// So many paths that are left out are named.
const PATHS_MAX: usize = 3;

type Pieces = Vec<(String, Style)>;

fn session(facts: &Facts, state: &State, palette: Palette) -> Pieces {
    let agent = if facts.agent.is_empty() { String::new() } else { format!("{}, ", facts.agent) };
    let mut pieces = vec![
        (format!("Session {}", facts.session), palette.heading()),
        (format!("  {agent}{}, {}", facts.status, human::ago(facts.created_at, state.now)), Style::default()),
    ];
    if state.waiting() > 0 {
        pieces.push((format!("  {} waiting", human::number(state.waiting() as u64)), palette.waits()));
    }
    pieces
}

fn checkpoint(facts: &Facts, palette: Palette) -> Pieces {
    let style = match facts.approval.as_ref().map(|approval| approval.status) {
        Some(ApprovalStatus::Pending) => palette.waits(),
        Some(ApprovalStatus::Rejected) => palette.bad(),
        Some(_) => palette.good(),
        None => palette.dim(),
    };
    vec![
        (format!("{} {}  ", facts.checkpoint, facts.trigger), Style::default()),
        (words::decision(facts.approval.as_ref()), style),
    ]
}

fn figures(facts: &Facts, state: &State, palette: Palette) -> Pieces {
    let base = match (facts.base, facts.base_approved, state.base) {
        (None, ..) => "the session's first checkpoint".to_owned(),
        (Some(id), true, _) => format!("since {id} (approved)"),
        (Some(id), false, Base::Parent) => format!("since {id} (the one before)"),
        (Some(id), false, Base::Approved) => format!("since {id} (the first)"),
    };
    let mut figures = vec![base];
    figures.extend(facts.turns.map(|turns| human::count(turns, "turn")));
    figures.extend(facts.tokens.map(|tokens| human::count(tokens, "token")));
    figures.extend(facts.cost_usd.map(human::cost));
    figures.extend((facts.active_seconds > 0).then(|| human::span(facts.active_seconds)));
    figures.extend((facts.errors > 0).then(|| human::count(facts.errors, "error")));
    let (failed, questions) = state.marked;
    figures.extend((failed > 0).then(|| human::count(failed as u64, "failed command")));
    figures.extend((questions > 0).then(|| human::count(questions as u64, "open question")));
    let mut pieces = vec![(figures.join(", "), Style::default())];
    // It comes first: whoever decides must know that the files below are not all.
    if !facts.unseen.is_empty() {
        pieces.insert(0, (format!("{}  ", unseen(facts)), palette.bad()));
    }
    pieces
}

/// Everything that rules keep out of the screen, in a line.
fn unseen(facts: &Facts) -> String {
    let unseen = &facts.unseen;
    if unseen.by_rule.is_empty() {
        return words::unseen(unseen, facts.base_approved).join("; ");
    }
    let paths: Vec<&str> = unseen.by_rule.iter().flat_map(|by| &by.paths).take(PATHS_MAX).map(String::as_str).collect();
    let more = if unseen.entries() > paths.len() as u64 { ", …" } else { "" };
    format!("Not shown, left out by rules: {} ({}{more})", human::count(unseen.entries(), "entry"), paths.join(", "))
}
