//! A session: the stable identity of an agent's work in one workspace, over all its runs and conversations.

use std::path::PathBuf;

use jiff::Timestamp;
use parhelia_store::{name, place::Place};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use ulid::Ulid;

/// Status of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// A run begins.
    Starting,
    /// It can be worked in.
    #[default]
    Active,
    /// It was set aside, and can be resumed.
    Paused,
    /// Its run failed; it can be resumed.
    Error,
    /// It is over for good.
    Ended,
}

impl Status {
    /// Its name, as stored.
    pub fn name(self) -> &'static str {
        match self {
            Status::Starting => "starting",
            Status::Active => "active",
            Status::Paused => "paused",
            Status::Error => "error",
            Status::Ended => "ended",
        }
    }

    /// True if a session may go from this status to another. What has ended stays so.
    pub fn may_become(self, next: Status) -> bool {
        self != Status::Ended || next == Status::Ended
    }
}

/// Last request for a session, by a person or by its agent's own end. Its present state is another matter: a machine that is shut
/// down, or a terminal that dies, asks for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// Its agent shall run.
    Running,
    /// It was set aside, or its agent has done its work.
    Paused,
    /// It is over for good.
    Ended,
}

impl Goal {
    /// Its name, as stored.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Running => "running",
            Goal::Paused => "paused",
            Goal::Ended => "ended",
        }
    }

    /// Request that a change to a status implies where it names none; none where that is left as it was.
    pub(crate) fn of(status: Status) -> Option<Self> {
        match status {
            Status::Starting | Status::Active => Some(Goal::Running),
            Status::Paused => Some(Goal::Paused),
            Status::Ended => Some(Goal::Ended),
            Status::Error => None,
        }
    }
}

/// Sums over a session's runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default)]
pub struct Totals {
    /// Cost in US dollars, where one was reported.
    pub cost_usd: Option<f64>,
    /// Seconds from beginning to end of each run whose end was recorded.
    pub active_seconds: u64,
    /// Checkpoints that an error caused.
    pub errors: u64,
    /// Checkpoints that were made, deleted ones included.
    pub checkpoints: u64,
}

/// One of the agent's conversations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The agent's own id of it.
    pub id: String,
    /// The run in which it was seen first.
    #[serde(default)]
    pub run: Option<String>,
    /// Its transcript's path, as shown.
    #[serde(default)]
    pub transcript: Option<String>,
    /// Its turns at the last checkpoint.
    #[serde(default)]
    pub turn_count: Option<u64>,
    /// Its cost, as reported last.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// The source of its cost, as `usage.cost_source` of a checkpoint has it; none in what earlier releases recorded.
    #[serde(default)]
    pub cost_source: Option<String>,
}

/// Source of a cost that is reckoned by the prices of models.
pub const BY_PRICES: &str = "prices";
/// Source of a cost that a headless agent has printed.
pub const PRINTED: &str = "stream_json";

impl Conversation {
    /// Takes a cost that was reported. One of less is of something else: nothing that was spent comes back.
    pub(crate) fn costs(&mut self, cost_usd: Option<f64>, source: Option<String>) {
        if cost_usd.is_some_and(|cost| self.cost_usd.is_none_or(|known| cost >= known)) {
            (self.cost_usd, self.cost_source) = (cost_usd, source);
        }
    }

    /// Takes a cost that an agent has printed: it is believed before one that was reckoned.
    pub(crate) fn printed(&mut self, cost_usd: Option<f64>) {
        if cost_usd.is_some() && self.cost_source.as_deref() == Some(BY_PRICES) {
            self.cost_usd = None;
        }
        self.costs(cost_usd, Some(PRINTED.to_owned()));
    }

    /// Path at which its transcript was seen.
    pub fn seen_at(&self) -> Option<PathBuf> {
        self.transcript.as_ref().map(|shown| name::as_path(&name::parse(shown)).to_owned())
    }
}

/// A session, as the journal's events and commits add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Given at its creation, unique in the store, and never changed.
    pub id: String,
    /// Its name for people; its id unless it was given one.
    pub name: String,
    /// The folder that it works in; none where none is known, as of an imported session.
    pub workspace: Option<Place>,
    /// The status that was recorded last; its agent may be in another state.
    pub status: Status,
    /// The reason, where its last change of status gave one.
    pub status_reason: Option<String>,
    /// The last request; use [`Session::goal`], as earlier releases did not record it.
    #[serde(default)]
    pub wanted: Option<Goal>,
    /// The checkpoint that the next one's parent will be.
    pub head: Option<Ulid>,
    /// The epoch of its newest run; 0 before the first.
    pub epoch: u64,
    /// Id of its newest run, a ULID; none before the first.
    pub run: Option<String>,
    /// All its runs, in order.
    pub runs: Vec<String>,
    /// Its conversations; the one that was seen last comes last.
    pub conversations: Vec<Conversation>,
    /// The approval policy that was chosen for it.
    pub policy: Option<String>,
    /// The project that it belongs to.
    pub project: Option<String>,
    /// The first prompt of its user.
    pub first_prompt: Option<String>,
    /// Its usage so far.
    pub totals: Totals,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of the last change of anything here.
    pub changed_at: Timestamp,
    /// Journal sequence of that change. Sessions are ordered by it: clocks are set back.
    #[serde(default)]
    pub changed_sequence: u64,
    /// The machine that it is on, where that is another one, of which a remote has told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Fields that no event sets by naming them.
pub(crate) const FIXED: [&str; 12] = [
    "id",
    "status",
    "status_reason",
    "wanted",
    "head",
    "epoch",
    "run",
    "runs",
    "conversations",
    "created_at",
    "changed_sequence",
    "machine",
];

impl Session {
    pub(crate) fn new(id: &str, at: Timestamp, machine: Option<&str>) -> Self {
        Session {
            id: id.to_owned(),
            name: id.to_owned(),
            workspace: None,
            status: Status::default(),
            status_reason: None,
            wanted: None,
            head: None,
            epoch: 0,
            run: None,
            runs: Vec::new(),
            conversations: Vec::new(),
            policy: None,
            project: None,
            first_prompt: None,
            totals: Totals::default(),
            created_at: at,
            changed_at: at,
            changed_sequence: 0,
            machine: machine.map(str::to_owned),
            extra: Map::new(),
        }
    }

    /// True if it is on this machine.
    pub fn is_ours(&self) -> bool {
        self.machine.is_none()
    }

    /// The last request.
    pub fn goal(&self) -> Goal {
        self.wanted.or(Goal::of(self.status)).unwrap_or(Goal::Running)
    }

    /// The entry of a conversation, made where there is none.
    pub(crate) fn conversation(&mut self, id: &str) -> &mut Conversation {
        let at = match self.conversations.iter().position(|c| c.id == id) {
            Some(at) => at,
            None => {
                self.conversations.push(Conversation { id: id.to_owned(), ..Conversation::default() });
                self.conversations.len() - 1
            }
        };
        &mut self.conversations[at]
    }

    /// Adds up what its conversations cost.
    pub(crate) fn add_up_costs(&mut self) {
        let costs: Vec<f64> = self.conversations.iter().filter_map(|one| one.cost_usd).collect();
        if !costs.is_empty() {
            self.totals.cost_usd = Some(costs.iter().sum());
        }
    }

    /// The entry of a conversation that was seen just now: from here on the last one.
    pub(crate) fn conversation_seen(&mut self, id: &str) -> &mut Conversation {
        if let Some(at) = self.conversations.iter().position(|c| c.id == id) {
            self.conversations[at..].rotate_left(1);
        }
        self.conversation(id)
    }
}
