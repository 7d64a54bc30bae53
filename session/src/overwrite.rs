//! Overwriting what somebody works on: which sessions' folders a restore changes, and a safety checkpoint of what it replaces.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    ops::Bound,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use parhelia_store::{
    Store, create,
    event::Actor,
    fold::{Place, Session, Status},
    name,
    omitted::{Omission, Reason},
    place::known_among,
    progress::Progress,
    record::{Checkpoint, Rules, SAFETY, Trigger},
    restore::Plan,
    selector::workspace_at,
    view::View,
};
use serde::Serialize;

use crate::{
    config::Config,
    error::{Error, Result},
    resume::Standing,
    run::{self, Conversation, Life},
};

/// A folder that sessions work in.
#[derive(Clone, Debug, PartialEq)]
pub struct Folder {
    /// Its absolute path.
    pub path: PathBuf,
    /// The sessions; one at least.
    pub sessions: Vec<Session>,
}

impl Folder {
    /// Whether a checkpoint is one of this folder: by its session, or by the path that was captured.
    pub fn is_of(&self, checkpoint: &Checkpoint) -> bool {
        let record = &checkpoint.record;
        self.sessions.iter().any(|session| session.id == record.session)
            || name::as_path(&name::parse(&record.workspace.path)) == self.path
    }

    /// The session that gets the safety checkpoint: that of the checkpoint which is restored, or else the one that changed last, of those
    /// that have not ended where there are any.
    pub fn keeper(&self, restored: &Checkpoint) -> Option<&Session> {
        let rank =
            |session: &&Session| (session.id == restored.record.session, session.status != Status::Ended, session.changed_at);
        self.sessions.iter().max_by_key(rank)
    }

    /// What there is to say where none of the sessions works in it any more, and another folder has taken the place of theirs; with true, it is
    /// not known that theirs is gone for good.
    pub fn standing(&self) -> Option<(String, bool)> {
        let all: Vec<(Standing, &Session)> = self.sessions.iter().map(|session| (self.standing_of(session), session)).collect();
        let stands = all.iter().all(|(standing, _)| *standing != Standing::Same);
        let worst = all.iter().filter(|_| stands).max_by_key(|(standing, _)| standing.is_another())?;
        worst.0.text(worst.1).map(|text| (text, worst.0.is_another()))
    }

    fn standing_of(&self, session: &Session) -> Standing {
        let is_recorded = session.workspace.as_ref().is_some_and(|place| place.folder() == self.path);
        if is_recorded { Standing::of(session) } else { Standing::Same }
    }

    /// The folder's path, for messages.
    pub fn shown(&self) -> String {
        name::display(self.path.as_os_str().as_bytes())
    }
}

/// The sessions' folders in which restoring to `target` may change something: the one that `target` is or lies in, or else those below it,
/// without what lies in another one of them. `paths` is what would be overwritten: a workspace that was moved is known by the folder.
pub fn folders(view: &View, target: &Path, paths: &[PathBuf]) -> Result<Vec<Folder>> {
    if let Some((path, sessions)) = workspace_at(view, target)? {
        return Ok(vec![Folder { path, sessions }]);
    }
    let mut below: Vec<Folder> = Vec::new();
    for (path, session) in homes(&view.sessions()?, target, paths) {
        match below.iter_mut().find(|folder| folder.path == path) {
            Some(folder) => folder.sessions.push(session),
            None => below.push(Folder { path, sessions: vec![session] }),
        }
    }
    let paths: Vec<PathBuf> = below.iter().map(|folder| folder.path.clone()).collect();
    below.retain(|folder| !paths.iter().any(|other| *other != folder.path && folder.path.starts_with(other)));
    Ok(below)
}

