//! Phase checkpoints: an algorithm notes how far it has come with a task, so that another session can go on there. They are files of JSON
//! beside a `seed.json` and a log of events, as F-010 has it, and need no store.

mod folder;
mod job;
mod log;
mod seed;
mod state;

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

pub use folder::PhaseFile;
pub use job::job;
pub use state::{Criterion, CriterionStatus, PHASES_MAX, Phase};

use folder::Folder;
use parhelia_host::{Error, Host, KnowledgeRefusal, Refusal, Result};

/// Older ones are removed, where nobody says otherwise, in days.
pub const KEPT_DAYS: u32 = 30;

/// The folder that has the phase checkpoints, the seed and the log.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

/// A phase checkpoint that is to be made.
#[derive(Clone, Debug)]
pub struct PhaseRequest {
    /// The session, by its own program's name for it.
    pub session: String,
    /// The phase's name.
    pub phase: String,
    /// Its number, from 1 to 7.
    pub number: u8,
    /// The task, in a few words.
    pub task: String,
    /// The criteria by which the task counts as done.
    pub criteria: Vec<Criterion>,
    /// Whatever is to be found again.
    pub metadata: Map<String, Value>,
}

/// Something that was done, and what beside it was not: the reasons, in words.
#[derive(Debug)]
pub struct PhaseOutcome<T> {
    /// The result.
    pub what: T,
    /// The seed or the log could not be written. Neither is a reason to fail.
    pub troubles: Vec<String>,
}

impl Home {
    /// The caller's: the one that `PARHELIA_PHASES` names, else `.pai` in the home.
    pub fn of(host: &dyn Host) -> Option<Self> {
        let set = |name: &str| host.variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("PARHELIA_PHASES").or_else(|| set("HOME").map(|home| home.join(".pai"))).map(Home)
    }

    /// One at a path.
    pub fn at(path: PathBuf) -> Self {
        Home(path)
    }

    /// True if there is a folder of phase checkpoints.
    fn exists(&self) -> bool {
        self.0.join("checkpoints").is_dir()
    }

    fn checkpoints(&self) -> Folder {
        Folder::at(self.0.join("checkpoints"))
    }

    fn seed(&self) -> PathBuf {
        self.0.join("seed.json")
    }

    fn log(&self) -> PathBuf {
        self.0.join("events")
    }

    /// Makes one.
    pub fn create(&self, request: PhaseRequest, now: Timestamp) -> Result<PhaseOutcome<PhaseFile>> {
        // F-010's programs know no more of a time than its milliseconds.
        let now = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
        let phase = Phase {
            id: new_id(),
            session_id: request.session,
            phase: request.phase,
            phase_number: request.number,
            created_at: now,
            completed: false,
            task_summary: request.task,
            isc_criteria: request.criteria,
            metadata: request.metadata,
            extra: Map::new(),
        };
        phase.ensure_valid()?;
        if phase.task_summary.trim().is_empty() {
            return Err(Error::Invalid("the task is empty; tell it in about eight words".into()));
        }
        let folder = self.checkpoints();
        // The seed is changed by one at a time, too.
        let turn = folder.turn()?;
        let saved = folder.write(&phase, None, &turn)?;
        let pointed = seed::point(&self.seed(), &phase.id);
        let more = [("phase", phase.phase.as_str().into()), ("phaseNumber", phase.phase_number.into())];
        let logged = self.logged("checkpoint_created", &phase, now, &more);
        Ok(PhaseOutcome { what: saved, troubles: troubles([pointed, logged]) })
    }

    /// The one with an id.
    pub fn load(&self, id: &str) -> Result<PhaseFile> {
        self.checkpoints().find(id)?.ok_or_else(|| {
            Refusal::Knowledge(KnowledgeRefusal::NoPhase { id: id.to_owned(), folder: self.0.join("checkpoints") }).into()
        })
    }

    /// All of them, or those that are completed or not, the newest first.
    pub fn list(&self, completed: Option<bool>) -> Result<Vec<PhaseFile>> {
        let mut found = self.checkpoints().list()?;
        found.retain(|saved| completed.is_none_or(|completed| saved.phase.completed == completed));
        Ok(found)
    }

    /// The newest one that is not completed. Its phase does not matter: the last phase, too, may have been interrupted.
    pub fn incomplete(&self) -> Result<Option<PhaseFile>> {
        self.checkpoints().newest_incomplete()
    }

    /// Marks one as completed.
    pub fn complete(&self, id: &str, now: Timestamp) -> Result<PhaseOutcome<PhaseFile>> {
        let folder = self.checkpoints();
        let turn = folder.turn()?;
        let mut saved = self.load(id)?;
        saved.phase.completed = true;
        let saved = folder.write(&saved.phase, Some(&saved.file), &turn)?;
        let forgotten = seed::forget(&self.seed(), &|other| other == id);
        let logged = self.logged("checkpoint_completed", &saved.phase, now, &[]);
        Ok(PhaseOutcome { what: saved, troubles: troubles([forgotten, logged]) })
    }

    /// Removes those that are older than some time, completed ones first.
    pub fn clean_up(&self, older_than: SignedDuration, now: Timestamp) -> Result<PhaseOutcome<Vec<PhaseFile>>> {
        let folder = self.checkpoints();
        let mut old = folder.list()?;
        old.retain(|saved| now.duration_since(saved.phase.created_at) > older_than);
        if old.is_empty() {
            return Ok(PhaseOutcome { what: old, troubles: Vec::new() });
        }
        let turn = folder.turn()?;
        old.sort_by_key(|saved| (!saved.phase.completed, saved.phase.created_at));
        for saved in &old {
            folder.remove(saved, &turn)?;
        }
        let forgotten = seed::forget(&self.seed(), &|id| old.iter().any(|saved| saved.phase.id == id));
        Ok(PhaseOutcome { what: old, troubles: troubles([forgotten]) })
    }

    fn logged(&self, action: &str, phase: &Phase, now: Timestamp, more: &[(&str, Value)]) -> Result<()> {
        let fields = [("checkpointId", Value::from(phase.id.as_str()))];
        let fields: Vec<(&str, Value)> = fields.into_iter().chain(more.iter().cloned()).collect();
        log::append(&self.log(), (&new_id(), now), &phase.session_id, action, &fields)
    }
}

/// A short random id.
fn new_id() -> String {
    const LENGTH: usize = 12;
    let mut id = uuid::Uuid::new_v4().simple().to_string();
    id.truncate(LENGTH);
    id
}

fn troubles<const N: usize>(done: [Result<()>; N]) -> Vec<String> {
    done.into_iter().filter_map(Result::err).map(|e| e.to_string()).collect()
}

#[cfg(test)]
mod tests;
