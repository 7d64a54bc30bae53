//! Changes to a workspace since its rollback was interrupted. They are no part of the rollback, and are kept.

use std::{collections::HashMap, path::Path};

use parhelia_ledger::{LedgerView as _, Session};
use parhelia_store::{Store, name, record::Checkpoint, tree::Kind};

use super::look::sessions_below;
use parhelia_host::intent::{self, Intent};
use parhelia_host::{Result, run::works_in};
use parhelia_oversight::changed::each_content;

/// The rollback of a session that was interrupted, so that files of two states stand in its workspace. One that is just being done is none.
pub fn interrupted(store: &Store, session: &Session) -> Option<Intent> {
    intent::open(session).filter(|_| !intent::is_in_turn(store, &session.id))
}

/// Sessions with such a rollback in this folder, in one around it or in one below it.
pub fn interrupted_in(store: &Store, workspace: &Path) -> Result<Vec<(Session, Intent)>> {
    let mut sessions = store.refresh()?.sessions()?;
    sessions.retain(|session| intent::open(session).is_some());
    let found = works_in(sessions, workspace).into_iter();
    Ok(found.filter_map(|session| interrupted(store, &session).map(|intent| (session, intent))).collect())
}

/// A newer checkpoint of another session whose agent has worked in these files, in the order of commits.
pub(super) fn newer_of_another(store: &Store, session: &Session, intent: &Intent, began: u64) -> Result<Option<Checkpoint>> {
    let view = store.view();
    let kept = sessions_below(store, &intent.workspace, &session.id, None)?;
    let is_other = |other: &Session| other.id != session.id && other.run.is_some() && kept.iter().all(|(_, id)| *id != other.id);
    let others = view.sessions()?.into_iter().filter(is_other).collect();
    for other in works_in(others, &intent.workspace) {
        for found in view.newest_first_of(&other.id)? {
            let found = found?;
            if found.sequence <= began {
                break;
            }
            if !found.record.is_safety() && !found.record.fenced {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Paths that are neither as the rollback makes them nor as they were before it. A kill leaves no such file or link behind: each of them is put
/// in place whole. Folders and metadata may be in between; git's own folders are not rolled back; what a restore was building goes.
pub(super) fn worked_on(store: &Store, target: &Checkpoint, safety: &Checkpoint, now: &Checkpoint) -> Result<Vec<Vec<u8>>> {
    let mut then: HashMap<Vec<u8>, Option<Kind>> = HashMap::new();
    // A rollback leaves them as they are, also where they are no repositories.
    let is_gits = |path: &[u8]| name::components(path).any(|part| part == b".git");
    each_content(store, target, now, &mut |change| {
        then.insert(change.path, change.old.map(|old| old.kind));
    })?;
    let mut found = Vec::new();
    each_content(store, safety, now, &mut |change| {
        let is_so = match (then.get(&change.path), change.new) {
            (None, _) => false,
            (Some(_), Some(_)) => true,
            // What the rollback would have replaced may be missing for a moment; what it leaves as it is, is not.
            (Some(kind), None) => *kind == change.old.map(|old| old.kind),
        };
        if is_so && !is_gits(&change.path) {
            found.push(change.path);
        }
    })?;
    Ok(found)
}
