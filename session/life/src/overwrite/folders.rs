//! The sessions' folders that a restore changes, and the agents that are alive in them.

use std::{
    collections::HashSet,
    iter,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_ledger::{
    LedgerView as _, Place, Session, Status, known,
    selector::{sessions_with_work, workspace_at},
};
use parhelia_store::{Store, mounts::other_paths, name, record::Checkpoint, restore::Plan, view::View};

use crate::workspace::place::FolderIdentity;
use parhelia_host::{
    Host, Result,
    run::{self, Life, has_agent},
};
use schemars::JsonSchema;
use serde::Serialize;

/// A folder that sessions work in.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionFolder {
    /// Absolute path at which the folder of the sessions is found.
    pub path: PathBuf,
    /// The sessions; one at least.
    pub sessions: Vec<Session>,
    /// The restore's target, and another path of it, by which it lies in the folder or around it; the same one where it does so by itself.
    reached: (PathBuf, PathBuf),
}

impl SessionFolder {
    /// True if a checkpoint is one of this folder: by its session, or by the path that was captured here. One of another folder that was in
    /// the place of its session's is of that one, while that is there.
    pub fn is_of(&self, checkpoint: &Checkpoint) -> bool {
        let record = &checkpoint.record;
        let own = self.sessions.iter().find(|session| session.id == record.session);
        if record.is_of_another_folder() {
            return self.was_captured_as(checkpoint) && own.is_none_or(|own| self.standing_of(own) != FolderIdentity::Same);
        }
        own.is_some() || self.was_captured_as(checkpoint)
    }

    /// True if it was captured at this path. The paths of another machine say nothing.
    fn was_captured_as(&self, checkpoint: &Checkpoint) -> bool {
        !checkpoint.record.is_imported() && name::as_path(&name::parse(&checkpoint.record.workspace.path)) == self.path
    }

    /// A path from the restore's target on, as it is from the folder's own path on.
    pub fn own_path(&self, path: &Path) -> PathBuf {
        let (target, other) = &self.reached;
        path.strip_prefix(target).map_or_else(|_| path.to_owned(), |inside| other.join(inside))
    }

    /// The given paths that lie in this folder or contain it, as seen from its own path.
    pub fn paths(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        let own: Vec<PathBuf> = paths.iter().map(|path| self.own_path(path)).collect();
        in_folder(&own, &self.path)
    }

    /// The session that gets the safety checkpoint: that of the checkpoint which is restored, or else the one that changed last, of those
    /// that have not ended where there are any.
    pub fn keeper(&self, restored: &Checkpoint) -> Option<&Session> {
        let rank =
            |session: &&Session| (session.id == restored.record.session, session.status != Status::Ended, session.changed_at);
        self.sessions.iter().max_by_key(rank)
    }

    /// A sentence for where the session of the checkpoint that is restored, or none of the sessions, works in it any more, and another
    /// folder has taken the place of theirs; with true, it is not known that theirs is gone for good.
    pub fn standing(&self, restored: &Checkpoint) -> Option<(String, bool)> {
        let own = self.sessions.iter().find(|session| session.id == restored.record.session);
        if let Some((own, standing)) = own.map(|own| (own, self.standing_of(own))).filter(|(_, standing)| standing.is_another()) {
            // What was captured of the folder that is there may go back to it.
            let is_of_this = restored.record.is_of_another_folder() && self.was_captured_as(restored);
            return standing.text(own).filter(|_| !is_of_this).map(|text| (text, true));
        }
        let all: Vec<(FolderIdentity, &Session)> =
            self.sessions.iter().map(|session| (self.standing_of(session), session)).collect();
        let stands = all.iter().all(|(standing, _)| *standing != FolderIdentity::Same);
        let worst = all.iter().filter(|_| stands).max_by_key(|(standing, _)| standing.is_another())?;
        worst.0.text(worst.1).map(|text| (text, worst.0.is_another()))
    }

    fn standing_of(&self, session: &Session) -> FolderIdentity {
        let is_recorded = session.workspace.as_ref().is_some_and(|place| place.folder() == self.path);
        if is_recorded { FolderIdentity::of(session) } else { FolderIdentity::Same }
    }

