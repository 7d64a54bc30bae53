//! Issue trackers: which issues a session has to do with (`found`), what follows for them from events (`acts`), and how each tracker is
//! reached (`github`, `linear`, `beads`).
//!
//! An act is a delivery of the [outbox](crate::outbox), as a notification is. It may be tried again after it was done, so each comment and each
//! new issue bears a mark of its delivery, and each try looks for that first.

pub mod acts;
mod beads;
pub mod found;
mod github;
mod linear;
mod words;

use std::{ffi::OsString, path::Path};

use jiff::Timestamp;
use parhelia_host::{Host, config::Integrations};
use parhelia_ledger::Issue;
use parhelia_oversight::review::link;
use parhelia_store::view::View;
use parhelia_wire::notification::{Act, Delivery};

pub use beads::{Program, has_issues, has_program};

use crate::http::Trouble;

/// The beginning of the channels of deliveries to trackers. No channel of notifications can be called so.
pub const CHANNEL: &str = "tracker:";

/// The state of a session's work, as its issues show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// An agent works.
    Running,
    /// It waits for a person's review.
    Review,
    /// The session's agent failed, or died.
    Failed,
    /// A person approved the result.
    Done,
}

impl State {
    const ALL: [State; 4] = [State::Running, State::Review, State::Failed, State::Done];

    /// Its name in a delivery.
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Review => "review",
            State::Failed => "failed",
            State::Done => "done",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// Trackers that are acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackerKind {
    /// Issues of GitHub.
    GitHub,
    /// Issues of Linear, by its API.
    Linear,
    /// Issues of Beads, in the workspace.
    Beads,
}

impl TrackerKind {
    const ALL: [TrackerKind; 3] = [TrackerKind::GitHub, TrackerKind::Linear, TrackerKind::Beads];

    /// Its name in links and deliveries.
    pub fn name(self) -> &'static str {
        match self {
            TrackerKind::GitHub => "github",
            TrackerKind::Linear => "linear",
            TrackerKind::Beads => "beads",
        }
    }

    /// The tracker of this name; none for any other address.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// An issue, as its tracker has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackerIssue {
    /// Its id within the tracker's API.
    pub id: String,
    /// Its state, by the tracker's name.
    pub state: String,
    /// True if it is closed.
    pub is_closed: bool,
}

/// The mark by which a comment or an issue is known again.
pub struct Mark<'a> {
    /// Letters and digits that no other delivery has.
    pub id: &'a str,
    /// Time before which nothing can bear it.
    pub since: Timestamp,
}

/// A tracker as acts reach it; each act can be done twice without harm.
pub trait Tracker {
    /// The issue of an id.
    fn get(&self, id: &str) -> Result<TrackerIssue, Trouble>;

    /// Adds a comment to an issue, unless one with the mark is there.
    fn comment(&self, id: &str, text: &str, mark: &Mark) -> Result<(), Trouble>;

    /// Shows a state, where the tracker has one for it. An issue that is closed stays closed.
    fn set_state(&self, id: &str, state: State) -> Result<(), Trouble>;

    /// Creates an issue, unless one with the mark is there.
    fn create(&self, place: &str, title: &str, text: &str, mark: &Mark) -> Result<Issue, Trouble>;
}

/// Everything by which trackers are reached.
pub struct Reach<'a> {
    /// The configuration.
    pub options: &'a Integrations,
    /// The caller, whose environment has the secrets.
    pub host: &'a dyn Host,
}

impl Reach<'_> {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.host.variable(name)
    }

    /// True if a tracker can be reached for a workspace.
    pub fn is_on(&self, tracker: TrackerKind, workspace: Option<&Path>) -> bool {
        match tracker {
            TrackerKind::GitHub => self.options.github.is_on(),
            TrackerKind::Linear => self.options.linear.is_on(),
            TrackerKind::Beads => workspace.is_some_and(|workspace| self.beads(workspace).is_some()),
        }
    }

    /// Beads in a workspace; none where it is off, not installed, or not used there.
    pub fn beads(&self, workspace: &Path) -> Option<Program<'_>> {
        let is_used = self.options.beads.enabled && has_issues(workspace);
        is_used.then(|| Program::of(self.host, workspace)).flatten()
    }

    /// Does what a delivery says. Returns the issue if one was created.
    pub fn perform(&self, delivery: &Delivery, act: &Act) -> Result<Option<Issue>, Trouble> {
        let tracker = delivery.channel.strip_prefix(CHANNEL).unwrap_or_default();
        let mark = Mark { id: delivery.id.rsplit('-').next().unwrap_or_default(), since: delivery.since };
        match TrackerKind::named(tracker) {
            Some(TrackerKind::GitHub) => done(&github::GitHub::of(self)?, act, &mark),
            Some(TrackerKind::Linear) => done(&linear::Linear::of(self)?, act, &mark),
            Some(TrackerKind::Beads) => {
                let program = self.beads(Path::new(&act.place));
                let missing = || Trouble::for_now("`bd` is not installed, or the workspace has no folder .beads any more");
                done(&program.ok_or_else(missing)?, act, &mark)
            }
            None => Err(Trouble::for_good("there is no such tracker")),
        }
    }
}

fn done(tracker: &dyn Tracker, act: &Act, mark: &Mark) -> Result<Option<Issue>, Trouble> {
    let Some(id) = &act.issue else {
        let (title, text) = (act.title.as_deref().unwrap_or_default(), act.text.as_deref().unwrap_or_default());
        return tracker.create(&act.place, title, text, mark).map(Some);
    };
    if let Some(text) = &act.text {
        tracker.comment(id, text, mark)?;
    }
    if let Some(state) = act.state.as_deref().and_then(State::named) {
        tracker.set_state(id, state)?;
    }
    Ok(None)
}

/// The issues that checkpoints of a session are linked to, and that are acted on: links of agents and imports lead nowhere but to the place
/// that the configuration names for the workspace.
pub fn issues_of(options: &Integrations, view: &View, session: &str, workspace: &Path) -> parhelia_host::Result<Vec<Issue>> {
    let found = link::of_session(view, session)?.into_iter();
    Ok(found.filter(|(issue, is_asked)| options.acts_on(issue, *is_asked, workspace)).map(|(issue, _)| issue).collect())
}
