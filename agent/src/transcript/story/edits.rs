//! Edits of files, and those that were undone: by the opposite edit, by writing what the file was before, or by git.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    super::{
        json::clipped,
        limits::{EDITS_MAX, EXCERPT_BYTES_MAX, REVERTS_MAX, STATES_MAX},
    },
    command::Part,
    failures::Failure,
    hash, one_line, push,
};

/// A change of a file by a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// The file, as the agent gave it.
    pub path: String,
    /// Texts that were replaced, and what by.
    pub edits: Vec<(String, String)>,
    /// The whole content before, where it is known.
    pub before: Option<String>,
    /// The whole content now, where it is known.
    pub after: Option<String>,
}

impl Change {
    /// Lines that it adds and removes.
    pub fn lines(&self) -> (u64, u64) {
        if let (Some(after), true) = (&self.after, self.edits.is_empty()) {
            return line_counts(self.before.as_deref().unwrap_or_default(), after);
        }
        let counts = self.edits.iter().map(|(old, new)| line_counts(old, new));
        counts.fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1))
    }
}

/// Lines that one text has and the other has not, beside those that both begin and end with.
fn line_counts(old: &str, new: &str) -> (u64, u64) {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let begin = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[begin..], &new[begin..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    ((new.len() - end) as u64, (old.len() - end) as u64)
}

/// An edit. Texts are known by their hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Edit {
    path: String,
    old: u64,
    new: u64,
    /// The beginning of what it put there.
    excerpt: String,
    at: u64,
}

/// A content that a file has had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct State {
    path: u64,
    content: u64,
    at: u64,
}

/// Edits of one file that were undone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Revert {
    /// The file.
    pub path: String,
    /// The beginning of what the last of them had put there.
    pub excerpt: String,
    /// The number of edits.
    pub edits: u64,
    /// The command that failed last between the edits and their end, and why.
    pub failed: Option<(String, String)>,
    /// The command that undid them; none where an edit did.
    pub by: Option<String>,
    /// Offset in the transcript.
    pub at: u64,
    /// The texts of the last edit.
    last: (u64, u64),
}

/// The last edits, and those that were undone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Edits {
    edits: VecDeque<Edit>,
    /// Offset in the transcript of the last commit: what was edited before it is no more undone by git.
    pub committed_at: u64,
    states: VecDeque<State>,
    pub reverts: VecDeque<Revert>,
}

impl Edits {
    /// A file was changed. `failure` is the command that failed last.
    pub fn changed(&mut self, change: Change, at: u64, failure: Option<&Failure>) {
        let path = hash(&change.path);
        let edits = match (change.edits.is_empty(), &change.after) {
            (true, Some(after)) => vec![(change.before.clone().unwrap_or_default(), after.clone())],
            _ => change.edits,
        };
        let hashes: Vec<(u64, u64)> = edits.iter().map(|(old, new)| (hash(old), hash(new))).collect();
        if let Some(before) = change.before.as_deref().map(hash)
            && self.states.iter().rfind(|state| state.path == path).is_none_or(|state| state.content != before)
        {
            // As it was before this record, and after any edit that is known.
            push(&mut self.states, State { path, content: before, at: at.saturating_sub(1) }, STATES_MAX);
        }
        let after = change.after.as_deref().map(hash);
        let earlier =
            self.states.iter().filter(|state| state.path == path && Some(state.content) == after).map(|state| state.at).next();
        let undone = match earlier {
            Some(since) => self.take(|edit| edit.path == change.path && edit.at > since),
            None => self.opposites(&change.path, &hashes),
        };
        if let Some(after) = after.filter(|_| earlier.is_none()) {
            push(&mut self.states, State { path, content: after, at }, STATES_MAX);
        }
        if !undone.is_empty() {
            return self.reverted(undone, None, at, failure);
        }
        // What is done again was no mistake.
        self.reverts.retain(|revert| revert.path != change.path || !hashes.contains(&revert.last));
        for ((_, new), (old_hash, new_hash)) in edits.iter().zip(hashes) {
            let edit = Edit { path: change.path.clone(), old: old_hash, new: new_hash, excerpt: excerpt(new), at };
            push(&mut self.edits, edit, EDITS_MAX);
        }
    }

