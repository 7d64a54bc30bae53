//! The header: the session, the checkpoint and its state, what it is compared with, and figures.

use parhelia_store::projection::ApprovalStatus;
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
    let rows = [session(facts, state, palette), checkpoint(facts, palette), figures(facts, state)];
    for (y, pieces) in (area.y..).zip(rows) {
        let mut x = area.x;
        for (text, style) in pieces {
            x = put(buffer, (x, y), &text, style, area.right() - x);
        }
    }
}

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

fn figures(facts: &Facts, state: &State) -> Pieces {
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
    vec![(figures.join(", "), Style::default())]
}
