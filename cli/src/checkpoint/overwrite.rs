//! What `restore --in-place` overwrites of a folder that sessions work in: whether it may, and safety checkpoints of it.

use std::{
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use parhelia_session::{
    overwrite::{self, Folder, LiveAgent, Wanted},
    rollback::{self, Turn},
    run::Conversation,
};
use parhelia_store::{ErrorKind, Store, progress::Progress, record::Checkpoint, restore::Plan};
use serde_json::{Value, json};

use super::rollback::told;
use crate::{
    context::Context,
    env,
    exit::{Failure, Result},
    human,
    session::agent::{actor, config_of, variable},
};

/// What a restore in place overwrites in a folder that sessions work in.
#[derive(Clone)]
pub struct Overwritten {
    folder: Folder,
    paths: Vec<PathBuf>,
}

/// The live agents in whose folders a plan overwrites something.
pub fn live_agents(store: &Store, plan: &Plan) -> Result<Vec<LiveAgent>> {
    Ok(overwrite::live_agents(store, &plan.base(), &overwrite::overwritten(plan)?, &variable)?)
}

/// What a plan overwrites in each of the sessions' folders that it reaches; no paths where it overwrites nothing there.
pub fn reached(store: &Store, plan: &Plan) -> Result<Vec<Overwritten>> {
    let paths = overwrite::overwritten(plan)?;
    let folders = overwrite::folders(&store.view(), &plan.base(), &paths)?;
    let found = folders.into_iter().map(|folder| Overwritten { paths: folder.paths(&paths), folder });
    Ok(found.collect())
}

/// The folders below a plan's target that it would change and in which other sessions work, as paths from the target. They are kept as they are,
/// which is said.
pub fn kept(store: &Store, plan: &Plan, restored: &Checkpoint, progress: &dyn Progress) -> Result<Vec<Vec<u8>>> {
    if plan.base() != plan.target() {
        return Ok(Vec::new());
    }
    let others = overwrite::others_below(&store.view(), &plan.base(), &overwrite::overwritten(plan)?, restored)?;
    for (path, session) in &others {
        let path = human::path(path.as_os_str().as_bytes());
        progress
            .notice(&format!("{path}: session {session} works there; it is kept as it is (--other-folder changes it as well)"));
    }
    Ok(others.into_iter().map(|(path, _)| path.into_os_string().into_vec()).collect())
}

/// Sentences about folders in which something is overwritten and that are not those that their sessions were last seen in.
pub fn standings(reached: &[Overwritten], restored: &Checkpoint) -> Vec<String> {
    let changed = reached.iter().filter(|found| !found.paths.is_empty());
    changed.filter_map(|found| found.folder.standing(restored).map(|(text, _)| text)).collect()
}

/// Fails where something would be overwritten by what is neither of a checkpoint of the folder that it is in, nor was captured at the very
/// place that it goes to; and where another folder has taken the place of the session's. In a session's folder, a selector that does not name
/// the session is refused also where nothing is overwritten.
pub fn refuse_another(
    store: &Store,
    reached: &[Overwritten],
    plan: &Plan,
    (restored, subpath): (&Checkpoint, &[u8]),
    is_relative: bool,
) -> Result<()> {
    let target = plan.target();
    for found in reached.iter().filter(|found| !found.paths.is_empty()) {
        if let Some((text, true)) = found.folder.standing(restored) {
            return Err(Failure::Refused(format!(
                "{text}. There, {} would be overwritten or removed; give --other-folder to restore {} there all the same",
                human::count(found.paths.len() as u64, "entry"),
                restored.id()
            )));
        }
    }
    if overwrite::origins(&store.view(), restored, subpath)?.contains(&target) {
        return Ok(());
    }
    let is_another = |found: &&Overwritten| (is_relative || !found.paths.is_empty()) && !found.folder.is_of(restored);
    let Some(found) = reached.iter().find(is_another) else { return refuse_unsecured(plan, reached, restored) };
    let (id, record, own) = (restored.id(), &restored.record, found.session(restored));
    let own_target = found.folder.own_path(&target);
    let inside = own_target.strip_prefix(&found.folder.path).unwrap_or(Path::new("")).as_os_str().as_bytes();
    let place = match inside.is_empty() {
        true => format!("{} is", found.folder.shown()),
        false => format!("{} is in", human::path(target.as_os_str().as_bytes())),
    };
    let colon: &[u8] = if inside.is_empty() { b"" } else { b":" };
    let newest = human::shell(&[own.as_bytes(), b"@latest", colon, inside].concat());
    let folder = if inside.is_empty() { String::new() } else { format!(", {}", found.folder.shown()) };
    Err(Failure::Refused(format!(
        "checkpoint {id} is of {} (session {}), and {place} the folder of session {own}{folder}, where {} would be overwritten or removed: \
         {newest} is the newest checkpoint of that; give --other-folder to restore {id} there all the same",
        record.workspace.path,
        record.session,
        human::count(found.paths.len() as u64, "entry"),
    )))
}

/// Fails where something would be overwritten outside of all sessions' folders: nothing holds what is there.
fn refuse_unsecured(plan: &Plan, reached: &[Overwritten], restored: &Checkpoint) -> Result<()> {
    let unsecured = unsecured(plan, reached, false)?;
    let Some(text) = unsecured.text(&plan.target()) else { return Ok(()) };
    let (id, record) = (restored.id(), &restored.record);
    Err(Failure::Refused(format!(
        "checkpoint {id} is of {} (session {}), and {text}; give --other-folder to restore {id} there all the same",
        record.workspace.path, record.session,
    )))
}

/// Entries that a restore overwrites or removes and that no safety checkpoint holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsecured {
    /// Their number; a folder that goes as a whole is one.
    pub entries: usize,
    is_all: bool,
}

