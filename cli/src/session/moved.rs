//! `session move`: the workspace of a session is another folder by now.

use std::path::PathBuf;

use parhelia_host::{MoveRefusal, Refusal, intent, run};
use parhelia_ledger::{LedgerView as _, Place, Session};
use parhelia_life::place;
use parhelia_oversight::review::acts;
use parhelia_wire::Summary;

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    workspace::workspace,
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
    let _turn = intent::held(&store, &id, &context.progress())?;
    let session = store.refresh()?.session_named(&id)?;
    let to = match &args.path {
        Some(path) => workspace(path)?,
        None => found(&session)?,
    };
    if args.other_folder {
        // Whatever rolls the session back from here on writes to that folder.
        acts::ensure_person(&store, &context.host()?, "session move --other-folder", Some(&id), &context.progress())?;
    }
    let from = session.workspace.as_ref().map(|place| place.path.clone());
    let place = place::move_to(&store, &session, &to, args.other_folder, &context.actor())?;
    context.out.did(format!("session {id} works in {} from here on", place.path));
    for (other, _) in run::live_in(&store, &place.folder(), &id)? {
        tell!("parhelia: session {} is alive there, too", other.id);
    }
    context.out.remark(format!("Session {id} works in {} from here on.", place.path))?;
    context.out.summary(Summary::SessionMove { id, from, to: place.path })?;
    Ok(Code::Done)
}

fn found(session: &Session) -> Result<PathBuf> {
    let place = session.workspace.as_ref();
    // Another folder may have taken its place meanwhile.
    let is_there = |place: &&Place| Place::of(&place.folder()).is_ok_and(|now| !place.is_another_folder(&now));
    if let Some(place) = place.filter(is_there) {
        let (session, path) = (session.id.clone(), place.path.clone());
        return Err(Refusal::Move(MoveRefusal::HasNotMoved { session, path }).into());
    }
    place.and_then(place::moved_to).ok_or_else(|| {
        let path = place.map_or("its workspace", |place| place.path.as_str());
        let is_there = place.is_some_and(|place| place.folder().is_dir());
        Refusal::NotFound { path: path.to_owned(), is_there }.into()
    })
}
