//! The story as it is told: approaches and what came of them, what still fails, commands, packages, documents, commits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Package, Story,
    edits::Revert,
    failures::{Failure, Step},
};

/// The resolution of a failure behind which no edit and no installation is known.
pub const NO_STEP: &str = "no step that is known";
/// A failure counts as one that is in the way until so many other commands have ended.
const BLOCKS_FOR: u64 = 20;
/// The most failures that are told as being in the way.
const BLOCKERS_MAX: usize = 8;

/// Something that was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default)]
pub struct Approach {
    /// The command, edit or plan.
    pub what: String,
    /// True if it failed, or was undone.
    pub failed: bool,
    /// Reason, as far as it is known.
    pub error: Option<String>,
    /// Steps that made it pass later; null where nothing did.
    pub resolved_by: Option<String>,
}

/// A command that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default, rename = "RecentCommand")]
pub struct Command {
    /// Its text, or the beginning of it.
    pub command: String,
    /// True if it failed.
    pub failed: bool,
}

impl Story {
    /// Approaches that failed, the last one first. Paths below `root` are told from there.
    pub fn failed_approaches(&self, root: Option<&str>) -> Vec<Approach> {
        let mut told: Vec<(u64, Approach)> = Vec::new();
        told.extend(self.failures.iter().map(|failure| (failure.at, of_failure(failure, root))));
        told.extend(self.edits.reverts.iter().map(|revert| (revert.at, of_revert(revert, root))));
        told.extend(self.plans.iter().map(|plan| {
            let error = Some("the user rejected it".to_owned());
            (plan.at, Approach { what: format!("Plan: {}", plan.title), failed: true, error, resolved_by: None })
        }));
        told.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        told.into_iter().map(|(_, approach)| approach).collect()
    }

    /// Commands that failed not long ago and have not passed since, the last one first.
    pub fn blockers(&self) -> Vec<String> {
        let mut failures: Vec<&Failure> = self.failures.iter().filter(|failure| failure.passed.is_none()).collect();
        failures.retain(|failure| self.ran.saturating_sub(failure.ran) < BLOCKS_FOR);
        let told = failures.into_iter().rev().take(BLOCKERS_MAX);
        told.map(|failure| format!("`{}` fails: {}", failure.line, failure.error)).collect()
    }

    /// The last commands, the last one first.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.iter().rev()
    }

    /// Packages that commands have installed, the last one first.
    pub fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().rev()
    }

    /// Documents that commands have shown, and pages that were fetched, the last one first.
    pub fn documents(&self) -> impl Iterator<Item = &String> {
        self.documents.iter().rev()
    }

    /// Commits that were made, the last one first.
    pub fn commits(&self) -> impl Iterator<Item = &String> {
        self.commits.iter().rev()
    }
}

fn of_failure(failure: &Failure, root: Option<&str>) -> Approach {
    let times = if failure.times > 1 { format!(" ({} times)", failure.times) } else { String::new() };
    let resolved_by = failure.passed.as_ref().map(|passed| {
        let mut parts = steps(&passed.steps, passed.more_steps, root);
        match &passed.line {
            Some(line) => parts.push(format!("`{line}` passed")),
            None if parts.is_empty() => parts.push(NO_STEP.to_owned()),
            None => {}
        }
        parts.join("; ")
    });
    Approach { what: format!("`{}`{times}", failure.line), failed: true, error: Some(failure.error.clone()), resolved_by }
}

/// Edits first, as they are what mostly helps.
fn steps(steps: &[Step], more: u64, root: Option<&str>) -> Vec<String> {
    let edited: Vec<String> =
        steps.iter().filter_map(|step| if let Step::Edited(path) = step { Some(inner(path, root)) } else { None }).collect();
    let mut parts = Vec::new();
    if !edited.is_empty() {
        parts.push(format!("edits of {}", edited.join(", ")));
    }
    parts.extend(steps.iter().filter_map(|step| if let Step::Ran(line) = step { Some(format!("`{line}`")) } else { None }));
    parts.extend((more > 0).then(|| format!("{more} more steps")));
    parts
}

fn of_revert(revert: &Revert, root: Option<&str>) -> Approach {
    let path = inner(&revert.path, root);
    let more = if revert.edits > 1 { format!(" and {} more", revert.edits - 1) } else { String::new() };
    let excerpt = if revert.excerpt.is_empty() { String::new() } else { format!(" (`{}`{more})", revert.excerpt) };
    let by = revert.by.as_ref().map_or("reverted".to_owned(), |by| format!("undone by `{by}`"));
    let error = revert.failed.as_ref().map(|(line, error)| format!("`{line}` failed: {error}"));
    Approach { what: format!("Edit of {path}{excerpt}, {by}"), failed: true, error, resolved_by: None }
}

/// A path from the folder in which the agent works.
fn inner(path: &str, root: Option<&str>) -> String {
    let below = root.and_then(|root| path.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/'));
    below.unwrap_or(path).to_owned()
}

/// True for the path of a file that is there to be read by people.
pub fn is_document(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let mut parts = lower.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let is_among_docs = parts.any(|part| matches!(part, "doc" | "docs" | "documentation"));
    let has = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let is_named = ["readme", "contributing", "architecture", "changelog", "design"].iter().any(|start| name.starts_with(start));
    has(&[".md", ".mdx", ".rst", ".adoc"])
        || is_among_docs && has(&[".txt", ".html", ".org", ".tex"])
        || is_named && (has(&[".txt", ".org"]) || !name.contains('.'))
}
