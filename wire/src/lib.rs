//! The objects that parhelia shows to other programs: the lines of `--json`, and what every later face hands out.
//!
//! [`Line`] is one object, told apart by `type`; the last one is a [`Summary`], told apart by `verb`, or an [`VerbError`]. Each object has one
//! shape, whichever verb prints it. [`schema`] describes all of them; `docs/json.schema.json` is its checked-in text.
//!
//! A library's type that other programs see as it is derives `Serialize` and `JsonSchema` itself, and the docs of its fields are in the schema. Types
//! are declared here where JSON differs from what a library keeps or stores: other names, computed fields, null in place of absence.
//!
//! Spelling, everywhere: `id` is the id of the thing that an object is about, which its `type` or its `verb` says; the ids of other things
//! stand under their names (`session`, `run`, `parent`). Sizes are bytes and end in `bytes`, or are called so. Times are
//! RFC 3339 in UTC. Paths are text in which bytes that are not printable UTF-8 are `\xNN`. What is not known is null.

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod audit;
pub mod checkpoint;
pub mod context;
pub mod diff;
pub mod event;
pub mod memory;
pub mod notification;
pub mod phase;
mod reference;
pub mod repository;
pub mod session;
pub mod summarized;
pub mod summary;
pub mod tool;
pub mod tree;

use parhelia_agent::{environment::diff::EnvironmentChange, transcript::messages::Message};
use parhelia_knowledge::memory::Suggestion;
use parhelia_store::{check, name, restore::SkippedEntry, stats::SessionStats};
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub use reference::reference;
pub use summary::Summary;

/// Bytes of a path as text.
pub fn shown(path: &[u8]) -> String {
    name::display(path)
}

/// One object on a line of its own.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// A checkpoint, without what is large in its record.
    Checkpoint(Box<checkpoint::Checkpoint>),
    /// A checkpoint as `manifest.json` shows it; `manifest.schema.json` describes it.
    Manifest(Map<String, Value>),
    /// A tag in use.
    Tag(checkpoint::Tag),
    /// A review of a session, for whoever decides.
    Review(Box<session::Review>),
    /// An entry of the audit.
    Audit(Box<audit::Entry>),
    /// A remark about a checkpoint.
    Annotation(checkpoint::CheckpointAnnotation),
    /// An entry that capture left out, or has not as it was.
    Omission(checkpoint::Omission),
    /// A decision of retention about a checkpoint.
    Retention(checkpoint::Retention),
    /// An entry of a tree.
    Entry(Box<tree::Entry>),
    /// An entry that a search has found.
    Match(Box<tree::Match>),
    /// A checkpoint that a search by words has found.
    Found(Box<checkpoint::SearchHit>),
    /// A piece of a file's content.
    Content(tree::Content),
    /// An entry that differs between two trees.
    Change(Box<diff::Change>),
    /// A path that is, or would be, overwritten.
    Action(tree::Action),
    /// A folder that goes back before its agent goes on.
    Rollback(Box<summary::RolledBack>),
    /// An entry that could not be restored as it was.
    Skipped(SkippedEntry),
    /// A socket, for which an archive has no place.
    Socket(tree::Socket),
    /// Two checkpoints beside each other.
    Comparison(Box<diff::Comparison>),
    /// A message of a conversation.
    Message(Message),
    /// Damage of a checkpoint.
    Problem(check::Problem),
    /// A part that a checkpoint lacks.
    Lack(check::Lack),
    /// Damage of a store.
    Finding(check::Finding),
    /// A path of a checkpoint of which something is damaged or missing.
    Hurt(check::Hurt),
    /// A checkpoint that a salvage has found.
    Salvaged(check::SalvagedCheckpoint),
    /// A damaged place of the journal that is, or would be, mended.
    MendedRecords(check::MendedRecords),
    /// A remark about a store that is no damage.
    Note(repository::Note),
    /// An object that checkpoints need and that is nowhere.
    Lost(check::LostObject),
    /// A session, as recorded and as found now.
    Session(Box<session::Session>),
    /// The summary of a session at a checkpoint.
    SessionSummary(Box<summarized::SessionSummary>),
    /// One life of a session.
    Run(Box<session::Run>),
    /// An agent that was started, or has gone on.
    Started(Box<session::AgentStart>),
    /// An agent that was started in tmux.
    Tmux(Box<session::InTmux>),
    /// A session that can go on, and how.
    Recovery(Box<session::Recovery>),
    /// A session's share of a store.
    Usage(SessionStats),
    /// An entry of the journal.
    Event(Box<event::Event>),
    /// An environment, part by part.
    Environment(Map<String, Value>),
    /// A difference of two environments.
    EnvironmentChange(EnvironmentChange),
    /// An option's value in force.
    Option(tool::Setting),
    /// A mounted checkpoint.
    Mount(tool::Mount),
    /// A script for a shell.
    Script(tool::Script),
    /// A notification that was sent, as for a test.
    Notification(Box<notification::Notification>),
    /// Something that is to be delivered, or could not be.
    Delivery(Box<notification::Delivery>),
    /// A machine that writes to a remote.
    RemoteMachine(summary::remote::RemoteMachine),
    /// A slot that opens an encrypted remote.
    KeySlot(summary::remote::KeySlot),
    /// A phase checkpoint, as its file has it.
    #[serde(rename = "phase_checkpoint")]
    Phase(Box<phase::Phase>),
    /// Something that is known of a project.
    Knowledge(Box<memory::Knowledge>),
    /// A session whose result a person decided about.
    SessionOutcome(memory::SessionOutcome),
    /// Something that is worth remembering of a project.
    Suggestion(Box<Suggestion>),
    /// A service that can be connected to.
    Service(tool::Service),
    /// A browser that is signed in at a service's page.
    Browser(tool::Browser),
    /// The last line of a verb that did not fail.
    Summary(Box<Summary>),
    /// The last line of a verb that failed.
    Error(VerbError),
}

/// The failure of a verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerbError {
    /// Exit code of the process: 1 to 12, or 130 after Ctrl-C.
    pub code: u8,
    /// The thing, the cause and the next step, for people.
    pub message: String,
}

impl From<Summary> for Line {
    fn from(summary: Summary) -> Self {
        Line::Summary(Box::new(summary))
    }
}

/// JSON Schema (draft 2020-12) of every [`Line`]. Objects may get more fields later, and values that are listed more values.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema: Schema = settings.into_generator().into_root_schema_for::<Line>();
    let mut schema = schema.to_value();
    schema["$id"] = json!("https://github.com/parhelia/parhelia/blob/main/docs/json.schema.json");
    schema["title"] = json!("A line of parhelia's --json");
    schema
}
