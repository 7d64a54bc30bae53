//! Work outside of a session's workspace. A checkpoint has one folder: where events tell that the agent works in a linked working tree of the same
//! repository that was made since the session began, a session of that tree's own keeps its content, so that nothing of it is ever restored into the
//! workspace. Of other folders it is only said that the agent was there.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_agent::{
    hooks::{Event, Kind},
    process::canonical,
};
use parhelia_ledger::{LedgerView as _, Place, Session, Status, kind};
use parhelia_store::{
    Store,
    event::NewEvent,
    name,
    record::{Cause, Checkpoint, Trigger},
    view::View,
};
use serde_json::json;

use crate::{
    checkpoint::{self, CheckpointReport, CheckpointRequest, target},
    rollback,
    workspace::worktrees,
};
use parhelia_host::{
    Host, Observer, Result,
    run::{self, Current, hook_actor},
};
use parhelia_oversight::review::acts::BEGUN_BY;

/// The field of a session with the folders outside of its workspace that its agent was seen to work in.
const WORKED_IN: &str = "worked_in";
/// The field of a working tree's session that names the one whose agent works there.
const BESIDE: &str = "beside";
/// The number of folders that are remembered, the newest ones.
const FOLDERS_MAX: usize = 16;
/// The number of working trees of which a turn's end makes checkpoints, those that were seen last.
const TREES_MAX: usize = 8;
/// Another checkpoint of the same tree is waited for, but not longer.
const TURN_LIMIT: Duration = Duration::from_secs(60);

/// Folders outside of a session's workspace that its agent was seen to work in, the last one at the end.
pub fn worked_in(session: &Session) -> Vec<PathBuf> {
    let known: Vec<String> =
        session.extra.get(WORKED_IN).and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or_default();
    known.iter().map(|shown| name::as_path(&name::parse(shown)).to_owned()).collect()
}

/// The session whose agent works in a working tree that this one keeps.
pub fn beside(session: &Session) -> Option<&str> {
    session.extra.get(BESIDE)?.as_str()
}

/// The sessions of working trees beside a session.
pub fn trees_of(view: &View, session: &str) -> Result<Vec<Session>> {
    Ok(view.sessions()?.into_iter().filter(|other| beside(other) == Some(session)).collect())
}

/// The newest checkpoint of exactly this folder, whichever session's.
pub fn kept(view: &View, folder: &Path) -> Result<Option<Checkpoint>> {
    let is_there = |session: &Session| session.workspace.as_ref().is_some_and(|place| canonical(&place.folder()) == folder);
    let mut newest: Option<Checkpoint> = None;
    for session in view.sessions()?.iter().filter(|session| is_there(session)) {
        let head = view.head(&session.id)?;
        newest = head.into_iter().chain(newest).max_by_key(|found| found.record.created_at);
    }
    Ok(newest)
}

/// Notes the folder of which an event tells, if it is outside of the workspace and not known yet.
pub(crate) fn note(store: &Store, current: &Current, event: &Event) -> Result<()> {
    let told = if event.kind() == Kind::CwdChanged { &event.new_cwd } else { &event.cwd };
    let Some(folder) = told.as_ref().and_then(|folder| folder.canonicalize().ok()).filter(|folder| folder.is_dir()) else {
        return Ok(());
    };
    if folder.starts_with(canonical(&current.workspace)) {
        return Ok(());
    }
    let Some(session) = store.refresh()?.session(&current.session)? else { return Ok(()) };
    let folder = worktrees::linked(&current.workspace, &folder, session.created_at.into()).unwrap_or(folder);
    let mut known = worked_in(&session);
    if known.contains(&folder) {
        return Ok(());
    }
    known.push(folder);
    let shown = known.iter().skip(known.len().saturating_sub(FOLDERS_MAX));
    let shown: Vec<String> = shown.map(|folder| name::display(folder.as_os_str().as_encoded_bytes())).collect();
    let changed = NewEvent::new(kind::SESSION_CHANGED, &session.id, hook_actor()).in_epoch(current.epoch);
    store.append_events(&[changed.with(WORKED_IN, json!(shown))], &())?;
    Ok(())
}

