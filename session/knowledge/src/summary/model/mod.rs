//! Summaries by a model: what a command or an API that the user has configured makes of a session.
//!
//! They are off unless somebody configures one, and no checkpoint waits for them: once a checkpoint is made, a process of its own asks
//! (`begin`, `ask`) and keeps the answer in the store's folder ([`FILE`]). The session's next checkpoint takes it in, beside the summary by
//! rules and marked as a model's. What the model is given, and what it answers, goes through the scan for secrets and is bounded.

mod answer;
mod ask;
mod attempt;
mod command;
mod input;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use parhelia_store::{
    Store,
    id::Ulid,
    record::{Cause, Checkpoint, Part, Record, Trigger},
};
use serde::{Deserialize, Serialize};

pub use self::{
    ask::{AskOutcome, ask},
    input::Question,
};
use super::{PART, Summary, folder, read};
use parhelia_host::{Result, config, draft::Draft, error::IoContext, notice::Notice};

/// The last answer for a session, in its folder in the store's.
pub const FILE: &str = "model-summary.json";
/// Version of that file.
pub const SCHEMA: u32 = 1;
pub use parhelia_agent::process::ASKING;

/// No such file is longer, in bytes.
const BYTES_MAX: u64 = 1 << 20;
/// So many checkpoints are looked at to tell whether one came from another.
const STEPS_MAX: usize = 1_000;

/// The program that made a summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct By {
    /// The command, without what looks like a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The form of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// The model's name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A summary by a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSummary {
    /// The checkpoint that it sums up.
    pub checkpoint: Ulid,
    /// The program that made it.
    pub generated_by: By,
    /// The time of its making.
    pub at: Timestamp,
    /// The agent's id of the conversation that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The answer, bounded, without control characters but line breaks, and without what looks like a secret.
    pub text: String,
}

/// The file with the last answer.
#[derive(Debug, Serialize, Deserialize)]
struct SummaryFile {
    schema: u32,
    session: String,
    #[serde(flatten)]
    summary: ModelSummary,
}

impl By {
    /// The program that is configured.
    fn of(options: &config::Summary) -> Self {
        match &options.url {
            Some(_) => By { command: None, api: options.api.map(|api| api.name().to_owned()), model: options.model.clone() },
            None => By { command: Some(command::shown(&options.command)), ..By::default() },
        }
    }

    /// In words, for people.
    pub fn shown(&self) -> String {
        match (&self.command, &self.model, &self.api) {
            (Some(command), ..) => format!("`{command}`"),
            (None, Some(model), Some(api)) => format!("{model} ({api})"),
            _ => "an unknown model".into(),
        }
    }
}

impl ModelSummary {
    /// True if it is of a conversation, as far as both are known.
    pub fn is_of(&self, conversation: Option<&str>) -> bool {
        match (self.conversation.as_deref(), conversation) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        }
    }
}

fn path(store: &Store, session: &str) -> PathBuf {
    folder::path(store, session).join(FILE)
}

/// The last answer for a session, whatever has become of its checkpoint.
fn last(store: &Store, session: &str) -> Option<ModelSummary> {
    let bytes = folder::read_file(store, session, FILE, BYTES_MAX).ok()?;
    let kept: SummaryFile = serde_json::from_slice(&bytes).ok()?;
    // Two names may have the same file.
    (kept.session == session).then_some(kept.summary)
}

/// Keeps an answer for the session's next checkpoint.
fn keep(store: &Store, session: &str, summary: &ModelSummary) -> Result<()> {
    let kept = SummaryFile { schema: SCHEMA, session: session.to_owned(), summary: summary.clone() };
    let bytes = serde_json::to_vec_pretty(&kept).unwrap_or_default();
    let path = path(store, session);
    folder::write(store, session, FILE, &bytes).at("write", &path)
}