    /// The folder's path, for messages.
    pub fn shown(&self) -> String {
        name::display(self.path.as_os_str().as_bytes())
    }
}

/// The sessions' folders in which restoring to `target` may change something: the one that `target` is or lies in, or else those below it,
/// without what lies in another one of them. `paths` is what would be overwritten: a workspace that was moved is known by the folder.
pub fn folders(view: &View, target: &Path, paths: &[PathBuf]) -> Result<Vec<SessionFolder>> {
    // What is mounted at the target may be a folder inside a workspace, to which no path from the target leads.
    let mut around: Vec<SessionFolder> = Vec::new();
    for other in iter::once(target.to_owned()).chain(other_paths(target)) {
        let Some((path, sessions)) = workspace_at(view, &other)? else { continue };
        let is_known = |session: &Session| around.iter().any(|folder| folder.sessions.iter().any(|known| known.id == session.id));
        if !sessions.iter().all(is_known) {
            around.push(SessionFolder { path, sessions, reached: (target.to_owned(), other) });
        }
    }
    if !around.is_empty() {
        return Ok(around);
    }
    let mut below: Vec<SessionFolder> = Vec::new();
    for (path, session) in homes(&sessions_with_work(view)?, target, paths) {
        match below.iter_mut().find(|folder| folder.path == path) {
            Some(folder) => folder.sessions.push(session),
            None => {
                below.push(SessionFolder { path, sessions: vec![session], reached: (target.to_owned(), target.to_owned()) });
            }
        }
    }
    let paths: Vec<PathBuf> = below.iter().map(|folder| folder.path.clone()).collect();
    below.retain(|folder| !paths.iter().any(|other| *other != folder.path && folder.path.starts_with(other)));
    Ok(below)
}

/// Sessions with a folder below `target`: by the recorded path, or because their folder is recognised among `paths`, above one of them, or
/// inside one that is removed.
fn homes(sessions: &[Session], target: &Path, paths: &[PathBuf]) -> Vec<(PathBuf, Session)> {
    let place = |session: &Session| session.workspace.as_ref().map(Place::folder).filter(|path| path.starts_with(target));
    let mut found: Vec<(PathBuf, Session)> =
        sessions.iter().filter_map(|session| Some((place(session)?, session.clone()))).collect();
    let mut around: HashSet<&Path> = HashSet::new();
    for path in paths {
        for above in path.ancestors().take_while(|above| above.starts_with(target)) {
            // Its ancestors are in the set already.
            if !around.insert(above) {
                break;
            }
        }
    }
    let mut known = known::among(sessions, around.into_iter());
    known.extend(known::below(sessions, paths.iter().map(PathBuf::as_path)));
    known.sort_by(|a, b| (&a.0, &a.1.id).cmp(&(&b.0, &b.1.id)));
    for (path, session) in known {
        if !found.iter().any(|(other, known)| *other == path && known.id == session.id) {
            found.push((path, session.clone()));
        }
    }
    found
}

/// The folders below a restore's target that it would change and that belong to other sessions that have not ended: paths from the target, and
/// the sessions. A folder in which no program was ever seen, and which is restored as well, is not among them. `subpath` is the part of the
/// checkpoint that is restored.
pub fn others_below(
    store: &Store,
    target: &Path,
    paths: &[PathBuf],
    (restored, subpath): (&Checkpoint, &[u8]),
) -> Result<Vec<(PathBuf, String)>> {
    let found = homes(&sessions_with_work(&store.view())?, target, paths);
    let is_part = |path: &Path, session: &Session| {
        let from_target = path.strip_prefix(target).unwrap_or(path).as_os_str().as_bytes();
        !has_agent(session) && store.node_at(restored, &[subpath, b"/", from_target].concat()).is_ok()
    };
    let own: Vec<&PathBuf> =
        found.iter().filter(|(_, session)| session.id == restored.record.session).map(|(path, _)| path).collect();
    let is_other = |(path, session): &&(PathBuf, Session)| {
        let is_open = path != target && session.status != Status::Ended && !own.contains(&path);
        is_open && !in_folder(paths, path).is_empty() && !is_part(path, session)
    };
    let from_target =
        |(path, session): &(PathBuf, Session)| Some((path.strip_prefix(target).ok()?.to_owned(), session.id.clone()));
    Ok(found.iter().filter(is_other).filter_map(from_target).collect())
}

