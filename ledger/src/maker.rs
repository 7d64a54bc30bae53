//! The folder of a session: which one its checkpoints are of, and what becomes of that with each.

use parhelia_store::name::step::Step;
use std::{fs, os::unix::fs::MetadataExt};

use parhelia_store::{Error, Result, create::Maker, event::NewEvent, fold::Projection, name, place::Place, record::Record};
use serde_json::json;

use crate::{admit::elsewhere, fold::Ledger, kind};

impl Ledger {
    /// Fails where the session has a workspace elsewhere, or its disk is not mounted. One that was moved, or is gone, is no reason to
    /// refuse.
    pub(crate) fn check_folder(&self, kept: Projection<'_>, session: &str, maker: &Maker) -> Result<()> {
        let session_here = self.session(kept, session)?;
        if let Some(session) = session_here.as_ref().filter(|session| !session.is_ours()) {
            return Err(elsewhere(session));
        }
        let known = session_here.and_then(|session| session.workspace);
        let (Some(known), Some(place)) = (known, &maker.place) else { return Ok(()) };
        if known.path == place.path
            && is_empty(&known)
            && let Some(lost) = known.lost()
        {
            return Err(Error::Refused(format!(
                "{} is empty, and {lost}: mount that, or record with {} where session {session} works now",
                known.path,
                Step::MoveSession(String::new())
            )));
        }
        let folder = |path: &str| fs::metadata(name::as_path(&name::parse(path))).ok().map(|meta| (meta.dev(), meta.ino()));
        let there = folder(&known.path);
        let was_moved = there.map(|(_, inode)| inode) != known.inode;
        if known.path == place.path || was_moved || there == folder(&place.path) {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "session {session} works in {}, which is another folder than {}; give this folder's checkpoints a session of their own",
            known.path, place.path
        )))
    }

    /// Events to record of the session together with a checkpoint: that it exists, or that its workspace is elsewhere by now.
    pub(crate) fn session_events(&self, kept: Projection<'_>, record: &Record, maker: &Maker) -> Result<Vec<NewEvent>> {
        let session = self.session(kept, &record.session)?;
        // Somebody may have begun to work in a folder under this name since it was chosen.
        if let Some(place) = session.as_ref().and_then(|session| session.workspace.as_ref()).filter(|_| maker.place.is_none()) {
            return Err(works_in(&record.session, place));
        }
        let (kind, known) = match &session {
            None => (kind::SESSION_CREATED, None),
            Some(session) => (kind::SESSION_CHANGED, session.workspace.as_ref()),
        };
        let place = maker.place.as_ref().filter(|place| Some(*place) != known && !(maker.keeps_place && known.is_some()));
        if session.is_some() && (place.is_none() || record.fenced) {
            return Ok(Vec::new());
        }
        let event = NewEvent::new(kind, &record.session, maker.actor.clone());
        Ok(vec![match place {
            Some(place) => event.with("workspace", json!(place)),
            None => event,
        }])
    }
}

/// The refusal of an import into a session that works in a folder.
pub(crate) fn works_in(session: &str, place: &Place) -> Error {
    Error::Refused(format!(
        "session {session} works in {}, and what is imported would be its latest checkpoint; {} gives another name",
        place.path,
        Step::SessionOption
    ))
}

fn is_empty(place: &Place) -> bool {
    fs::read_dir(place.folder()).is_ok_and(|mut entries| entries.next().is_none())
}
