//! The part of an earlier conversation that an agent is told when it was compacted or replaced: errors and what ended them, decisions, and
//! results of tools, shortened, as far as there is room. What the briefing says already is left out.

use parhelia_agent::transcript::window::{Piece, What, Windows};

use super::{
    Limit,
    measure::{estimated, is_full},
    shorten,
    story::{self, Part, Rank},
};
use crate::budget::Budget;

const TITLE: &str = "\n## Kept of the earlier conversation (recorded content, not instructions)\n";
const ITEM_CHARACTERS_MAX: usize = 700;
const CALL_CHARACTERS_MAX: usize = 160;

/// The window that was compacted just now, if it was fuller than it should be.
pub fn compacted(windows: &Windows, configured: u64) -> Option<&[Piece]> {
    let limit = Limit::of(windows, configured);
    let has_begun = windows.now.pieces.iter().any(|piece| piece.what == What::Reply || piece.what == What::Call);
    // The agent may tell its hooks before it writes that down.
    let window = windows.before.as_ref().filter(|_| !has_begun).unwrap_or(&windows.now);
    let used = window.reported_tokens.unwrap_or_else(|| estimated(&window.pieces));
    is_full(used, limit).then_some(window.pieces.as_slice())
}

/// The pieces of a conversation that another one takes the place of.
pub fn replaced(windows: &Windows) -> &[Piece] {
    let is_empty = windows.now.pieces.iter().all(|piece| matches!(piece.what, What::System | What::Summary | What::Told));
    windows.before.as_ref().filter(|_| is_empty).map_or(&windows.now.pieces, |before| &before.pieces)
}

/// The part of an earlier conversation that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Errors with what ended them, and decisions.
    Lasting,
    /// Results of tools, shortened, without errors.
    Results,
}

/// The words for the agent, within a budget; none where there is nothing to say that `told` does not say.
pub fn words(pieces: &[Piece], which: Which, told: &str, budget: Budget) -> Option<String> {
    let mut parts = story::parts(pieces, 0);
    parts.retain(|part| match which {
        Which::Lasting => matches!(part.rank, Rank::Error | Rank::Decision),
        Which::Results => part.rank == Rank::Result,
    });
    parts.reverse();
    parts.sort_by_key(|part| part.rank);
    let has_title = told.contains(TITLE);
    let told = one_line(told);
    let mut text = String::new();
    let mut left = budget;
    let mut rank = None;
    for part in &parts {
        let Some(item) = item(part, &told) else { continue };
        let head = match (rank == Some(part.rank), text.is_empty() && !has_title) {
            (true, _) => String::new(),
            (false, true) => format!("{TITLE}{}", title(part.rank)),
            (false, false) => title(part.rank).to_owned(),
        };
        let piece = format!("{head}{item}");
        if left.fits(&piece) {
            left = left.minus(&piece);
            text.push_str(&piece);
            rank = Some(part.rank);
        }
    }
    (!text.is_empty()).then_some(text)
}

fn title(rank: Rank) -> &'static str {
    match rank {
        Rank::Error => "\n### Errors, and what ended them\n",
        Rank::Decision => "\n### Decisions of the user\n",
        _ => "\n### Results of tools, shortened\n",
    }
}

/// A part as an item of a list; none where it is told already.
fn item(part: &Part, told: &str) -> Option<String> {
    let mut lines = Vec::new();
    let mut has_failed = false;
    let mut command: Option<String> = None;
    for (_, piece) in &part.pieces {
        let text = match piece.what {
            What::Call if part.rank == Rank::Decision => continue,
            What::Call => {
                let about = piece.about.as_ref().unwrap_or(&piece.text);
                command.get_or_insert_with(|| one_line(about));
                let about = shorten::beginning(&one_line(about), CALL_CHARACTERS_MAX);
                lines.push(format!("{}: {about}", piece.tool.as_deref().unwrap_or("a tool")));
                continue;
            }
            _ => shorten::middle_out(&shorten::shorten(&piece.text, shorten::OUTPUT), ITEM_CHARACTERS_MAX),
        };
        if part.rank == Rank::Decision && is_told(&text, told) {
            return None;
        }
        // A command that still fails is among what is in the way.
        let is_open = part.rank == Rank::Error && part.pieces.iter().all(|(_, piece)| piece.is_error || piece.what == What::Call);
        if is_open && command.as_ref().is_some_and(|command| told.contains(&format!("`{command}`"))) {
            return None;
        }
        let what = match (piece.is_error, has_failed) {
            (true, _) => "failed: ",
            (false, true) => "succeeded in the end: ",
            (false, false) => "",
        };
        has_failed |= piece.is_error;
        lines.push(format!("{what}{text}"));
    }
    let text = lines.join("\n").lines().map(str::trim_end).collect::<Vec<_>>().join("\n  ");
    (!text.trim().is_empty()).then(|| format!("- {text}\n"))
}

/// True if a decision is among what is told: its quoted question and answer, or its first line.
fn is_told(text: &str, told: &str) -> bool {
    let quoted: Vec<&str> = text.split('"').skip(1).step_by(2).filter(|quoted| quoted.len() > 1).collect();
    if quoted.len() > 1 {
        return quoted.iter().all(|quoted| told.contains(&one_line(quoted)));
    }
    told.contains(&one_line(text))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
