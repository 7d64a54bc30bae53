//! Beads, by its program `bd`, which is run in the workspace.
//!
//! It gets no variable that could be a secret, no input, and a bounded time. A program that lies in the workspace is never run.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_agent::program;
use parhelia_host::Host;
use parhelia_ledger::Issue;
use parhelia_life::beads;
use parhelia_oversight::review::link;
use serde::{Deserialize, de::DeserializeOwned};

use super::{Mark, State, Tracker, TrackerIssue};
use crate::{http::Trouble, notify::text::field};

/// `bd` takes no longer.
const LIMIT: Duration = Duration::from_secs(20);
/// ... and no longer to find the issues of a new session, for which other sessions' events wait.
const FINDING_LIMIT: Duration = Duration::from_secs(5);

/// The program, for a workspace.
pub struct Program<'a> {
    host: &'a dyn Host,
    workspace: PathBuf,
}

/// An issue, as `bd` prints it.
#[derive(Deserialize)]
struct Item {
    id: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    notes: Option<String>,
}

/// One issue, or a list of them: releases of `bd` differ.
#[derive(Deserialize)]
#[serde(untagged)]
enum BdOutput {
    Several(Vec<Item>),
    One(Item),
}

impl BdOutput {
    fn first(self) -> Option<Item> {
        match self {
            BdOutput::Several(items) => items.into_iter().next(),
            BdOutput::One(item) => Some(item),
        }
    }
}

/// True if a workspace, or its repository, has a folder of Beads.
pub fn has_issues(workspace: &Path) -> bool {
    for folder in workspace.ancestors() {
        if folder.join(".beads").is_dir() {
            return true;
        }
        if folder.join(".git").exists() {
            break;
        }
    }
    false
}

/// True if `bd` is installed.
pub fn has_program(host: &dyn Host) -> bool {
    program::locate(OsStr::new("bd"), host.variable("PATH").as_deref()).is_some()
}

impl<'a> Program<'a> {
    /// The program on the search path; none where it is not installed.
    pub fn of(host: &'a dyn Host, workspace: &Path) -> Option<Self> {
        beads::command(workspace, &|name| host.variable(name))?;
        Some(Program { host, workspace: workspace.to_owned() })
    }

    /// The ids of issues that are in progress.
    pub fn in_progress(&self) -> Result<Vec<String>, Trouble> {
        match self.run_within(FINDING_LIMIT, &["list", "--status", "in_progress", "--json"])? {
            Some(BdOutput::Several(items)) => Ok(items.into_iter().map(|item| item.id).collect()),
            Some(BdOutput::One(item)) => Ok(vec![item.id]),
            None => Ok(Vec::new()),
        }
    }

    fn show(&self, id: &str) -> Result<Item, Trouble> {
        let found: Option<BdOutput> = self.run(&["show", id, "--json"])?;
        found.and_then(BdOutput::first).ok_or_else(|| Trouble::for_good(format!("there is no issue {id}")))
    }

    /// Runs it, and reads what it prints as JSON; none where it prints nothing.
    fn run<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<Option<T>, Trouble> {
        self.run_within(LIMIT, arguments)
    }

    fn run_within<T: DeserializeOwned>(&self, limit: Duration, arguments: &[&str]) -> Result<Option<T>, Trouble> {
        let printed = self.output_within(limit, arguments)?;
        let text = String::from_utf8_lossy(&printed);
        // Hints may stand before the JSON.
        let Some(begin) = text.find(['[', '{']) else { return Ok(None) };
        let read = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<Option<T>>().next();
        read.transpose().map(Option::flatten).map_err(|_| Trouble::for_now("`bd` printed something else than JSON"))
    }

    fn output(&self, arguments: &[&str]) -> Result<Vec<u8>, Trouble> {
        self.output_within(LIMIT, arguments)
    }

    fn output_within(&self, limit: Duration, arguments: &[&str]) -> Result<Vec<u8>, Trouble> {
        let Some(mut command) = beads::command(&self.workspace, &|name| self.host.variable(name)) else {
            return Err(Trouble::for_now("`bd` is not installed any more"));
        };
        command.args(arguments);
        let mut done = None;
        self.host.with_own_limits(&mut || done = Some(program::run(&mut command, limit)));
        let failed =
            |e: &dyn std::fmt::Display| Trouble::for_now(format!("`bd {}` failed: {}", arguments[0], field(&e.to_string())));
        match done {
            Some(Ok(printed)) => Ok(printed),
            Some(Err(parhelia_agent::error::Error::Program { reason, .. })) => Err(failed(&reason)),
            Some(Err(e)) => Err(failed(&e)),
            None => Err(Trouble::for_now("`bd` was not run")),
        }
    }
}

impl Tracker for Program<'_> {
    fn get(&self, id: &str) -> Result<TrackerIssue, Trouble> {
        let Item { id, status, .. } = self.show(id)?;
        Ok(TrackerIssue { id, is_closed: status == "closed", state: status })
    }

    /// Adds to the issue's notes.
    fn comment(&self, id: &str, text: &str, mark: &Mark) -> Result<(), Trouble> {
        if self.show(id)?.notes.is_some_and(|notes| notes.contains(&shown(mark))) {
            return Ok(());
        }
        let notes = format!("--append-notes={text}\n{}", shown(mark));
        self.output(&["update", id, &notes, "--json"]).map(drop)
    }

    fn set_state(&self, id: &str, state: State) -> Result<(), Trouble> {
        let known = self.get(id)?;
        let status = match state {
            State::Running => "in_progress",
            State::Failed => "blocked",
            State::Done => "closed",
            State::Review => return Ok(()),
        };
        if known.is_closed || known.state == status {
            return Ok(());
        }
        match state {
            State::Done => self.output(&["close", id, "--reason=Approved in parhelia", "--json"]).map(drop),
            _ => self.output(&["update", id, &format!("--status={status}"), "--json"]).map(drop),
        }
    }

    fn create(&self, _place: &str, title: &str, text: &str, mark: &Mark) -> Result<Issue, Trouble> {
        let known: Option<BdOutput> = self.run(&["list", &format!("--desc-contains={}", shown(mark)), "--json"])?;
        let created = match known.and_then(BdOutput::first) {
            Some(known) => known,
            None => {
                let description = format!("--description={text}\n{}", shown(mark));
                let made: Option<BdOutput> = self.run(&["create", title, "-t", "bug", &description, "--json"])?;
                made.and_then(BdOutput::first).ok_or_else(|| Trouble::for_now("`bd create` printed no issue"))?
            }
        };
        link::parse(&format!("beads:{}", created.id)).map_err(|e| Trouble::for_good(e.to_string()))
    }
}

/// The mark, as people see it: notes are no Markdown.
fn shown(mark: &Mark) -> String {
    format!("[parhelia:{}]", mark.id)
}
