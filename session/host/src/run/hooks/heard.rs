//! The evidence that an agent runs our hooks: an event that came of one. Settings only say that it should.

use std::{io::Write, path::PathBuf};

use jiff::Timestamp;
use parhelia_agent::kind::Kind;
use parhelia_ledger::{LedgerView as _, Run, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    files::{self, Folder, How},
    record::{Cause, Checkpoint},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    Host, Result,
    run::{Current, agent_in, hook_actor},
};

/// No more checkpoints are looked through for the end of a turn.
const CHECKPOINTS_MAX: usize = 100;
/// The field of a run with the first event that came of a hook.
const HOOKS_HEARD: &str = "hooks_heard";

/// The field of a run that says that no event of a hook has come though its agent works.
const HOOKS_SILENT: &str = "hooks_silent";
/// The field of a run that names the checkpoint at which its last turn ended without a checkpoint of its own.
const TURN_ENDED: &str = "turn_ended";
/// The longest note of a last event, in bytes.
const NOTE_BYTES_MAX: u64 = 4096;

/// An event that has come of a hook.
// The first one of a run, or the last one of a kind of agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LastHeard")]
pub struct HeardHooks {
    /// Its name.
    pub event: String,
    /// The time.
    pub at: Timestamp,
}

/// The first event of a run that came of a hook; none where none has come.
pub fn heard_hooks(run: &Run) -> Option<HeardHooks> {
    serde_json::from_value(run.extra.get(HOOKS_HEARD)?.clone()).ok()
}

/// The last event that came of the hooks of a kind of agent. Only the first one of a run is in the journal; the last one is noted in the store's
/// cache, and without that note the newest of the first ones is the answer.
pub fn last_heard(store: &Store, kind: Kind) -> Result<Option<HeardHooks>> {
    let runs = store.view().runs()?;
    let of_kind = runs.values().filter(|run| agent_in(run).is_some_and(|agent| agent.kind() == kind));
    Ok(of_kind.filter_map(heard_hooks).chain(noted(store, kind)).max_by_key(|heard| heard.at))
}

/// The file of a kind's last event.
fn note_path(store: &Store, kind: Kind) -> PathBuf {
    store.layout().cache().join(format!("hook-{}.json", kind.name()))
}

fn noted(store: &Store, kind: Kind) -> Option<HeardHooks> {
    let file = files::open(&note_path(store, kind), How::Read).ok()?;
    serde_json::from_slice(&files::read_all(&file, NOTE_BYTES_MAX).ok()?).ok()
}

/// Notes the last event of a kind. Without it, less is shown.
fn note_last(store: &Store, kind: Kind, heard: &HeardHooks) {
    let (folder, path) = (store.layout().cache(), note_path(store, kind));
    let Ok(text) = serde_json::to_vec(heard) else { return };
    let _ = files::make_folder(&folder);
    let name = path.file_name().unwrap_or_default();
    let _ = Folder::below(&folder).and_then(|folder| folder.replace(name, |file| file.write_all(&text)));
}

/// True if the last that the agent of a run has told by its checkpoints is the end of a turn.
pub fn has_ended_turn(store: &Store, session: &str, run: &str) -> bool {
    let Ok(view) = store.refresh() else { return false };
    let mut next = view.head(session).ok().flatten();
    let noted = view.run(run).ok().flatten().and_then(|run| run.extra.get(TURN_ENDED)?.as_str().map(str::to_owned));
    if noted.is_some() && noted == next.as_ref().map(Checkpoint::id) {
        return true;
    }
    for _ in 0..CHECKPOINTS_MAX {
        let Some(found) = next.filter(|found| found.record.run.as_deref() == Some(run)) else { return false };
        match found.record.cause() {
            Some(Cause::TurnEnd) => return true,
            Some(Cause::Prompt | Cause::Question | Cause::ApiError) => return false,
            _ => next = view.ancestor(&found).ok().flatten(),
        }
    }
    false
}

/// The sentence that no event of a run's hooks has come though its agent works; none where one has come since, or it was not noted.
pub fn silent_hooks(run: &Run) -> Option<String> {
    run.extra.get(HOOKS_SILENT)?.as_str().filter(|_| heard_hooks(run).is_none()).map(str::to_owned)
}

/// Notes the sentence that no event of a run's hooks has come.
pub fn note_silent_hooks(store: &Store, current: &Current, sentence: &str, actor: Actor) -> Result<()> {
    let changed = NewEvent::new(kind::RUN_CHANGED, &current.run, actor).in_epoch(current.epoch);
    store.append_events(&[changed.with(HOOKS_SILENT, sentence)], &())?;
    Ok(())
}

/// Notes that a turn of a run has ended where nothing had changed since a checkpoint, which has the reply already.
pub fn note_turn_end(store: &Store, current: &Current, checkpoint: &str) -> Result<()> {
    let changed = NewEvent::new(kind::RUN_CHANGED, &current.run, hook_actor()).in_epoch(current.epoch);
    store
        .append_events(&[changed.with(TURN_ENDED, checkpoint).once(format!("{}/{TURN_ENDED}/{checkpoint}", current.run))], &())?;
    Ok(())
}

/// Notes an event of a run that has come of a hook; the first one is recorded.
pub fn note(store: &Store, host: &dyn Host, current: &Current, event: &str) -> Result<()> {
    let run = store.view().run(&current.run)?;
    let heard = HeardHooks { event: event.to_owned(), at: host.now() };
    if let Some(agent) = run.as_ref().and_then(agent_in) {
        note_last(store, agent.kind(), &heard);
    }
    if run.is_none_or(|run| run.extra.contains_key(HOOKS_HEARD)) {
        return Ok(());
    }
    let changed = NewEvent::new(kind::RUN_CHANGED, &current.run, hook_actor()).in_epoch(current.epoch);
    store.append_events(&[changed.with(HOOKS_HEARD, json!(heard)).once(format!("{}/{HOOKS_HEARD}", current.run))], &())?;
    Ok(())
}
