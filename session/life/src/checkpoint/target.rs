//! The session that a folder's checkpoint belongs to.

use std::{iter, path::Path};

use parhelia_agent::process::canonical;
use parhelia_ledger::{LedgerView as _, Place, Run, Session, Status, known, selector::sessions_with_work};
use parhelia_store::{Store, view::View};

use crate::{checkpoint::session_name::derived_name, rollback, workspace::place::moved_from};
use parhelia_host::{
    Host, Observer, Refusal, Result,
    intent::{self, Turn},
    run::own_run,
};

/// So many names are tried for a session whose own was imported.
const NAMES_MAX: usize = 100;

/// The session that a folder's checkpoint belongs to.
#[derive(Debug)]
pub struct Target {
    /// Its id; a new session's where `known` is none.
    pub session: String,
    /// The session as it is known; none for a new one.
    pub known: Option<Session>,
    /// The run of it that the caller belongs to.
    pub run: Option<Run>,
    /// Another session whose folder this one was before it was moved, where a new session begins here.
    pub moved_from: Option<Session>,
}

impl Target {
    /// Waits until nobody rolls the session back. What is half rolled back is no state that anybody was in: a rollback that was interrupted is
    /// finished, and none begins until the turn is over. A session without checkpoints has none.
    pub fn turn(&self, store: &Store, host: &dyn Host, observer: &dyn Observer) -> Result<Option<Turn>> {
        let Some(known) = &self.known else { return Ok(None) };
        if intent::open(known).is_some() {
            let _alone = intent::held(store, &self.session, observer)?;
            rollback::finish_earlier(store, host, &self.session, observer)?;
        }
        Ok(Some(intent::shared(store, &self.session, observer)?))
    }
}

/// Finds the session that has this id, or else the one of this workspace that has this name; where there is none, the name is a new session's
/// id. Without a name it is the session of the run that the caller belongs to, or else the one that is named after the workspace.
pub fn target(store: &Store, host: &dyn Host, named: Option<String>, workspace: &Path) -> Result<Target> {
    let run = own_run(store, host)?;
    let view = store.view();
    let session = match named {
        Some(name) => of_name(&view, name, workspace)?,
        None => of_folder(&view, run.as_ref(), workspace)?,
    };
    let known = view.session(&session)?;
    let moved_from = if known.is_none() { moved_here(&view, workspace)? } else { None };
    Ok(Target { run: run.filter(|run| run.session == session), session, known, moved_from })
}

/// True if a session's workspace is a folder. One that was moved is still the session's.
fn is_here<'a>(own: &'a Place, workspace: &'a Path) -> impl Fn(&Session) -> bool + 'a {
    move |session| {
        let place = session.workspace.as_ref();
        place.is_some_and(|place| canonical(&place.folder()) == workspace || place.is_same_folder(own))
    }
}

fn of_folder(view: &View, run: Option<&Run>, workspace: &Path) -> Result<String> {
    let place = Place::of(workspace)?;
    let is_here = is_here(&place, workspace);
    let own = run.map(|run| view.session(&run.session)).transpose()?.flatten();
    if let Some(session) = own.filter(&is_here) {
        return Ok(session.id);
    }
    let is_moved = |session: &Session| is_here(session) && is_named_after_earlier_folder(session);
    let moved = view.sessions()?.into_iter().find(is_moved);
    moved.map_or_else(|| named_after(view, workspace), |session| Ok(session.id))
}

fn of_name(view: &View, name: String, workspace: &Path) -> Result<String> {
    if view.session(&name)?.is_some() {
        return Ok(name);
    }
    let place = Place::of(workspace)?;
    let sessions = view.sessions()?.into_iter().filter(|session| session.name == name);
    let (here, elsewhere): (Vec<_>, Vec<_>) = sessions.partition(is_here(&place, workspace));
    let goes_on = |session: &Session| session.status != Status::Ended;
    let here = here.into_iter().max_by_key(|session| (goes_on(session), session.changed_sequence));
    match (here, elsewhere.into_iter().find(goes_on)) {
        (Some(session), _) => Ok(session.id),
        // Whoever said the name would get the new session from then on.
        (None, Some(other)) => {
            let place = other.workspace.as_ref();
            Err(Refusal::NameIsTaken {
                name,
                session: other.id.clone(),
                place: place.map(|place| place.path.clone()),
                is_gone: place.is_some_and(|place| !place.folder().is_dir()),
                workspace: workspace.to_owned(),
            }
            .into())
        }
        (None, None) => Ok(name),
    }
}

/// The session that is named after a folder. What was imported under that name is of another machine's folder, and not joined: then it is a name
/// beside it.
fn named_after(view: &View, workspace: &Path) -> Result<String> {
    let derived = derived_name(workspace);
    let names = iter::once(derived.clone()).chain((2..).map(|n| format!("{derived}-{n}")));
    for name in names.take(NAMES_MAX) {
        let is_imported = view.session(&name)?.is_some_and(|session| session.workspace.is_none())
            && view.head(&name)?.is_some_and(|head| head.record.is_imported());
        if !is_imported {
            return Ok(name);
        }
    }
    Err(Refusal::WasImported { session: derived }.into())
}

/// True if a session was named after a folder that its workspace was before it was moved.
fn is_named_after_earlier_folder(session: &Session) -> bool {
    let folder = |path: String| Place { path, ..Place::default() }.folder();
    let is_it = |name: String| match session.id.strip_prefix(&name) {
        // Beside one that was imported.
        Some(rest) => rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok()),
        None => false,
    };
    moved_from(session).into_iter().any(|path| is_it(derived_name(&folder(path))))
}

/// The session whose folder, moved, a workspace is.
fn moved_here(view: &View, workspace: &Path) -> Result<Option<Session>> {
    let sessions = sessions_with_work(view)?;
    let earlier = known::among(&sessions, iter::once(workspace))
        .into_iter()
        .map(|(_, session)| session)
        .filter(|session| session.workspace.as_ref().is_some_and(|place| place.folder() != workspace));
    Ok(earlier.max_by_key(|session| session.changed_sequence).cloned())
}
