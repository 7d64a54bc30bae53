//! Jobs that run while the workspace is walked, each in a thread of its own: git, the environment, and others that a caller adds.

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use parhelia_store::{clock, create::CapturedState, record::Part};
use serde_json::{Value, json};

use crate::state::{file, set_part};
use parhelia_agent::{environment, git};

/// The result of capturing one part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOutput {
    /// Files of the state, by their paths in it.
    pub files: Vec<(String, Vec<u8>)>,
    /// The state of git.
    pub git: Option<git::State>,
    /// The environment as the checkpoint's record has it.
    pub environment: Option<Value>,
    /// The reason why something in the part could not be read. The part counts as failed, but its files are kept.
    pub error: Option<String>,
    /// True if nobody was asked for it who may have it.
    pub is_not_asked: bool,
}

type Look = dyn Fn() -> Result<Option<JobOutput>, String> + Send + Sync;

/// A part that is looked at beside the walk.
#[derive(Clone)]
pub struct Job {
    part: &'static str,
    look: Arc<Look>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({})", self.part)
    }
}

impl Job {
    /// A part by its name, and how to look at it. `None` says that there is nothing to capture.
    pub fn new(part: &'static str, look: impl Fn() -> Result<Option<JobOutput>, String> + Send + Sync + 'static) -> Self {
        Job { part, look: Arc::new(look) }
    }

    /// Begins to look, in a thread.
    pub fn start(&self) -> RunningJob {
        let look = self.look.clone();
        let thread = thread::Builder::new().name(self.part.into()).spawn(move || look());
        RunningJob { part: self.part, thread: thread.map_err(|e| format!("no thread for it: {e}")) }
    }
}

/// A part that is being looked at.
#[derive(Debug)]
pub struct RunningJob {
    part: &'static str,
    thread: Result<JoinHandle<Result<Option<JobOutput>, String>>, String>,
}

impl RunningJob {
    /// Waits for it, and takes what it found. Gives the state of git, where that is the part.
    pub fn take(self, captured: &mut CapturedState) -> Option<git::State> {
        let (mut git, mut is_not_asked) = (None, false);
        let looked = self.thread.and_then(|thread| thread.join().unwrap_or_else(|_| Err("its thread ended".into())));
        let outcome = looked.map(|looked| {
            let Some(looked) = looked else { return Ok(false) };
            captured.files.extend(looked.files.into_iter().map(|(path, bytes)| file(self.part, &path, bytes)));
            captured.git = captured.git.take().or(looked.git.as_ref().map(git::State::record));
            captured.environment = captured.environment.take().or(looked.environment);
            git = looked.git;
            is_not_asked = looked.is_not_asked;
            looked.error.map_or(Ok(true), Err)
        });
        set_part(&mut captured.parts, self.part, outcome.flatten());
        if is_not_asked && captured.parts.get(self.part) == Some(&Part::Captured) {
            captured.parts.insert(self.part.to_owned(), Part::NotAsked);
        }
        git
    }
}

/// The state of git, as `git.json`. `limit` is how long git may take.
pub fn git_job(workspace: PathBuf, environment: git::Environment, limit: Duration) -> Job {
    Job::new("git", move || {
        let state = git::state(&workspace, &environment, limit).map_err(|e| e.to_string())?;
        Ok(state.map(|state| JobOutput {
            files: vec![("git.json".to_owned(), serde_json::to_vec_pretty(&json!(state)).unwrap_or_default())],
            git: Some(state),
            ..JobOutput::default()
        }))
    })
}

/// The environment, as `environment.json`, with all of Python's packages beside it.
pub fn environment_job(request: environment::Request) -> Job {
    Job::new("environment", move || {
        let snapshot = environment::capture(&environment::Request { now: clock::timestamp(), ..request.clone() });
        let value = json!(snapshot);
        let mut files = vec![("environment.json".to_owned(), serde_json::to_vec_pretty(&value).unwrap_or_default())];
        files.extend(snapshot.pip_freeze.map(|freeze| ("pip_freeze.txt".to_owned(), freeze.into_bytes())));
        let failed: Vec<String> = snapshot.failed.iter().map(|(part, reason)| format!("{part}: {reason}")).collect();
        let error = (!failed.is_empty()).then(|| failed.join("; "));
        Ok(Some(JobOutput { files, environment: Some(value), error, ..JobOutput::default() }))
    })
}
