//! `session move`: the workspace of a session is another folder by now.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_session::{resume, rollback, run};
use parhelia_store::{
    Store,
    fold::{Place, Session},
    place::known_among,
    selector::sessions_with_work,
};
use serde_json::json;

use super::agent::actor;
use crate::{
    checkpoint::session::workspace,
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    human,
};

/// Flags of `session move`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name
    #[arg(add = complete::sessions())]
    session: String,
    /// The folder that is its workspace by now [default: where the folder is found, by a process that works in it, near its old place or elsewhere on its disk]
    path: Option<PathBuf>,
    /// Also where that is another folder, such as a copy on another disk
    #[arg(long)]
    other_folder: bool,
}

/// Records it. Nothing is moved, and no file is changed.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let id = store.view().session_named(&args.session)?.id;
    let _turn = rollback::held(&store, &id, &context.progress())?;
    let session = store.refresh()?.session_named(&id)?;
    let to = match &args.path {
        Some(path) => workspace(path)?,
        None => found(&session)?,
    };
    let from = session.workspace.as_ref().map(|place| place.path.clone());
    let place = resume::move_to(&store, &session, &to, args.other_folder, &actor())?;
    context.out.did(format!("session {id} works in {} from here on", place.path));
    for (other, _) in run::live_in(&store, &place.folder(), &id)? {
        tell!("parhelia: session {} is alive there, too", other.id);
    }
    context.out.remark(format!("Session {id} works in {} from here on.", place.path))?;
    context.out.summary(json!({ "session": id, "from": from, "to": place.path }))?;
    Ok(Code::Done)
}

fn found(session: &Session) -> Result<PathBuf> {
    let place = session.workspace.as_ref();
    // Another folder may have taken its place meanwhile.
    let is_there = |place: &&Place| Place::of(&place.folder()).is_ok_and(|now| !place.is_another_folder(&now));
    if let Some(place) = place.filter(is_there) {
        return Err(Failure::Refused(format!(
            "session {} works in {}, which is there; give the folder to go on in",
            session.id, place.path
        )));
    }
    place.and_then(resume::moved_to).ok_or_else(|| {
        let path = place.map_or("its workspace", |place| place.path.as_str());
        let is_there = place.is_some_and(|place| place.folder().is_dir());
        let was = if is_there { " is another folder by now, and the session's own" } else { "" };
        Failure::Refused(format!("{path}{was} was not found; give the folder that it is by now"))
    })
}

/// Whether a session was named after a folder that its workspace was before it was moved.
pub fn is_named_after_earlier_folder(session: &Session, derived: &dyn Fn(&Path) -> String) -> bool {
    let folder = |path: String| Place { path, ..Place::default() }.folder();
    let is_it = |name: String| match session.id.strip_prefix(&name) {
        // Beside one that was imported.
        Some(rest) => rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok()),
        None => false,
    };
    resume::moved_from(session).into_iter().any(|path| is_it(derived(&folder(path))))
}

/// A hint where a folder that gets a new session is another one's, moved.
pub fn moved_here(store: &Store, workspace: &Path) -> Result<Option<String>> {
    let sessions = sessions_with_work(&store.view())?;
    let earlier = known_among(&sessions, std::iter::once(workspace))
        .into_iter()
        .map(|(_, session)| session)
        .filter(|session| session.workspace.as_ref().is_some_and(|place| place.folder() != workspace));
    Ok(earlier.max_by_key(|session| session.changed_sequence).map(|session| {
        let bytes = workspace.as_os_str().as_bytes();
        let (id, folder, word) = (&session.id, human::path(bytes), human::shell(bytes));
        let was = session.workspace.as_ref().map_or("elsewhere", |place| place.path.as_str());
        format!(
            "{folder} is the folder of session {id}, which was {was}: `parhelia session move {id} {word}` has that go on here, and this checkpoint \
             begins another session"
        )
    }))
}