/// Each session with its folder below `target`: the recorded path, and, of one that is not there any more, a folder among `paths` and those
/// that they are in.
fn homes(sessions: &[Session], target: &Path, paths: &[PathBuf]) -> Vec<(PathBuf, Session)> {
    let sessions: Vec<&Session> = sessions.iter().filter(|session| !session.is_void()).collect();
    let place = |session: &Session| session.workspace.as_ref().map(Place::folder).filter(|path| path.starts_with(target));
    let mut found: Vec<(PathBuf, Session)> =
        sessions.iter().filter_map(|session| Some((place(session)?, (*session).clone()))).collect();
    let is_away = |session: &Session| {
        let is_there = |place: &Place| fs::metadata(place.folder()).is_ok_and(|now| Some(now.ino()) == place.inode);
        session.workspace.as_ref().is_some_and(|place| !is_there(place))
    };
    let away: Vec<Session> = sessions.iter().filter(|session| is_away(session)).map(|session| (*session).clone()).collect();
    if !away.is_empty() {
        let around = paths.iter().flat_map(|path| path.ancestors().take_while(|path| path.starts_with(target)));
        let candidates: BTreeSet<&Path> = around.collect();
        found.extend(known_among(&away, candidates.into_iter()).into_iter().map(|(path, session)| (path, session.clone())));
    }
    found
}

/// The places that a path of a checkpoint belongs to: the one that was captured, and the same in the session's workspace as it is by now.
pub fn origins(view: &View, checkpoint: &Checkpoint, subpath: &[u8]) -> Result<Vec<PathBuf>> {
    let record = &checkpoint.record;
    let now = view.session(&record.session)?.and_then(|session| session.workspace).map(|place| place.folder());
    let then = name::as_path(&name::parse(&record.workspace.path)).to_owned();
    Ok(now.into_iter().chain([then]).map(|folder| folder.join(name::as_path(subpath))).collect())
}

/// An agent that is alive in a folder in which something is overwritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveAgent {
    /// Its session.
    pub session: String,
    /// Its process, or that which is just starting it; none on another machine.
    pub process: Option<i32>,
    /// The machine, where it is another one.
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

