//! A briefing with what is kept of an earlier conversation that the agent does not know any more.

use std::path::{Path, PathBuf};

use parhelia_agent::transcript::window::Piece;
use parhelia_store::{Store, id::Ulid};

use super::{Injection, Input, Why, render};
use crate::budget::{Budget, characters, tokens};
use crate::window::{
    kept::{self, Which},
    of_checkpoint, of_transcript,
};

/// No more of a transcript is read while an agent waits, from its end.
const READ_BYTES_MAX: u64 = 16 << 20;

/// The share of the briefing itself, in percent, where errors and decisions of the conversation need the rest.
const BRIEFING_PERCENT: usize = 85;

/// The pieces of the earlier conversation: of one that was compacted where it nearly filled the model's window, of one that another takes
/// the place of in any case. `live` is the transcript that goes on. Not to know them is no reason to say nothing else.
pub fn earlier(store: &Store, input: &Input, live: Option<&Path>, window_tokens: u64) -> Option<Vec<Piece>> {
    match input.why {
        Why::Forgotten => {
            let windows = of_transcript(live?, READ_BYTES_MAX).ok()?;
            Some(kept::compacted(&windows, window_tokens)?.to_vec())
        }
        Why::Replaced | Why::Cleared => {
            let path = input.transcript.as_ref().map(PathBuf::from).filter(|path| path.is_file());
            let windows = path.and_then(|path| of_transcript(&path, READ_BYTES_MAX).ok()).or_else(|| {
                let checkpoint = store.view().checkpoint(input.checkpoint.parse::<Ulid>().ok()?).ok()??;
                of_checkpoint(store, &checkpoint, READ_BYTES_MAX).ok()?
            });
            Some(kept::replaced(&windows?).to_vec())
        }
        Why::Resumed | Why::Incomplete | Why::Earlier => None,
    }
}

/// Renders an input, and behind it what is kept of an earlier conversation, of whose tokens the second number tells.
pub fn render_with(input: &Input, earlier: Option<&[Piece]>, budget: Budget) -> (Injection, usize) {
    let Some(pieces) = earlier else { return (render(input, budget), 0) };
    let first = render(input, budget.part(BRIEFING_PERCENT));
    let lasting = kept::words(pieces, Which::Lasting, &first.text, budget.minus(&first.text)).unwrap_or_default();
    let mut said = render(input, budget.minus(&lasting));
    let own = said.text.len();
    said.text.push_str(&lasting);
    // Results of tools can be had again: they take what is left.
    if let Some(results) = kept::words(pieces, Which::Results, &said.text, budget.minus(&said.text)) {
        said.text.push_str(&results);
    }
    (said.characters, said.tokens) = (characters(&said.text), tokens(&said.text));
    let kept = tokens(&said.text[own..]);
    (said, kept)
}
