//! Finding what is known by words, and the part of it that a session should begin with.

use parhelia_store::name::step::Step;
use std::collections::BTreeSet;

use parhelia_agent::briefing::KNOWN_OF_PROJECT;
use parhelia_store::name;

use super::document::{AddedBy, Entry, Memory, Section};
use crate::budget::Budget;

/// So many earlier sessions are named at the beginning of one.
const SESSIONS_MAX: usize = 5;

/// A piece of knowledge that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit<'a> {
    /// Section of the document that has it.
    pub section: Section,
    /// The entry, as the document has it.
    pub entry: &'a Entry,
    /// Entries of the same name that say something else.
    pub contradicts: Vec<&'a Entry>,
}

/// Entries that have words of a query, those with most of them first, and of those the newest. Without a word, all of them, by section.
pub fn recall<'a>(memory: &'a Memory, query: &str) -> Vec<Hit<'a>> {
    let wanted = words(query);
    let mut found: Vec<(usize, Section, &Entry)> = memory
        .knowledge
        .all()
        .map(|(section, entry)| (matching(&wanted, section, entry), section, entry))
        .filter(|(matching, ..)| wanted.is_empty() || *matching > 0)
        .collect();
    found.sort_by(|(one, in_one, first), (other, in_other, second)| {
        other.cmp(one).then(in_one.cmp(in_other)).then(second.added_at.cmp(&first.added_at))
    });
    let hit = |(_, section, entry)| Hit { section, entry, contradicts: memory.knowledge.contradictory(section, entry) };
    found.into_iter().map(hit).collect()
}

fn matching(wanted: &BTreeSet<String>, section: Section, entry: &Entry) -> usize {
    let key = entry.key.as_deref().unwrap_or_default();
    let has = words(&format!("{section} {key} {} {}", entry.description, entry.key_files.join(" ")));
    // A word that goes on counts as well: `test` finds `tests`.
    wanted
        .iter()
        .filter(|word| has.iter().any(|known| known == *word || (word.len() > 3 && known.starts_with(word.as_str()))))
        .count()
}

/// The words of a text, in small letters.
fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// The knowledge that a session begins with: as much as fits, first what has to do with it (`about`: its task, branch, files), and of the rest
/// what concerns every session. Nothing where nothing is known.
pub fn relevant(memory: &Memory, about: &str, budget: Budget) -> Option<String> {
    let wanted = words(about);
    let mut ranked: Vec<(usize, Section, &Entry)> =
        memory.knowledge.all().map(|(section, entry)| (matching(&wanted, section, entry), section, entry)).collect();
    ranked.sort_by(|(one, in_one, first), (other, in_other, second)| {
        // What an agent has written leads nothing.
        let is_agents = |entry: &Entry| entry.added_by == AddedBy::Agent;
        is_agents(first)
            .cmp(&is_agents(second))
            .then((*other > 0).cmp(&(*one > 0)))
            .then(in_one.cmp(in_other))
            .then(other.cmp(one))
            .then(second.added_at.cmp(&first.added_at))
    });
    let entries = ranked.into_iter().map(|(_, section, entry)| line(memory, section, entry));
    let sessions = memory.session_history.iter().rev().take(SESSIONS_MAX);
    let sessions =
        sessions.map(|one| plain(&format!("earlier session ({}, {}): {}", one.outcome, day(one.timestamp), one.summary)));
    let lines: Vec<String> = entries.chain(sessions).collect();
    let head = |shown: usize| {
        let rest = match lines.len() - shown {
            0 => String::new(),
            more => format!(" {more} more are found with {}.", Step::Recall),
        };
        format!("{KNOWN_OF_PROJECT}, newest word on each; check it where it matters.{rest}")
    };
    let mut shown: Vec<&str> = Vec::new();
    for line in &lines {
        shown.push(line);
        if !budget.fits(&format!("{}\n- {}", head(shown.len()), shown.join("\n- "))) {
            shown.pop();
        }
    }
    (!shown.is_empty()).then(|| format!("{}\n- {}", head(shown.len()), shown.join("\n- ")))
}

/// An entry in a line.
fn line(memory: &Memory, section: Section, entry: &Entry) -> String {
    let key = entry.key.as_ref().map(|key| format!(".{key}")).unwrap_or_default();
    let by = entry.added_by.name();
    let said = said(entry);
    let mut text = format!("{section}{key}: {said} ({}, by: {by}", day(entry.added_at));
    if !entry.key_files.is_empty() {
        text.push_str(&format!("; files: {}", entry.key_files.join(", ")));
    }
    if !memory.knowledge.contradictory(section, entry).is_empty() {
        text.push_str("; CONTRADICTED by another entry of the same name");
    }
    plain(&format!("{text})"))
}

/// An entry's text, as an agent is told it: what another agent has written is quoted, so that nobody takes it for a word of a person's.
pub fn said(entry: &Entry) -> String {
    match entry.added_by {
        AddedBy::Agent => {
            format!("an agent wrote, unchecked: {:?}", entry.description.split_whitespace().collect::<Vec<_>>().join(" "))
        }
        AddedBy::Person | AddedBy::Suggestion => entry.description.clone(),
    }
}

fn day(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// A text on one line, without what steers a terminal.
fn plain(text: &str) -> String {
    name::display(text.split_whitespace().collect::<Vec<_>>().join(" ").as_bytes())
}