/// The live agents in whose sessions' folders one of these paths lies, but for the one that this process is a tool of.
pub fn live_agents(store: &Store, paths: &[PathBuf], variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Vec<LiveAgent>> {
    let view = store.view();
    let mut found = Vec::new();
    for (folder, session) in homes(&view.sessions()?, Path::new("/"), paths) {
        let Some(run) = session.run.as_deref() else { continue };
        if in_folder(paths, &folder).is_empty() {
            continue;
        }
        let Some(run) = view.run(run)?.filter(|run| !run::is_inside(run, variable)) else { continue };
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
pub fn in_folder(paths: &[PathBuf], folder: &Path) -> Vec<PathBuf> {
    paths.iter().filter(|path| path.starts_with(folder) || folder.starts_with(path)).cloned().collect()
}

/// How a safety checkpoint is made.
pub struct Wanted<'a> {
    /// The session that it belongs to.
    pub session: &'a Session,
    /// The folder that is about to be changed.
    pub workspace: &'a Path,
    /// What is about to happen, for whoever looks at it later.
    pub message: String,
    /// What is left out; none for what the configuration says.
    pub rules: Option<Rules>,
    /// The conversation.
    pub conversation: Conversation,
    /// What is configured for the folder.
    pub settings: &'a Config,
    /// Who is about to overwrite something.
    pub actor: &'a Actor,
    /// The environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

/// Makes a safety checkpoint, and verifies it. Nothing may be overwritten where this fails.
pub fn safety(store: &Store, wanted: Wanted<'_>, progress: &dyn Progress) -> Result<Checkpoint> {
    let made = run::make(
        store,
        &run::Wanted {
            session: &wanted.session.id,
            run: None,
            workspace: wanted.workspace,
            trigger: Trigger::Manual,
            detail: Some(SAFETY.to_owned()),
            message: Some(wanted.message),
            skip_if_unchanged: false,
            rules: wanted.rules,
            conversation: wanted.conversation,
            tmux: run::tmux_of(store, wanted.session)?,
            environment: None,
            config: wanted.settings,
            actor: wanted.actor.clone(),
            variable: wanted.variable,
        },
        progress,
    )?;
    let safety = made.outcome.checkpoint;
    match made.verified.transpose()? {
        Some(report) if !report.is_ok() => Err(Error::Damaged(format!(
            "the safety checkpoint {} is damaged, and nothing was changed; `parhelia check --repair` mends the store",
            safety.id()
        ))),
        _ => Ok(safety),
    }
}

/// Makes safety checkpoints that together hold everything at `paths`: a whole one, and where that leaves some of it out a second one with
/// those paths alone. Refuses what cannot be read.
pub fn secure(store: &Store, wanted: Wanted<'_>, paths: &[PathBuf], progress: &dyn Progress) -> Result<Vec<Checkpoint>> {
    let (workspace, actor, message) = (wanted.workspace.to_owned(), wanted.actor.clone(), wanted.message.clone());
    let session = wanted.session.id.clone();
    let whole = safety(store, wanted, progress)?;
    // The whole folder, where it goes together with one that it is in.
    let inside = paths.iter().map(|path| path.strip_prefix(&workspace).unwrap_or(Path::new(""))).collect();
    let left_out = left_out(&store.omissions(&whole)?, &inside, &store.secrets().reason);
    if left_out.is_empty() {
        return Ok(vec![whole]);
    }
    let options = create::Options {
        workspace: workspace.clone(),
        session,
        actor,
        trigger: Trigger::Manual,
        trigger_detail: Some(SAFETY.to_owned()),
        message: Some(format!("{message}: what the checkpoint of all leaves out")),
        rules: Rules { defaults: false, listed_only: true, ..Rules::default() },
        listed: Some(left_out),
        ..create::Options::default()
    };
    let rest = create::run(store, &options, progress)?.checkpoint;
    let unreadable = store.omissions(&rest)?.into_iter().find_map(|omission| match omission.reason {
        Reason::Unreadable(why) => Some((omission.path, why)),
        _ => None,
    });
    match unreadable {
        None => Ok(vec![whole, rest]),
        Some((path, why)) => Err(Error::Invalid(format!(
            "{}: it would be overwritten, and cannot be read for a safety checkpoint ({why}); nothing was changed",
            name::display(&path)
        ))),
    }
}

/// The paths that a checkpoint left out and that are at one of `paths`, above it, or below it. A file that kept changing is in the
/// checkpoint, and `secrets`, the reason that credentials are left out for, keeps them from being overwritten.
fn left_out(omissions: &[Omission], paths: &BTreeSet<&Path>, secrets: &str) -> Vec<Vec<u8>> {
    let is_left_out = |omission: &&Omission| match &omission.reason {
        Reason::Excluded(rule) => rule != secrets,
        Reason::Unreadable(_) => true,
        Reason::Changing => false,
    };
    let mut found = BTreeSet::new();
    for omission in omissions.iter().filter(is_left_out) {
        let path = name::as_path(&omission.path);
        if path.ancestors().any(|above| paths.contains(above)) {
            found.insert(path);
        }
        // In the order of paths, what is in a folder comes right behind it.
        let from_here = paths.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        found.extend(from_here.copied().take_while(|below| below.starts_with(path)));
    }
    found.into_iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_checkpoint_left_out_is_known_by_the_paths_that_go() {
        let omission = |path: &str, reason: Reason| Omission { path: path.into(), reason };
        let omissions = [
            omission("a/node_modules", Reason::Excluded("defaults".into())),
            omission("b/target", Reason::Excluded("defaults".into())),
            omission("c", Reason::Unreadable("no".into())),
            omission("d", Reason::Changing),
            omission("a/key", Reason::Excluded("credentials".into())),
        ];
        let of = |paths: &[&str]| -> Vec<String> {
            let paths = paths.iter().map(Path::new).collect();
            let found = left_out(&omissions, &paths, "credentials");
            found.into_iter().map(|path| String::from_utf8(path).unwrap()).collect()
        };
        assert_eq!(of(&["a/node_modules/x/y", "b/target2", "d"]), ["a/node_modules/x/y"]);
        assert_eq!(of(&["a", "b/target", "c"]), ["a/node_modules", "b/target", "c"]);
        assert_eq!(of(&[""]), ["a/node_modules", "b/target", "c"]);
        assert!(of(&["e", "a/key"]).is_empty());
    }
}