/// Removes the last answer where its checkpoint was deleted. Nothing is left of a session whose head has no summary.
pub(super) fn forget_deleted(store: &Store, session: &str, has_summary: bool) -> Result<()> {
    let view = store.view();
    let is_gone = match last(store, session) {
        Some(last) => view.checkpoint(last.checkpoint)?.is_none(),
        None => true,
    };
    if is_gone {
        folder::remove(store, session, FILE).at("remove", &path(store, session))?;
    }
    if !has_summary {
        attempt::forget(store, session)?;
    }
    Ok(())
}

/// The summary by a model that holds for a checkpoint: the last one, if it is of that checkpoint or of one that it came from; else the one that it
/// holds. One of a checkpoint that a rollback went back behind does not hold any more.
pub fn of(store: &Store, checkpoint: &Checkpoint, held: Option<ModelSummary>) -> Result<Option<ModelSummary>> {
    match last(store, &checkpoint.record.session) {
        Some(last) if comes_from(store, checkpoint, last.checkpoint)? => Ok(Some(last)),
        _ => Ok(held),
    }
}

/// The summary of a checkpoint, with what a model has made of it since.
pub fn newest(store: &Store, checkpoint: &Checkpoint) -> Result<Option<Summary>> {
    let Some(summary) = read(store, checkpoint)? else { return Ok(None) };
    let model = of(store, checkpoint, summary.model.clone())?;
    Ok(Some(Summary { model, ..summary }))
}

/// The summary by a model that a session's next checkpoint takes in.
pub fn for_next(store: &Store, options: &config::Summary, session: &str) -> Option<ModelSummary> {
    if !options.is_on() {
        return None;
    }
    // Not to know it is no reason to make no checkpoint.
    let head = store.view().head(session).ok()??;
    let held = read(store, &head).ok().flatten().and_then(|summary| summary.model);
    of(store, &head, held).ok().flatten()
}

/// True if a checkpoint is another one, or came from it.
fn comes_from(store: &Store, checkpoint: &Checkpoint, other: Ulid) -> Result<bool> {
    let view = store.view();
    let Some(other) = view.checkpoint(other)? else { return Ok(false) };
    let mut at = checkpoint.clone();
    for _ in 0..STEPS_MAX {
        if at.record.id == other.record.id {
            return Ok(true);
        }
        match view.ancestor(&at)? {
            Some(next) if at.record.depth > other.record.depth => at = next,
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// Has a model asked about a new checkpoint, where one is configured and it is time. The checkpoint is made by now: a failure does it no harm.
pub(super) fn begin(draft: &Draft<'_>) {
    let Draft { store, host, request, observer, .. } = *draft;
    if !is_due(store, &request.config.summary, draft.checkpoint(), host.now()) {
        return;
    }
    if let Err(e) = host.ask_model(store.path(), request.session) {
        observer.warn(&Notice::NotRecorded { what: "no model was asked for a summary", why: e.to_string() });
    }
}

/// True if a model is to be asked about a checkpoint.
fn is_due(store: &Store, options: &config::Summary, checkpoint: &Checkpoint, now: Timestamp) -> bool {
    let record = &checkpoint.record;
    if !options.is_on() || record.fenced || record.is_safety() || record.parts.get(PART) != Some(&Part::Captured) {
        return false;
    }
    let last = attempt::last(store, &record.session).unwrap_or_default();
    if last.checkpoint == Some(record.id) {
        return false;
    }
    let pause = SignedDuration::from_mins(i64::try_from(options.every_minutes).unwrap_or(i64::MAX / 60));
    // One that is dated into the future is of a clock that was wrong.
    let is_time = last.at.is_none_or(|at| at > now || now.duration_since(at) >= pause);
    is_time || is_end(record)
}

/// True if no checkpoint of the same conversation is likely to follow soon.
fn is_end(record: &Record) -> bool {
    let is_end = matches!(record.trigger, Trigger::Complete | Trigger::Error | Trigger::Shutdown);
    is_end || matches!(record.cause(), Some(Cause::PreCompact | Cause::Clear))
}
