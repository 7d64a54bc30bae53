//! Words that the verbs share which mark checkpoints: tags, links, annotations.

use std::{collections::BTreeSet, str::FromStr};

use parhelia_host::Refusal;
use parhelia_ledger::{Annotation, Issue, Marks};
use parhelia_screen::human;

use crate::exit::{Failure, Result};

/// Checkpoints or other things that a line names.
const SHOWN: usize = 3;

/// The things that words of the command line name. All of them are understood before anything is done.
pub fn parsed<T: FromStr<Err = Refusal>>(words: &[String]) -> Result<Vec<T>> {
    words.iter().map(|word| word.parse().map_err(Failure::from)).collect()
}

/// Names of things in a line.
pub fn listed(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| human::path(name.as_ref().as_bytes())).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The name of an issue: its id, where the tracker gives it one.
pub fn issue(issue: &Issue) -> String {
    human::path(issue.id.as_bytes())
}

/// An issue with the tracker that it was taken to be of.
pub fn issue_of(issue: &Issue) -> String {
    format!("{} ({})", self::issue(issue), issue.tracker)
}

/// The sentence about a link that no person has asked for.
pub const ASKED: &str =
    "Outside of the repository or team that your configuration names, nothing is written there until a person links it as well.";

/// An issue with its address, where its name does not have it.
pub fn issue_at(issue: &Issue) -> String {
    let is_elsewhere = issue.id != issue.url && issue.tracker != "beads";
    let at = if is_elsewhere { format!("  {}", human::path(issue.url.as_bytes())) } else { String::new() };
    format!("{}{at}", self::issue(issue))
}

/// The lines of an annotation: who made it and when, with its first line, and the other lines.
pub fn annotation(annotation: &Annotation) -> Vec<String> {
    let user = annotation.user.as_deref().unwrap_or("–");
    let head = format!("{} {}: ", human::local(annotation.timestamp), human::path(user.as_bytes()));
    let mut lines = annotation.text.lines().map(|line| human::path(line.replace('\t', "    ").as_bytes()));
    let first = head + &lines.next().unwrap_or_default();
    std::iter::once(first).chain(lines.map(|line| format!("  {line}").trim_end().to_owned())).collect()
}

/// The marks of a checkpoint, by label; of annotations the newest alone.
pub fn at_a_glance(marks: &Marks) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if !marks.tags.is_empty() {
        lines.push(("Tags", listed(&marks.tags)));
    }
    if !marks.links.is_empty() {
        lines.push(("Issues", marks.links.iter().map(issue).collect::<Vec<_>>().join(", ")));
    }
    let skipped = marks.annotations.len().saturating_sub(SHOWN);
    lines.extend(marks.annotations[skipped..].iter().filter_map(|note| Some(("Note", annotation(note).into_iter().next()?))));
    lines
}

/// The tags that are left, for a remark.
pub fn tags_text(tags: &BTreeSet<String>) -> String {
    format!("Its tags: {}.", listed(tags))
}
