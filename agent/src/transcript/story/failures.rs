//! Commands that failed, and what made them pass.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    super::limits::{FAILURES_MAX, STEPS_MAX},
    command::{self, Part},
};

/// A command line that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Failure {
    /// The line, or its beginning.
    pub line: String,
    /// Hash of the whole line.
    hash: u64,
    /// The command that it is about.
    matter: Part,
    /// The line of its last output that says why.
    pub error: String,
    /// The number of times that it failed.
    pub times: u64,
    /// The steps since it failed first.
    steps: Vec<Step>,
    /// The number of steps that are not listed.
    more_steps: u64,
    /// The words of what made it pass; none while nothing did.
    pub passed: Option<Resolution>,
    /// The number of command lines that had ended when it failed last.
    pub ran: u64,
    /// Offset in the transcript of its last failure.
    pub at: u64,
}

/// A step between a failure and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    /// A file was edited.
    Edited(String),
    /// A command ran that changes what others find.
    Ran(String),
}

/// The end of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Resolution {
    /// The line that passed, where it is another one.
    pub line: Option<String>,
    /// The steps before it.
    pub steps: Vec<Step>,
    /// The number of steps that are not listed.
    pub more_steps: u64,
}

/// Failures, the one that failed last at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Failures(VecDeque<Failure>);

/// A command line that has ended.
pub(super) struct Ran<'a> {
    /// Its commands.
    pub parts: &'a [Part],
    /// The line as it is shown.
    pub shown: &'a str,
    /// Hash of the whole line.
    pub hash: u64,
}

impl Failures {
    /// A line has failed: one of so many, which is at this place. One that failed before and has not passed since is the same failure.
    pub fn failed(&mut self, line: &Ran<'_>, error: impl FnOnce() -> String, ran: u64, at: u64) {
        let Some(matter) = command::matter(line.parts) else { return };
        let known = self.0.iter().position(|failure| failure.passed.is_none() && failure.hash == line.hash);
        let mut failure = known.and_then(|at| self.0.remove(at)).unwrap_or_else(|| Failure {
            line: line.shown.to_owned(),
            hash: line.hash,
            matter: matter.shortened(),
            ..Failure::default()
        });
        (failure.error, failure.ran, failure.at) = (error(), ran, at);
        failure.times += 1;
        if self.0.len() >= FAILURES_MAX {
            // One that was tried once and given up tells least.
            let least = self.0.iter().position(|failure| failure.passed.is_none() && failure.times == 1);
            self.0.remove(least.unwrap_or(0));
        }
        self.0.push_back(failure);
    }

    /// A line has passed: so would those that it covers.
    pub fn passed(&mut self, line: &Ran<'_>) {
        let parts: Vec<Part> = line.parts.iter().map(Part::shortened).collect();
        for failure in self.0.iter_mut().filter(|failure| failure.passed.is_none()) {
            let is_same = failure.hash == line.hash;
            if is_same || parts.iter().any(|part| part.covers(&failure.matter)) {
                failure.passed = Some(Resolution {
                    line: (!is_same).then(|| line.shown.to_owned()),
                    steps: std::mem::take(&mut failure.steps),
                    more_steps: failure.more_steps,
                });
            }
        }
    }

    /// A step that may make pass what has failed.
    pub fn step(&mut self, step: &Step) {
        for failure in self.0.iter_mut().filter(|failure| failure.passed.is_none()) {
            if failure.steps.contains(step) {
                continue;
            }
            if failure.steps.len() < STEPS_MAX {
                failure.steps.push(step.clone());
            } else {
                failure.more_steps += 1;
            }
        }
    }

    /// Forgets failures from this place of the transcript on.
    pub fn withdraw(&mut self, from: u64) {
        self.0.retain(|failure| failure.at < from);
    }

    /// The failure that came last.
    pub fn last(&self) -> Option<&Failure> {
        self.0.back()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Failure> {
        self.0.iter()
    }
}
