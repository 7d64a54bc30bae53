//! The parts of older turns that are worth keeping: errors with what ended them, decisions, prompts, last replies, results of tools. The rest,
//! the model's deliberation above all, is left out.

use std::collections::{BTreeMap, HashMap};

use parhelia_agent::transcript::window::{Piece, What};

use super::shorten::{self, shorten};

/// The rank of a part; the lower ones are kept first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// An error, and what ended it.
    Error,
    /// A decision of the user.
    Decision,
    Prompt,
    /// The last reply of a turn.
    Reply,
    /// The result of a tool.
    Result,
}

/// Pieces that are kept together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub rank: Rank,
    /// The pieces, shortened, each with its place in the conversation.
    pub pieces: Vec<(usize, Piece)>,
}

/// Tools by which a user decides: answers to questions, and approved plans.
const DECIDES: [&str; 3] = ["AskUserQuestion", "ExitPlanMode", "request_user_input"];
/// The words with which a call is answered that the user did not allow.
const REFUSED: &str = "The user doesn't want to";
/// Tools that change files.
const EDITS: [&str; 7] = ["Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch", "write_file", "replace"];
/// So many of the edits between an error and its end are named.
const EDITS_MAX: usize = 8;
const PROMPT_CHARACTERS_MAX: usize = 1_200;
const REPLY_CHARACTERS_MAX: usize = 1_200;
const CALL_CHARACTERS_MAX: usize = 300;

/// A call and its result, by their places.
#[derive(Clone, Copy)]
struct Exchange {
    call: Option<usize>,
    result: usize,
}

/// Finds the parts of pieces that begin at a place of the conversation.
pub(super) fn parts(pieces: &[Piece], from: usize) -> Vec<Part> {
    let mut story = Story { pieces, from, parts: Vec::new() };
    story.exchanges();
    story.prompts();
    story.replies();
    story.parts.sort_by_key(|part| part.pieces.first().map(|(at, _)| *at));
    story.parts
}

struct Story<'a> {
    pieces: &'a [Piece],
    from: usize,
    parts: Vec<Part>,
}