    /// Removes the edits to which all of these are the opposites; none where one of them is no opposite.
    fn opposites(&mut self, path: &str, hashes: &[(u64, u64)]) -> Vec<Edit> {
        let find = |(old, new): &(u64, u64)| {
            self.edits.iter().rposition(|edit| edit.path == path && (edit.old, edit.new) == (*new, *old))
        };
        let Some(mut places) = hashes.iter().map(find).collect::<Option<Vec<usize>>>() else { return Vec::new() };
        places.sort_unstable();
        places.dedup();
        let mut taken: Vec<Edit> = places.into_iter().rev().filter_map(|place| self.edits.remove(place)).collect();
        taken.reverse();
        taken
    }

    fn take(&mut self, is_meant: impl Fn(&Edit) -> bool) -> Vec<Edit> {
        let (taken, kept) = std::mem::take(&mut self.edits).into_iter().partition(|edit| is_meant(edit));
        self.edits = kept;
        taken.into()
    }

    /// A command was run that may have undone edits of this conversation.
    pub fn restored(&mut self, part: &Part, at: u64, failure: Option<&Failure>) {
        let Some(restored) = Pathspec::of(part) else { return };
        let committed_at = self.committed_at;
        let mut undone = self.take(|edit| edit.at > committed_at && restored.has(&edit.path));
        while let Some(first) = undone.first().map(|edit| edit.path.clone()) {
            let (of_file, rest) = undone.into_iter().partition(|edit| edit.path == first);
            self.states.retain(|state| state.path != hash(&first));
            self.reverted(of_file, Some(one_line(&part.words.join(" "))), at, failure);
            undone = rest;
        }
    }

    fn reverted(&mut self, undone: Vec<Edit>, by: Option<String>, at: u64, failure: Option<&Failure>) {
        let (Some(first), Some(last)) = (undone.first(), undone.last()) else { return };
        let failed = failure.filter(|failure| failure.at > first.at).map(|failure| (failure.line.clone(), failure.error.clone()));
        let revert = Revert {
            path: last.path.clone(),
            excerpt: last.excerpt.clone(),
            edits: undone.len() as u64,
            failed,
            by,
            at,
            last: (last.old, last.new),
        };
        push(&mut self.reverts, revert, REVERTS_MAX);
    }
}

/// The first line of a text that says something.
fn excerpt(text: &str) -> String {
    let says = |line: &&str| line.chars().filter(|c| c.is_alphanumeric()).count() >= 3;
    let line = text.lines().find(says).or_else(|| text.lines().next()).unwrap_or_default();
    one_line(clipped(line.trim(), EXCERPT_BYTES_MAX))
}

/// Files that git put back to a commit.
enum Pathspec {
    All,
    Paths(Vec<String>),
}

impl Pathspec {
    fn of(part: &Part) -> Option<Self> {
        let has = |flags: &[&str]| part.words.iter().any(|word| flags.contains(&word.as_str()));
        let behind_verb = || part.operands().skip(1).map(|path| path.trim_end_matches('/').to_owned()).collect::<Vec<_>>();
        let paths = if part.is(&["git", "reset"]) && has(&["--hard"]) {
            return Some(Pathspec::All);
        } else if part.is(&["git", "restore"]) && (!has(&["--staged", "-S"]) || has(&["--worktree", "-W"])) {
            behind_verb()
        } else if part.is(&["git", "checkout"]) && !has(&["-b", "-B"]) {
            match part.words.iter().position(|word| word == "--") {
                Some(at) => part.words[at + 1..].to_vec(),
                // Others are branches.
                None => behind_verb().into_iter().filter(|path| path.contains(['.', '/'])).collect(),
            }
        } else {
            return None;
        };
        Some(if paths.iter().any(|path| path == ".") { Pathspec::All } else { Pathspec::Paths(paths) })
    }

    /// True if a file is meant, by its path or by that of a folder around it.
    fn has(&self, file: &str) -> bool {
        let Pathspec::Paths(paths) = self else { return true };
        let is_meant = |path: &String| {
            let path = path.trim_start_matches("./");
            let inner = format!("/{}/", file.trim_matches('/'));
            !path.is_empty() && inner.contains(&format!("/{}/", path.trim_matches('/')))
        };
        paths.iter().any(is_meant)
    }
}
