//! A rollback from the first look to its end: planned, previewed, and done.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_agent::{environment::Request, folder::ConfigFolder};
use parhelia_ledger::{By, Goal, LedgerView as _, Session, selector::sessions_at};
use parhelia_store::{
    Store,
    record::Checkpoint,
    restore::{RestoreChange, SkippedEntry, Why},
};

use super::{
    ConversationEffect, Last, Look, RollbackReport, RollbackRequest, Turn, execute, foresee, last, look, open, refuse_early,
    spared, unwritable, whole,
};
use crate::{environment::request_for_safety, overwrite};
use parhelia_host::{
    Error, Host, Observer, Refusal, Result,
    config::Config,
    intent::{held, last_rolled_back},
    notice::{InterruptedRollback, Notice},
    run,
    safety::restored_since,
};
use parhelia_knowledge::summary;
use parhelia_oversight::review::acts;

/// The time that an agent may take to end, before and after it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// The safeties of a rollback that are switched off, and the extent of it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// True if the conversation stays where it is.
    pub files_only: bool,
    /// True if a live agent is ended first.
    pub stop: bool,
    /// True if git may be in any state: in the middle of something, on another branch, or out of order.
    pub any_git_state: bool,
    /// True if another machine or container that may still have the session is not waited for.
    pub take_over: bool,
    /// True if a workspace that is empty is filled, though its disk seems not to be mounted, or it seems to have been moved.
    pub recreate_workspace: bool,
    /// Paths in the workspace that are left as they are, with all that is in them: from the caller's folder if that is in the workspace, else
    /// from the workspace, or absolute.
    pub leave: Vec<PathBuf>,
    /// True if what cannot be put back is left as it is.
    pub leave_unwritable: bool,
    /// True if nothing will be done, so that obstacles are only named.
    pub dry_run: bool,
}

/// A rollback that is planned. The caller holds the session's turn.
pub struct Rollback<'a> {
    store: &'a Store,
    host: &'a dyn Host,
    target: &'a Checkpoint,
    undone: Option<Last>,
    options: Options,
    settings: Config,
    config: Option<ConfigFolder>,
    environment: Option<Request>,
    is_previewed: bool,
    look: Look,
}

/// The effect of a rollback.
#[derive(Debug)]
pub struct Preview {
    /// Changes with their paths.
    pub changes: Vec<(RestoreChange, Vec<u8>)>,
    /// Paths that would be left as they are, since no safety checkpoint could hold them.
    pub spared: Vec<Vec<u8>>,
    /// Entries that would stay, because they cannot be put back, hold what is left alone, or are mounts, or because that was asked for.
    pub left: Vec<SkippedEntry>,
    /// The refusal of the rollback itself, where more cannot be put back than may be left.
    pub refused: Option<Refusal>,
    /// The place to which the conversation goes back.
    pub spoken: Option<ConversationEffect>,
}

impl Preview {
    /// True if everything would be as it is in the checkpoint, but for what stays on purpose.
    pub fn is_whole(&self) -> bool {
        self.spared.is_empty() && is_as_meant(&self.left)
    }
}

/// True if nothing stays but what does so on purpose.
fn is_as_meant(left: &[SkippedEntry]) -> bool {
    left.iter().all(|left| left.why == Why::Kept)
}

/// A rollback that was done.
#[derive(Debug)]
pub struct RollbackOutcome {
    /// The session, as it was before.
    pub session: Session,
    /// The workspace, for messages.
    pub workspace: String,
    /// Everything that was done.
    pub done: RollbackReport,
    /// Paths that were left as they are, since no safety checkpoint holds them, or why that is not known.
    pub spared: Result<Vec<Vec<u8>>>,
    /// Entries that stay, because they cannot be put back, hold what is left alone, or are mounts, or because that was asked for.
    pub left: Vec<SkippedEntry>,
}

impl RollbackOutcome {
    /// True if everything is as it is in the checkpoint, but for what stays on purpose.
    pub fn is_whole(&self) -> bool {
        let is_spared = self.spared.as_ref().is_ok_and(|spared| !spared.is_empty());
        !is_spared && is_as_meant(&self.left) && !self.done.report.skipped.iter().any(|skipped| skipped.why == Why::Changed)
    }
}

