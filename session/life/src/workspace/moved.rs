//! A session that goes on in another folder: its own was moved, or somebody says so.

use std::path::{Path, PathBuf};

use parhelia_host::{Host, MoveRefusal, Observer, Refusal, Result, intent, run};
use parhelia_ledger::{LedgerView as _, Place, Session};
use parhelia_oversight::review::acts;
use parhelia_store::Store;

use crate::workspace::place::{move_to, moved_to, workspace};

/// A session whose folder is another path by now.
#[derive(Debug)]
pub struct Relocation {
    /// Id of the session that has the new folder.
    pub session: String,
    /// The path of its folder before.
    pub from: Option<String>,
    /// Its folder.
    pub to: Place,
    /// Other sessions that are alive there.
    pub others: Vec<String>,
}

/// Records the folder that a session works in by now: the one that is given, or the one that its own is found at. Nothing is moved, and no file is
/// changed. With `other_folder`, it may be another folder.
pub fn move_session(
    store: &Store,
    host: &dyn Host,
    named: &str,
    path: Option<&Path>,
    other_folder: bool,
    observer: &dyn Observer,
) -> Result<Relocation> {
    let id = store.view().session_named(named)?.id;
    let _turn = intent::held(store, &id, observer)?;
    let session = store.refresh()?.session_named(&id)?;
    let to = path.map_or_else(|| found(&session), workspace)?;
    if other_folder {
        // Whatever rolls the session back from here on writes to that folder.
        acts::ensure_person(store, host, "session move --other-folder", Some(&id), observer)?;
    }
    let from = session.workspace.as_ref().map(|place| place.path.clone());
    let to = move_to(store, &session, &to, other_folder, &host.actor())?;
    let others = run::live_in(store, &to.folder(), &id)?.into_iter().map(|(other, _)| other.id).collect();
    Ok(Relocation { session: id, from, to, others })
}

fn found(session: &Session) -> Result<PathBuf> {
    let place = session.workspace.as_ref();
    // Another folder may have taken its place meanwhile.
    let is_there = |place: &&Place| Place::of(&place.folder()).is_ok_and(|now| !place.is_another_folder(&now));
    if let Some(place) = place.filter(is_there) {
        let (session, path) = (session.id.clone(), place.path.clone());
        return Err(Refusal::Move(MoveRefusal::HasNotMoved { session, path }).into());
    }
    place.and_then(moved_to).ok_or_else(|| {
        let path = place.map_or("its workspace", |place| place.path.as_str());
        let is_there = place.is_some_and(|place| place.folder().is_dir());
        Refusal::NotFound { path: path.to_owned(), is_there }.into()
    })
}