/// Keeps the working trees beside a session that its agent was seen to work in. What fails is said, and costs the session's own checkpoint nothing.
pub(crate) fn keep(store: &Store, host: &dyn Host, current: &Current, cause: Cause, observer: &dyn Observer) -> Result<()> {
    let Some(session) = store.refresh()?.session(&current.session)? else { return Ok(()) };
    let is_tree =
        |folder: &PathBuf| worktrees::linked(&current.workspace, folder, session.created_at.into()).as_ref() == Some(folder);
    let trees: Vec<PathBuf> = worked_in(&session).into_iter().rev().filter(is_tree).collect();
    for (number, tree) in trees.iter().enumerate() {
        let shown = name::display(tree.as_os_str().as_encoded_bytes());
        let done = match number < TREES_MAX {
            true => keep_one(store, host, &session, (tree, cause), observer)
                .unwrap_or_else(|e| TreeOutcome::Left(observer.explain(&e))),
            false => TreeOutcome::Left(format!("a turn's end keeps no more than {TREES_MAX}")),
        };
        observer.warning(&match done {
            TreeOutcome::Unchanged => continue,
            TreeOutcome::Made(made) => format!("the working tree {shown} is in checkpoint {}", made.outcome.checkpoint.id()),
            TreeOutcome::Left(why) => format!("the working tree {shown} was not captured: {why}"),
        });
    }
    Ok(())
}

/// The result for one working tree.
enum TreeOutcome {
    Made(Box<CheckpointReport>),
    Unchanged,
    Left(String),
}

fn keep_one(
    store: &Store,
    host: &dyn Host,
    session: &Session,
    (tree, cause): (&Path, Cause),
    observer: &dyn Observer,
) -> Result<TreeOutcome> {
    if let Some((other, _)) = run::live_in(store, tree, &session.id)?.first() {
        return Ok(TreeOutcome::Left(format!("an agent of session {} works there", other.id)));
    }
    let found = target::target(store, host, None, tree)?;
    match &found.known {
        None => begin(store, session, tree, &found.session)?,
        Some(known) if known.status == Status::Ended => return Ok(TreeOutcome::Left(format!("session {} has ended", known.id))),
        Some(known) if is_of_same_folder(&store.view(), known, session)? => {
            if beside(known) != Some(&session.id) {
                let changed = NewEvent::new(kind::SESSION_CHANGED, &known.id, hook_actor());
                store.append_events(&[changed.with(BESIDE, session.id.as_str()).with(BEGUN_BY, session.id.as_str())], &())?;
            }
        }
        Some(known) => return Ok(TreeOutcome::Left(format!("it is of session {}, which others have begun", known.id))),
    }
    let Some(_turn) = rollback::take_turn(store, host, &found.session, TURN_LIMIT, observer)? else {
        return Ok(TreeOutcome::Left("another process captures it".to_owned()));
    };
    let config = host.config(tree)?;
    let request = CheckpointRequest {
        trigger: Trigger::Periodic,
        cause,
        detail: Some(format!("beside {}", session.id)),
        skip_if_unchanged: true,
        is_judged: true,
        ..CheckpointRequest::new(&found.session, tree, &config)
    };
    let made = checkpoint::make(store, host, &request, observer);
    // One that was removed meanwhile is missed by nobody.
    if made.is_ok() || tree.is_dir() {
        let failed = made.as_ref().err().map(|e| observer.explain(e));
        run::note_checkpoint(store, &found.session, failed.as_deref(), hook_actor())?;
    }
    let made = made?;
    Ok(if made.outcome.skipped { TreeOutcome::Unchanged } else { TreeOutcome::Made(Box::new(made)) })
}

/// Begins the session of a working tree: as the agent's own work, under the same policy.
fn begin(store: &Store, session: &Session, tree: &Path, id: &str) -> Result<()> {
    let created = NewEvent::new(kind::SESSION_CREATED, id, hook_actor())
        .with("workspace", json!(Place::of(tree)?))
        .with(BESIDE, session.id.as_str())
        .with(BEGUN_BY, session.id.as_str());
    let created = session.policy.iter().fold(created, |created, policy| created.with("policy", policy.as_str()));
    store.append_events(&[created], &())?;
    Ok(())
}

/// True if a working tree's session was begun beside this one, or beside another one in the same folder, and has no agent of its own.
fn is_of_same_folder(view: &View, tree: &Session, session: &Session) -> Result<bool> {
    let Some(id) = beside(tree).filter(|_| !run::has_agent(tree)) else { return Ok(false) };
    let folder = |session: &Session| session.workspace.as_ref().map(|place| canonical(&place.folder()));
    Ok(id == session.id || view.session(id)?.is_some_and(|other| folder(&other) == folder(session)))
}