/// The places that a path of a checkpoint belongs to: the one that was captured, and the same in the session's workspace as it is by now. Not the
/// first, where it was captured on another machine, and none where the captured folder was not the session's.
pub fn origins(view: &View, checkpoint: &Checkpoint, subpath: &[u8]) -> Result<Vec<PathBuf>> {
    let record = &checkpoint.record;
    if record.is_of_another_folder() {
        return Ok(Vec::new());
    }
    let now = view.session(&record.session)?.and_then(|session| session.workspace).map(|place| place.folder());
    let then = name::as_path(&name::parse(&record.workspace.path)).to_owned();
    let then = (!record.is_imported()).then_some(then);
    Ok(now.into_iter().chain(then).map(|folder| folder.join(name::as_path(subpath))).collect())
}

/// An agent that is alive in a folder in which something is overwritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LiveAgent {
    /// Id of the session that the agent works in.
    pub session: String,
    /// Its process, or that which is just starting it; null on another machine.
    pub process: Option<i32>,
    /// The machine, if it is another one.
    pub host: Option<String>,
    /// The session's folder.
    pub workspace: String,
}

impl LiveAgent {
    /// In a sentence.
    pub fn text(&self) -> String {
        let LiveAgent { session, workspace, .. } = self;
        match (self.process, &self.host) {
            (Some(process), _) => format!("the agent of session {session} is alive (process {process}) in {workspace}"),
            (None, host) => {
                let host = host.as_deref().unwrap_or("another machine");
                format!("the agent of session {session} in {workspace} may be alive on {host}")
            }
        }
    }
}

/// The live agents in whose sessions' folders one of these paths below `base` lies, but for the one that this process is a tool of.
pub fn live_agents(store: &Store, host: &dyn Host, base: &Path, paths: &[PathBuf]) -> Result<Vec<LiveAgent>> {
    let view = store.view();
    let mut found: Vec<LiveAgent> = Vec::new();
    let others = other_paths(base);
    let inside: Vec<&Path> = paths.iter().filter_map(|path| path.strip_prefix(base).ok()).collect();
    let elsewhere = others.iter().flat_map(|other| inside.iter().map(|path| other.join(path)));
    let paths: Vec<PathBuf> = paths.iter().cloned().chain(elsewhere).collect();
    for (folder, session) in homes(&sessions_with_work(&view)?, Path::new("/"), &paths) {
        let Some(run) = session.run.as_deref() else { continue };
        if in_folder(&paths, &folder).is_empty() || found.iter().any(|known| known.session == session.id) {
            continue;
        }
        let Some(run) = view.run(run)?.filter(|run| !run::is_inside(run, host)) else { continue };
        let (process, host) = match run::left_alive(&run).map_or_else(|| run::life(&run), Life::Agent) {
            Life::Agent(process) | Life::Starting(process) => (Some(process.process), None),
            Life::Elsewhere { host, .. } => (None, Some(host)),
            Life::Over => continue,
        };
        found.push(LiveAgent { session: session.id, process, host, workspace: name::display(folder.as_os_str().as_bytes()) });
    }
    Ok(found)
}

/// The absolute paths of what is there and does not stay as it is, by a restore's plan.
pub fn overwritten(plan: &Plan) -> Result<Vec<PathBuf>> {
    let base = plan.base();
    let mut paths = Vec::new();
    plan.each_overwritten(&mut |path| paths.push(base.join(name::as_path(path))))?;
    Ok(paths)
}

/// Of these paths, those that are in a folder, or that the folder is in.
fn in_folder(paths: &[PathBuf], folder: &Path) -> Vec<PathBuf> {
    paths.iter().filter(|path| path.starts_with(folder) || folder.starts_with(path)).cloned().collect()
}