/// Entries that a plan overwrites outside of the folders that sessions work in, or everywhere where no safety checkpoint is wanted.
pub fn unsecured(plan: &Plan, reached: &[Overwritten], no_safety: bool) -> Result<Unsecured> {
    let paths = overwrite::overwritten(plan)?;
    let is_secured = |path: &&PathBuf| !no_safety && reached.iter().any(|found| path.starts_with(&found.folder.path));
    let secured = paths.iter().filter(is_secured).count();
    Ok(Unsecured { entries: paths.len() - secured, is_all: secured == 0 })
}

impl Unsecured {
    /// In a sentence, where there is anything.
    pub fn text(&self, target: &Path) -> Option<String> {
        let (entries, target) = (human::count(self.entries as u64, "entry"), human::path(target.as_os_str().as_bytes()));
        let are = if self.entries == 1 { "is" } else { "are" };
        match (self.entries, self.is_all) {
            (0, _) => None,
            (_, true) => Some(format!(
                "no session works in {target}: no safety checkpoint is made of {entries} that {are} overwritten or removed"
            )),
            (_, false) => Some(format!(
                "outside of the sessions' folders in {target}, no safety checkpoint is made of {entries} that {are} overwritten or removed"
            )),
        }
    }
}

/// Says what to do where no safety checkpoint can be made; what is wrong is said behind it. `made` is one that was committed before that.
fn hint(failed: &parhelia_session::Error, made: Option<&Checkpoint>) {
    if let Some(text) = hint_text(failed.kind() == ErrorKind::Cancelled, made.map(Checkpoint::id).as_deref()) {
        tell!("parhelia: {text}");
    }
}

fn hint_text(is_interrupted: bool, made: Option<&str>) -> Option<String> {
    match (is_interrupted, made) {
        (true, None) => None,
        (true, Some(made)) => Some(format!("safety checkpoint {made} is made; nothing was restored, and no file was changed")),
        (false, None) => {
            Some("no safety checkpoint could be made, and nothing was changed; --no-safety restores without one".into())
        }
        (false, Some(made)) => Some(format!(
            "safety checkpoint {made} is made, but does not do, and no file was changed; --no-safety restores without one"
        )),
    }
}

/// The beginning of the message of a safety checkpoint that a restore in place has made.
const BEFORE_RESTORE: &str = "before the restore of ";

/// The newest safety checkpoint that a restore in place has made of a session, behind a place in the order of commits.
pub fn restored_since(store: &Store, session: &str, before: u64) -> Option<Checkpoint> {
    safety_since(store, session, before, |message| message.starts_with(BEFORE_RESTORE))
}

/// The newest safety checkpoint of a session behind a place in the order of commits.
fn made_since(store: &Store, session: &str, before: u64) -> Option<Checkpoint> {
    safety_since(store, session, before, |_| true)
}

fn safety_since(store: &Store, session: &str, before: u64, fits: impl Fn(&str) -> bool) -> Option<Checkpoint> {
    let view = store.refresh().ok()?;
    let is_it = |found: &&Checkpoint| {
        let record = &found.record;
        let is_safety = found.sequence > before && record.session == session && record.is_safety();
        is_safety && fits(record.message.as_deref().unwrap_or_default())
    };
    view.checkpoints().ok()?.iter().rev().find(is_it).cloned()
}