/// Waits for a session's turn, and finishes an earlier rollback that was interrupted. With `dry_run` that one is only named, and a store that
/// cannot be written to has no turn.
pub fn begin(store: &Store, host: &dyn Host, session: &str, dry_run: bool, observer: &dyn Observer) -> Result<Option<Turn>> {
    let turn = match held(store, session, observer) {
        // Whoever may not write to the store may look all the same.
        Err(Error::Io { .. }) if dry_run => None,
        turn => Some(turn?),
    };
    if !dry_run {
        super::finish_earlier(store, host, session, observer)?;
    } else if let Some(intent) = store.refresh()?.session(session)?.as_ref().and_then(open) {
        observer.warn(&Notice::Unfinished(InterruptedRollback::FinishedFirst { target: intent.target }));
    }
    Ok(turn)
}

/// Fails where the session of a checkpoint has no folder, as one that was imported.
pub fn ensure_folder(store: &Store, target: &Checkpoint) -> Result<()> {
    let session = store.view().session(&target.record.session)?;
    match session.is_some_and(|known| known.workspace.is_none()) {
        true => {
            let (session, target) = (target.record.session.clone(), target.record.id);
            Err(Refusal::NothingToRollBack { session, target }.into())
        }
        false => Ok(()),
    }
}

/// The session whose last rollback somebody at the caller's folder means who wants it undone.
pub fn session_to_undo(store: &Store, host: &dyn Host) -> Result<Session> {
    let view = store.view();
    let folder = host.folder();
    let here = folder.as_ref().map(|folder| sessions_at(&view, folder)).transpose()?.unwrap_or_default();
    if let Some(session) = last_rolled_back(store, here)? {
        return Ok(session);
    }
    let folder = folder.map_or_else(|| "this folder".into(), |folder| overwrite::display(&folder));
    let last = last_rolled_back(store, view.sessions()?)?;
    let last = last.map(|other| (other.id, other.workspace.map(|place| place.path)));
    Err(Refusal::NoneRolledBack { folder, last }.into())
}

/// The last rollback of a session, which is to be undone, and the safety checkpoint to go back to. Fails where one that was interrupted is not
/// finished, and where a restore in place has changed the folder since. The caller holds the session's turn.
pub fn to_undo(store: &Store, session: &str, dry_run: bool) -> Result<(Last, Checkpoint)> {
    let view = store.refresh()?;
    let known = view.session(session)?;
    if let Some(intent) = known.as_ref().and_then(open).filter(|_| !dry_run) {
        return Err(Refusal::NotFinished { session: session.to_owned(), target: intent.target }.into());
    }
    let none = || Refusal::NotRolledBack { session: session.to_owned() };
    let last = known.as_ref().and_then(last).ok_or_else(none)?;
    let gone = || Refusal::SafetyDeleted { session: session.to_owned(), safety: last.safety };
    let safety = view.checkpoint(last.safety)?.ok_or_else(gone)?;
    match restored_since(store, session, safety.sequence) {
        None => Ok((last, safety)),
        Some(newer) => {
            let (newer, safety) = (newer.record.id, safety.record.id);
            Err(Refusal::RestoredSince { session: session.to_owned(), newer, safety }.into())
        }
    }
}

/// The entries that a rollback leaves as they are: those that it was asked to, and those of a plan or a report that cannot be put back, or stay
/// though the checkpoint does not have them.
fn left(asked: &[Vec<u8>], skipped: impl Iterator<Item = SkippedEntry>) -> Vec<SkippedEntry> {
    let asked =
        asked.iter().map(|path| SkippedEntry { path: path.clone(), error: "left as it is, as asked".into(), why: Why::Held });
    let left = skipped.filter(|skipped| matches!(skipped.why, Why::Held | Why::HeldAlike | Why::Kept));
    let mut left: Vec<SkippedEntry> = asked.chain(left).collect();
    left.sort_by(|a, b| a.path.cmp(&b.path));
    left
}

/// Fails where an agent would put back a folder that is not its own, or below its own.
fn ensure_own_folder(store: &Store, host: &dyn Host, target: &Checkpoint, workspace: &Path) -> Result<()> {
    let session = store.view().session(&target.record.session)?;
    acts::ensure_may_overwrite(store, host, "checkpoint rollback", (workspace, session.as_slice()), &())
}

