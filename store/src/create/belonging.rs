//! To which session a checkpoint belongs, and what becomes of that with it.

use std::{fs, os::unix::fs::MetadataExt};

use serde_json::json;

use crate::{
    error::{Error, Result},
    event::{Actor, NewEvent, kind},
    name,
    projection::Place,
    record::{Checkpoint, Record},
    view::View,
};

/// The maker of a checkpoint, and the folder that it is of.
pub struct Belonging {
    /// The person or program that makes it.
    pub actor: Actor,
    /// The captured folder; none where there was no folder, as with an archive.
    pub place: Option<Place>,
    /// Keep the session's recorded folder as it is, whatever is captured.
    pub keeps_place: bool,
    /// Statements about the checkpoint that are appended with it; their subject is filled in.
    pub marks: Vec<NewEvent>,
}

impl Belonging {
    /// Fails where the session has a workspace elsewhere, or its disk is not mounted. One that was moved, or is gone, is no reason to
    /// refuse.
    pub fn check(&self, view: &View, session: &str) -> Result<()> {
        let known = view.session(session)?.and_then(|session| session.workspace);
        let (Some(known), Some(place)) = (known, &self.place) else { return Ok(()) };
        if known.path == place.path
            && is_empty(&known)
            && let Some(lost) = known.lost()
        {
            return Err(Error::Refused(format!(
                "{} is empty, and {lost}: mount that, or record with `parhelia session move` where session {session} works now",
                known.path
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
    pub fn events(&self, view: &View, record: &Record) -> Result<Vec<NewEvent>> {
        let session = view.session(&record.session)?;
        // Somebody may have begun to work in a folder under this name since it was chosen.
        if let Some(place) = session.as_ref().and_then(|session| session.workspace.as_ref()).filter(|_| self.place.is_none()) {
            return Err(works_in(&record.session, place));
        }
        let (kind, known) = match &session {
            None => (kind::SESSION_CREATED, None),
            Some(session) => (kind::SESSION_CHANGED, session.workspace.as_ref()),
        };
        let place = self.place.as_ref().filter(|place| Some(*place) != known && !(self.keeps_place && known.is_some()));
        if session.is_some() && (place.is_none() || record.fenced) {
            return Ok(Vec::new());
        }
        let event = NewEvent::new(kind, &record.session, self.actor.clone());
        Ok(vec![match place {
            Some(place) => event.with("workspace", json!(place)),
            None => event,
        }])
    }
}

/// The refusal of an import into a session that works in a folder.
pub fn works_in(session: &str, place: &Place) -> Error {
    Error::Refused(format!(
        "session {session} works in {}, and what is imported would be its latest checkpoint; --session gives another name",
        place.path
    ))
}

fn is_empty(place: &Place) -> bool {
    fs::read_dir(place.folder()).is_ok_and(|mut entries| entries.next().is_none())
}

/// Gives a record its place in its session as it is now: epoch, parent and depth, and whether a newer run has taken over. Says whether
/// that changed anything.
pub fn fit_in(record: &mut Record, view: &View) -> Result<bool> {
    let current = view.session(&record.session)?.map_or(0, |session| session.epoch);
    // Whoever belongs to no run acts now, and is never out of date.
    let epoch = if record.run.is_some() { record.epoch } else { current };
    let fenced = epoch < current;
    let parent = match fenced {
        false => view.head(&record.session)?,
        true => {
            let is_before = |c: &Result<_>| c.as_ref().map_or(true, |c: &Checkpoint| c.record.epoch <= epoch);
            view.newest_first_of(&record.session)?.find(is_before).transpose()?
        }
    };
    let before = (record.epoch, record.fenced, record.parent, record.depth);
    (record.epoch, record.fenced) = (epoch, fenced);
    record.parent = parent.as_ref().map(|parent| parent.record.id);
    record.depth = parent.map_or(1, |parent| parent.record.depth + 1);
    Ok(before != (record.epoch, record.fenced, record.parent, record.depth))
}