/// Nobody else makes a checkpoint of the folders, or rolls them back, until this is dropped.
pub struct Turns {
    held: Vec<Turn>,
}

impl Turns {
    /// Whether any is held. While it was waited for, the folders may have changed.
    pub fn are_held(&self) -> bool {
        !self.held.is_empty()
    }
}

/// Waits for the turn of the sessions whose folders are about to be changed.
pub fn turns(store: &Store, reached: &[Overwritten], restored: &Checkpoint, progress: &dyn Progress) -> Result<Turns> {
    let mut turns = Turns { held: Vec::new() };
    let changed = reached.iter().filter(|found| !found.paths.is_empty());
    for session in changed.filter_map(|found| found.folder.keeper(restored)) {
        let turn = rollback::settle(store, &session.id, store.lock_timeout(), &actor(), &told, progress)
            .inspect_err(|e| hint(e, None))?;
        turns.held.push(turn.ok_or_else(|| rollback::busy(&session.id))?);
    }
    Ok(turns)
}

/// A safety checkpoint that was made.
pub struct Safety {
    id: String,
    session: String,
    folder: PathBuf,
    is_rest: bool,
}

impl Overwritten {
    fn session(&self, restored: &Checkpoint) -> &str {
        self.folder.keeper(restored).map(|session| session.id.as_str()).unwrap_or_default()
    }

    /// The folder, and the session that gets its safety checkpoint, for messages; none where nothing is overwritten.
    pub fn shown(&self, restored: &Checkpoint) -> Option<String> {
        (!self.paths.is_empty()).then(|| format!("{} (session {})", self.folder.shown(), self.session(restored)))
    }

    /// Makes safety checkpoints that hold what is overwritten; none where nothing is.
    pub fn secure(
        &self,
        context: &Context,
        store: &Store,
        restored: &Checkpoint,
        progress: &dyn Progress,
    ) -> Result<Vec<Safety>> {
        let Some(session) = self.folder.keeper(restored).filter(|_| !self.paths.is_empty()) else { return Ok(Vec::new()) };
        let (settings, actor) = (context.config(&self.folder.path)?, actor());
        let wanted = Wanted {
            session,
            workspace: &self.folder.path,
            message: format!("{BEFORE_RESTORE}{}", restored.id()),
            rules: None,
            conversation: Conversation::of(Some(session), None, config_of(store, session)?.map(|config| config.path)),
            environment: env::request_for_safety(context, store, &self.folder.path, session)?,
            settings: &settings,
            actor: &actor,
            variable: &variable,
        };
        let before = store.view().newest_first()?.next().transpose()?.map_or(0, |newest| newest.sequence);
        let made = overwrite::secure(store, wanted, &self.paths, progress)
            .inspect_err(|e| hint(e, made_since(store, &session.id, before).as_ref()))?;
        let safety = |(i, made): (usize, &Checkpoint)| Safety {
            id: made.id(),
            session: session.id.clone(),
            folder: self.folder.path.clone(),
            is_rest: i > 0,
        };
        Ok(made.iter().enumerate().map(safety).collect())
    }
}

impl Safety {
    /// What was made, and how to get back to it.
    pub fn remark(&self) -> String {
        let (folder, to) = (human::path(self.folder.as_os_str().as_bytes()), human::shell(self.folder.as_os_str().as_bytes()));
        match self.is_rest {
            false => format!(
                "Safety checkpoint of {folder} (session {}): {id}; `parhelia checkpoint restore {id} --to {to} --in-place --delete` \
                 goes back to it.",
                self.session,
                id = self.id
            ),
            true => format!(
                "What that leaves out and was overwritten: {id}; `parhelia checkpoint restore {id} --to {to} --in-place` brings it back.",
                id = self.id
            ),
        }
    }

    /// The deed, for when no report can be printed.
    pub fn made(&self) -> String {
        format!("safety checkpoint {} of {} is made", self.id, human::path(self.folder.as_os_str().as_bytes()))
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        json!({ "id": self.id, "session": self.session, "workspace": human::path(self.folder.as_os_str().as_bytes()) })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_is_no_reason_to_do_without_a_safety_checkpoint() {
        assert_eq!(hint_text(true, None), None);
        let after = hint_text(true, Some("ID")).unwrap_or_default();
        assert!(after.contains("safety checkpoint ID is made") && !after.contains("--no-safety"), "{after}");
        for made in [None, Some("ID")] {
            let failed = hint_text(false, made).unwrap_or_default();
            assert!(failed.contains("--no-safety") && failed.contains("ID") == made.is_some(), "{failed}");
        }
    }
}