impl<'a> Rollback<'a> {
    /// Looks at everything that is against it. Changes nothing. `undone` is the rollback that this one undoes.
    pub fn plan(
        store: &'a Store,
        host: &'a dyn Host,
        target: &'a Checkpoint,
        undone: Option<Last>,
        options: Options,
    ) -> Result<Self> {
        ensure_folder(store, target)?;
        let workspace = overwrite::workspace_of(store, target)?;
        ensure_own_folder(store, host, target, &workspace)?;
        let settings = host.config(&workspace)?;
        let session = store.view().session(&target.record.session)?;
        let config = session.as_ref().map(|session| run::config_for(store, host, session)).transpose()?.flatten();
        // As it is before an agent is stopped.
        let environment = session.map(|session| request_for_safety(host, store, &workspace, &session)).transpose()?.flatten();
        let request = RollbackRequest {
            target,
            options: options.clone(),
            config: config.as_ref().map(|config| config.path.clone()),
            environment: environment.clone(),
            settings: &settings,
            host,
        };
        let mut look = look(store, &request)?;
        let goes_back = config.as_ref().filter(|_| look.conversation.is_some());
        look.notices.extend(goes_back.and_then(|config| run::other_folder(host, config)));
        Ok(Rollback { store, host, target, undone, options, settings, config, environment, is_previewed: false, look })
    }

    /// The store that has the session.
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Obstacles and consequences that were found.
    pub fn look(&self) -> &Look {
        &self.look
    }

    /// Fails where the checkpoint is damaged. To be called before somebody is asked or an agent is ended; [`Rollback::execute`] looks for itself.
    pub fn ensure_whole(&self, observer: &dyn Observer) -> Result<()> {
        whole(self.store, self.target, None, observer)
    }

    /// Finds out what would be done. Fails where [`Rollback::execute`] would.
    pub fn preview(&mut self, observer: &dyn Observer) -> Result<Preview> {
        let (plan, omitted) = foresee(self.store, &self.look, &self.request(), observer)?;
        self.is_previewed = true;
        let mut changes = Vec::new();
        plan.each_change(&mut |change, path| changes.push((change, path.to_vec())))?;
        let spoken = self.look.spoken(self.store, self.target)?;
        let refused = unwritable(&plan, self.target, &self.options);
        let left = left(&self.look.left, plan.blocked().chain(plan.kept()));
        Ok(Preview { changes, spared: spared::of(self.store, omitted, self.target)?, left, refused, spoken })
    }

    /// Rolls back: ends the agent where that is wanted, makes a safety checkpoint, and puts files and conversation back.
    pub fn execute(mut self, observer: &dyn Observer) -> Result<RollbackOutcome> {
        if self.is_previewed {
            // An agent may have been started while somebody looked at the preview.
            self.store.refresh()?;
            self.look = look(self.store, &self.request())?;
        }
        if let Some(run) = &self.look.stops {
            // Before an agent is ended, it must be known what would come of it.
            if !self.is_previewed {
                let (plan, _) = foresee(self.store, &self.look, &self.request(), observer)?;
                unwritable(&plan, self.target, &self.options).map_or(Ok(()), |refusal| Err(Error::from(refusal)))?;
            }
            run::end_agent(self.store, self.host, &self.look.session, run, PATIENCE, (By::Rollback, Some(Goal::Paused)), || {
                Ok(())
            })?;
        }
        if self.look.stops.is_none() && !self.is_previewed {
            refuse_early(self.store, &self.look, &self.request(), observer)?;
        }
        // Processes that a dead run has left behind would go on changing what is restored.
        let stopped = run::stop_leftovers(self.store, &self.look.session, &self.look.workspace, PATIENCE)?;
        Notice::of_leftovers(&stopped).iter().for_each(|notice| observer.warn(notice));
        let done = execute(self.store, &self.look, &self.request(), self.undone.as_ref(), observer)?;
        summary::kept::renew(self.store, &self.look.session.id, observer);
        let spared = spared::by(self.store, done.safety, self.target);
        let left = left(&self.look.left, done.report.skipped.iter().chain(&done.report.kept).cloned());
        Ok(RollbackOutcome { workspace: self.look.shown(), session: self.look.session, done, spared, left })
    }

    fn request(&self) -> RollbackRequest<'_> {
        RollbackRequest {
            target: self.target,
            options: self.options.clone(),
            config: self.config.as_ref().map(|config| config.path.clone()),
            environment: self.environment.clone(),
            settings: &self.settings,
            host: self.host,
        }
    }
}