impl Story<'_> {
    fn add(&mut self, rank: Rank, kept: impl IntoIterator<Item = (usize, Piece)>) {
        let mut pieces: Vec<_> = kept.into_iter().map(|(at, piece)| (at + self.from, piece)).collect();
        pieces.sort_by_key(|(at, _)| *at);
        self.parts.push(Part { rank, pieces });
    }

    fn exchanges(&mut self) {
        let mut calls: HashMap<&str, usize> = HashMap::new();
        // Of each subject the first error that nothing has ended.
        let mut open: BTreeMap<String, Exchange> = BTreeMap::new();
        // Of the same call the last result.
        let mut results: BTreeMap<(String, String), Exchange> = BTreeMap::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            let id = piece.call.as_deref().unwrap_or_default();
            match piece.what {
                What::Call => _ = calls.insert(id, at),
                What::Result => {
                    let exchange = Exchange { call: calls.remove(id), result: at };
                    let call = exchange.call.map(|at| &self.pieces[at]);
                    let tool = piece.tool.as_deref().unwrap_or_default();
                    if DECIDES.contains(&tool) && !piece.is_error || piece.text.contains(REFUSED) {
                        self.add(Rank::Decision, self.kept(exchange, shorten::ERROR));
                        continue;
                    }
                    let subject = subject(call.unwrap_or(piece));
                    if piece.is_error {
                        // What fails again says the same again.
                        open.entry(subject).or_insert(exchange);
                    } else if let Some(first) = open.remove(&subject) {
                        self.resolved(first, exchange);
                    } else {
                        let arguments = call.map_or_else(|| at.to_string(), |call| call.text.clone());
                        results.insert((tool.to_owned(), arguments), exchange);
                    }
                }
                _ => {}
            }
        }
        for first in open.into_values() {
            self.add(Rank::Error, self.kept(first, shorten::ERROR));
        }
        for last in results.into_values() {
            self.add(Rank::Result, self.kept(last, shorten::OUTPUT));
        }
    }

    /// An error with the edits behind it and the call that succeeded.
    fn resolved(&mut self, first: Exchange, last: Exchange) {
        let mut kept = self.kept(first, shorten::ERROR);
        let between = self.pieces.iter().enumerate().take(last.result).skip(first.result + 1);
        let is_edit = |piece: &Piece| piece.what == What::Call && piece.tool.as_deref().is_some_and(|tool| EDITS.contains(&tool));
        let edits = between.filter(|(at, piece)| is_edit(piece) && Some(*at) != last.call);
        // The last of them are nearest to what has helped.
        let edits: Vec<_> = edits.collect::<Vec<_>>().into_iter().rev().take(EDITS_MAX).collect();
        kept.extend(edits.into_iter().map(|(at, piece)| (at, call(piece))));
        kept.extend(self.kept(last, shorten::ERROR));
        self.add(Rank::Error, kept);
    }

    fn kept(&self, exchange: Exchange, keep: shorten::Keep) -> Vec<(usize, Piece)> {
        let result = &self.pieces[exchange.result];
        let shortened = Piece { text: shorten(&result.text, keep), ..result.clone() };
        let call = exchange.call.map(|at| (at, call(&self.pieces[at])));
        call.into_iter().chain([(exchange.result, shortened)]).collect()
    }

    /// Prompts; of those that say the same the last.
    fn prompts(&mut self) {
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, piece) in self.pieces.iter().enumerate().filter(|(_, piece)| piece.what == What::Prompt) {
            last.insert(piece.text.trim(), at);
        }
        for at in last.into_values() {
            let piece = &self.pieces[at];
            let text = parhelia_agent::briefing::without_briefing(&piece.text);
            let text = shorten::middle_out(text.trim_end(), PROMPT_CHARACTERS_MAX);
            self.add(Rank::Prompt, [(at, Piece { text, ..piece.clone() })]);
        }
    }

    /// The last reply of each turn, which says how it ended; those before it deliberate.
    fn replies(&mut self) {
        let mut last: Vec<usize> = Vec::new();
        let mut is_begun = true;
        for (at, piece) in self.pieces.iter().enumerate() {
            match piece.what {
                What::Prompt => is_begun = true,
                What::Reply if is_begun => {
                    last.push(at);
                    is_begun = false;
                }
                What::Reply => last.iter_mut().rev().take(1).for_each(|known| *known = at),
                _ => {}
            }
        }
        for at in last {
            let piece = &self.pieces[at];
            let text = shorten::middle_out(piece.text.trim_end(), REPLY_CHARACTERS_MAX);
            self.add(Rank::Reply, [(at, Piece { text, ..piece.clone() })]);
        }
    }
}

/// A call, as short as says what it did.
fn call(piece: &Piece) -> Piece {
    let text = match &piece.about {
        Some(about) if piece.text.chars().count() > CALL_CHARACTERS_MAX => about,
        _ => &piece.text,
    };
    Piece { text: shorten::beginning(text, CALL_CHARACTERS_MAX), ..piece.clone() }
}

/// The thing that a call is about, so that its next success ends its failure: of a command its first two words, for a command is seldom
/// repeated with the same flags.
fn subject(piece: &Piece) -> String {
    let tool = piece.tool.as_deref().unwrap_or_default();
    let about = piece.about.as_deref().unwrap_or(&piece.text);
    let is_path = EDITS.contains(&tool) || about.starts_with('/');
    let words = |text: &str| {
        // A command behind `cd folder &&` is the one that is meant.
        let text = text.rsplit("&& ").next().unwrap_or(text);
        let is_word = |word: &&str| !word.starts_with('-') && !word.contains('=');
        text.split_whitespace().filter(is_word).take(2).collect::<Vec<_>>().join(" ")
    };
    let about = if is_path { about.trim().to_owned() } else { words(about) };
    format!("{tool} {about}")
}
