//! What a project's sessions have learned.

use jiff::Timestamp;
use parhelia_knowledge::memory;
use schemars::JsonSchema;
use serde::Serialize;

/// A piece of knowledge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Knowledge {
    /// Short random id, by which the entry is forgotten.
    pub id: String,
    /// conventions, architecture, gotchas or notes.
    pub section: String,
    /// Its name in the section; null where it has none.
    pub key: Option<String>,
    /// What is known.
    pub text: String,
    /// Files that matter for it.
    pub files: Vec<String>,
    /// The session in which it was found out.
    pub session: Option<String>,
    /// Time at which it was added.
    pub added_at: Timestamp,
    /// person, agent, or suggestion: a person has accepted one.
    pub added_by: String,
    /// Ids of entries of the same name that say something else.
    pub contradicts: Vec<String>,
}

/// A session whose result a person decided about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionOutcome {
    /// Id of the session that was decided about.
    pub session: String,
    /// What was done.
    pub summary: String,
    /// approved or rejected.
    pub outcome: String,
    /// Time of the decision.
    pub decided_at: Timestamp,
    /// The checkpoint that it is about.
    pub checkpoint: Option<String>,
}

impl Knowledge {
    /// An entry, and those that say something else.
    pub fn of<'a>(
        section: memory::Section,
        entry: &memory::Entry,
        contradicts: impl IntoIterator<Item = &'a memory::Entry>,
    ) -> Self {
        Knowledge {
            id: entry.id.clone(),
            section: section.name().into(),
            key: entry.key.clone(),
            text: entry.description.clone(),
            files: entry.key_files.clone(),
            session: entry.discovered_in.clone(),
            added_at: entry.added_at,
            added_by: entry.added_by.name().into(),
            contradicts: contradicts.into_iter().map(|other| other.id.clone()).collect(),
        }
    }
}

impl From<&memory::Outcome> for SessionOutcome {
    fn from(outcome: &memory::Outcome) -> Self {
        SessionOutcome {
            session: outcome.session_id.clone(),
            summary: outcome.summary.clone(),
            outcome: outcome.outcome.clone(),
            decided_at: outcome.timestamp,
            checkpoint: outcome.checkpoint.clone(),
        }
    }
}
