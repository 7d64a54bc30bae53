//! Doing it: safety checkpoint, stash entry, intent, files, conversation; and back again where that fails.

use std::{
    iter,
    path::{Path, PathBuf},
};

use parhelia_ledger::LedgerView as _;
use parhelia_store::{
    Store, clock, create,
    id::Ulid,
    omitted::Omission,
    progress::Progress,
    record::{Cause, Checkpoint, Rules},
    restore::{self, Options, Plan, RestoreReport, SkippedEntry, Why},
    tree::Time,
};

use super::{
    look::{Look, RollbackRequest, whole},
    spared,
    stash::{self, Stash},
};
use crate::{
    checkpoint::Conversation,
    mcp::{self, Back},
    overwrite::{self, SafetyRequest},
    workspace::place::move_to,
};
use parhelia_host::{
    Error, Host, Observer, Refusal, Result,
    conversation::{aside, put_back, seen_at},
    intent::{self, GoesBack, Intent, Last},
};
use parhelia_oversight::{overrides::overridden, scan, who::is_persons_word};

/// The result of a rollback.
#[derive(Debug)]
pub struct RollbackReport {
    /// The checkpoint that the workspace was put back to.
    pub target: Ulid,
    /// The safety checkpoint, made before anything was changed.
    pub safety: Ulid,
    /// The result of stashing uncommitted changes.
    pub stash: Stash,
    /// The report of the restore.
    pub report: RestoreReport,
    /// Paths that were changed, with their marks.
    pub changes: Vec<(restore::RestoreChange, Vec<u8>)>,
    /// True if the conversation was rolled back, too.
    pub with_conversation: bool,
    /// Copies of the conversation, and files of it that the checkpoint has not, that were moved aside: where they are now.
    pub moved: Vec<PathBuf>,
}

/// The most changes that are named.
const CHANGES_MAX: usize = 10_000;
/// The plan of a rollback: the checkpoint's files in place, and what is spared left alone. Git's own folders are left alone as well, with
/// repositories that the checkpoint does not have; one that is gone comes back.
///
/// Changes of the time `since` or later are left as well: no safety checkpoint has them.
pub fn plan(
    store: &Store,
    target: &Checkpoint,
    workspace: &Path,
    spare: Vec<Vec<u8>>,
    since: Option<Time>,
    progress: &dyn Progress,
) -> Result<Plan> {
    let untouched = vec![b".git".to_vec()];
    let options = Options { in_place: true, delete: true, spare, untouched, since, ..Options::new(workspace) };
    Ok(restore::plan(store, target, &options, progress)?)
}

/// The plan as [`execute`] makes it, behind a look at the workspace in place of a safety checkpoint: what that would leave out is spared.
/// Obstacles to the rollback fail here as well. With the plan comes what a safety checkpoint would leave out.
pub fn foresee(
    store: &Store,
    look: &Look,
    wanted: &RollbackRequest<'_>,
    progress: &dyn Progress,
) -> Result<(Plan, Vec<Omission>)> {
    let mut omitted = Vec::new();
    if look.workspace.is_dir() {
        let rules = rules(&wanted.target.record.rules, &wanted.settings.capture.rules());
        let (workspace, judge) = (look.workspace.clone(), scan::judge(store, &wanted.settings.secrets)?);
        let session = look.session.id.clone();
        let options = create::Options { workspace, session, rules, judge, ..create::Options::default() };
        omitted = create::look(store, &options, progress)?.2;
    }
    let spare = look.spare(spared::kept(store, omitted.clone(), Some(wanted.target)));
    let planned = plan(store, wanted.target, &look.workspace, unhex(&spare), None, progress)?;
    ensure_unblocked(&planned, wanted.target)?;
    Ok((planned, omitted))
}

/// Refuses what can be foreseen to be refused, so that no safety checkpoint is made for nothing. Errors are left to the rollback itself.
pub(super) fn refuse_early(
    store: &Store,
    look: &Look,
    wanted: &RollbackRequest<'_>,
    progress: &dyn Progress,
) -> Result<(), Refusal> {
    let (target, quiet) = (wanted.target, Quiet(progress));
    let refusal = |planned: &Plan| unwritable(planned, target, &wanted.options);
    let Ok(planned) = plan(store, target, &look.workspace, unhex(&look.spare(iter::empty())), None, &quiet) else {
        return Ok(());
    };
    if refusal(&planned).is_none() && !exchanges(&planned) {
        return Ok(());
    }
    // What a safety checkpoint leaves out is not touched, and keeps the folders that it is in. Only a second look tells.
    match foresee(store, look, wanted, &quiet) {
        Ok((planned, _)) => refusal(&planned).map_or(Ok(()), Err),
        Err(_) => Ok(()),
    }
}

/// True if a folder goes for something else of its name.
fn exchanges(planned: &Plan) -> bool {
    let (mut gone, mut found) = (None, false);
    let visited = planned.each_change(&mut |change, path| {
        found |= gone.as_deref() == Some(path);
        gone = (change == restore::RestoreChange::Delete).then(|| path.to_vec());
    });
    found || visited.is_err()
}

/// Says nothing, and hears when to stop.
struct Quiet<'p>(&'p dyn Progress);

impl Progress for Quiet<'_> {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// The most entries that a refusal names.
const NAMED_MAX: usize = 5;

/// The refusal of a rollback to a plan's target: it has entries that cannot be put back, their content is another one, and nobody has said that
/// they may be left.
pub(super) fn unwritable(planned: &Plan, target: &Checkpoint, options: &super::Options) -> Option<Refusal> {
    if options.leave_unwritable {
        return None;
    }
    let held: Vec<SkippedEntry> = planned.blocked().filter(|blocked| blocked.why == Why::Held).collect();
    let named = held.iter().take(NAMED_MAX).map(|held| format!("{} ({})", shown(&held.path), held.error)).collect();
    (!held.is_empty()).then_some(Refusal::Unwritable { target: target.record.id, named, entries: held.len() })
}

fn shown(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { parhelia_store::name::display(path) }
}

/// Fails where something stands in the place of what is to be restored.
fn ensure_unblocked(planned: &Plan, target: &Checkpoint) -> Result<()> {
    let is_held = |blocked: &SkippedEntry| matches!(blocked.why, Why::Held | Why::HeldAlike);
    let blocked: Vec<SkippedEntry> = planned.blocked().filter(|blocked| !is_held(blocked)).collect();
    match blocked.first() {
        Some(first) => Err(Error::RollbackFailed { target: target.record.id, why: Box::new(not_restored(first, blocked.len())) }),
        None => Ok(()),
    }
}

/// Rolls back, or undoes the rollback that is named. The caller holds the session's turn, has looked, and has stopped the agent.
pub fn execute(
    store: &Store,
    look: &Look,
    wanted: &RollbackRequest<'_>,
    undone: Option<&Last>,
    progress: &dyn Observer,
) -> Result<RollbackReport> {
    let (target, host) = (wanted.target, wanted.host);
    let actor = &host.actor();
    if wanted.options.recreate_workspace {
        // Somebody has said that this is the workspace by now, whatever it was before.
        move_to(store, &look.session, &look.workspace, true, actor)?;
    }
    let since = clock::next();
    let safeties = [("any-git-state", wanted.options.any_git_state), ("take-over", wanted.options.take_over)];
    overridden(store, host, (target.record.id, &look.session.id), &safeties, progress);
    let safety = safety(store, look, wanted, progress)?;
    whole(store, target, Some(&safety), progress)?;
    let spare = look.spare(spared::kept(store, store.omissions(&safety)?, Some(target)));
    // What cannot be planned is refused before there is an intent, which everybody who comes later would have to finish.
    let planned = plan(store, target, &look.workspace, unhex(&spare), Some(since), progress)?;
    ensure_unblocked(&planned, target)?;
    if let Some(refusal) = unwritable(&planned, target, &wanted.options) {
        progress.notice(&format!("safety checkpoint {} stays", safety.id()));
        return Err(refusal.into());
    }
    let message = format!("parhelia: before the rollback to {}", target.id());
    let stash = stash::make(host, &look.workspace, &message, &store.layout().cache());
    let intent = Intent {
        leave_unwritable: wanted.options.leave_unwritable,
        by_agent: !is_persons_word(store, host, &look.session.id)?,
        ..intended(look, target, &safety, &stash, spare, undone)
    };
    if let Err(e) = intent::commit(store, &look.session.id, &intent, actor) {
        if let Some(commit) = &intent.stash {
            let _ = stash::drop_entry(host, &intent.workspace, commit, &store.layout().cache());
        }
        progress.notice(&format!("nothing was changed; safety checkpoint {} stays", safety.id()));
        return Err(e);
    }
    match carry_out(store, host, &look.session.id, &intent, planned, progress) {
        Ok(out) => Ok(RollbackReport {
            target: intent.target,
            safety: intent.safety,
            stash,
            report: out.report,
            changes: out.changes,
            with_conversation: intent.conversation.is_some(),
            moved: out.moved,
        }),
        Err(e) => Err(revert(store, host, &look.session.id, &intent, e)),
    }
}

fn intended(
    look: &Look,
    target: &Checkpoint,
    safety: &Checkpoint,
    stash: &Stash,
    spare: Vec<String>,
    undone: Option<&Last>,
) -> Intent {
    Intent {
        target: target.record.id,
        safety: safety.record.id,
        sequence: Some(safety.sequence),
        head: look.session.head,
        // An undo brings back what its safety checkpoint has, which is newer than the head of then.
        head_after: target.record.id,
        workspace: look.workspace.clone(),
        stash: match stash {
            Stash::Made(commit) => Some(commit.clone()),
            _ => None,
        },
        spare,
        leave_unwritable: false,
        by_agent: false,
        conversation: look.conversation.clone().map(|(id, config)| GoesBack { id, config }),
        conversation_before: look.session.conversations.last().map(|last| last.id.clone()),
        conversation_after: match (&look.conversation, undone) {
            (None, _) => None,
            (Some((id, _)), None) => Some(id.clone()),
            (Some((id, _)), Some(last)) => Some(last.conversation.clone().unwrap_or_else(|| id.clone())),
        },
        goes_back: false,
    }
}

fn safety(store: &Store, look: &Look, wanted: &RollbackRequest<'_>, progress: &dyn Observer) -> Result<Checkpoint> {
    // What goes back is what is kept; another conversation that the session is in by now is not touched.
    let goes_back = look.conversation.as_ref().map(|(id, _)| id.as_str());
    let of_all = SafetyRequest {
        session: &look.session,
        workspace: &look.workspace,
        cause: Cause::Safety,
        message: format!("before the rollback to {}", wanted.target.id()),
        rules: Some(rules(&wanted.target.record.rules, &wanted.settings.capture.rules())),
        conversation: Conversation::of(Some(&look.session), goes_back, wanted.config.clone()),
        environment: wanted.environment.clone(),
        settings: wanted.settings,
    };
    overwrite::safety(store, wanted.host, of_all, progress)
}

/// The rules of a safety checkpoint, and so of the paths that are spared: everything left out then or now. If patterns contradict each
/// other, those of then win.
pub(super) fn rules(then: &Rules, now: &Rules) -> Rules {
    let both = |then: &[String], now: &[String]| now.iter().chain(then).cloned().collect();
    Rules {
        defaults: then.defaults || now.defaults,
        patterns: both(&then.patterns, &now.patterns),
        if_present: both(&then.if_present, &now.if_present),
        caches: then.caches || now.caches,
        one_file_system: then.one_file_system || now.one_file_system,
        ..then.clone()
    }
}

pub(super) struct Out {
    report: RestoreReport,
    changes: Vec<(restore::RestoreChange, Vec<u8>)>,
    moved: Vec<PathBuf>,
}

/// Everything behind the intent. May be done again, whatever was done of it before.
pub(super) fn carry_out(
    store: &Store,
    host: &dyn Host,
    session: &str,
    intent: &Intent,
    plan: Plan,
    progress: &dyn Observer,
) -> Result<Out> {
    let target = checkpoint(store, intent.target)?;
    let mut changes = Vec::new();
    plan.each_change(&mut |change, path| {
        if changes.len() < CHANGES_MAX {
            changes.push((change, path.to_vec()));
        }
    })?;
    let report = restore::execute(store, &target, plan, progress)?;
    let (left, failed): (Vec<&SkippedEntry>, Vec<&SkippedEntry>) =
        report.skipped.iter().partition(|skipped| may_be_left(skipped.why, intent.leave_unwritable));
    if let Some(skipped) = failed.first() {
        return Err(not_restored(skipped, failed.len()));
    }
    for skipped in left.into_iter().filter(|left| matches!(left.why, Why::Withheld | Why::Changed)) {
        progress.notice(&format!("{}: {}", parhelia_store::name::display(&skipped.path), skipped.error));
    }
    let moved = conversation(store, session, intent, &target)?;
    if intent.conversation.is_some() {
        let safety = checkpoint(store, intent.safety)?;
        let notices = mcp::give_back(store, host, &intent.workspace, &target, Back::Exactly(&safety));
        notices.iter().for_each(|notice| progress.warn(notice));
    }
    intent::clear(store, session, intent, true, &host.actor())?;
    Ok(Out { report, changes, moved })
}

/// True if a rollback is done although something was not put back, for this kind of reason. What has the checkpoint's content may be left.
fn may_be_left(why: Why, leaves_unwritable: bool) -> bool {
    match why {
        Why::Withheld | Why::Changed | Why::HeldAlike | Why::Kept => true,
        Why::Held => leaves_unwritable,
        Why::Failed | Why::Taken => false,
    }
}

fn conversation(store: &Store, session: &str, intent: &Intent, target: &Checkpoint) -> Result<Vec<PathBuf>> {
    let Some(GoesBack { id, config }) = &intent.conversation else { return Ok(Vec::new()) };
    let aside = aside(config, session);
    let session = store.view().session(&target.record.session)?;
    let seen = session.and_then(|session| seen_at(&session, id));
    Ok(put_back(store, Some(target), (id, seen.as_deref()), config, &intent.workspace, &aside, true)?.moved)
}

/// Back to what was before. Returns the error that led here, with what came of going back.
pub(super) fn revert(store: &Store, host: &dyn Host, session: &str, intent: &Intent, why: Error) -> Error {
    let intent = Intent { goes_back: true, ..intent.clone() };
    // Whoever finishes it if this process cannot takes it back as well. Where that cannot be noted, going back is tried all the same.
    let _ = intent::commit(store, session, &intent, &host.actor());
    let (target, safety, why) = (intent.target, intent.safety, Box::new(why));
    match go_back(store, host, session, &intent) {
        Ok(()) => Error::RollbackFailed { target, why },
        Err(e) => Error::HalfRolledBack { target, safety, workspace: intent.workspace, why, back: Box::new(e) },
    }
}

pub(super) fn go_back(store: &Store, host: &dyn Host, session: &str, intent: &Intent) -> Result<()> {
    let safety = checkpoint(store, intent.safety)?;
    // Whoever asked to stop has been heard; going back is not stopped.
    let plan = plan(store, &safety, &intent.workspace, unhex(&intent.spare), None, &())?;
    let report = restore::execute(store, &safety, plan, &())?;
    let failed = |skipped: &&SkippedEntry| !matches!(skipped.why, Why::Withheld | Why::HeldAlike);
    let failed: Vec<&SkippedEntry> = report.skipped.iter().filter(failed).collect();
    if let Some(skipped) = failed.first() {
        return Err(not_restored(skipped, failed.len()));
    }
    conversation(store, session, intent, &safety)?;
    if intent.conversation.is_some() {
        // Whoever hears of the failure behind this has more to think of.
        mcp::give_back(store, host, &intent.workspace, &safety, Back::Again);
    }
    if let Some(commit) = &intent.stash {
        stash::drop_entry(host, &intent.workspace, commit, &store.layout().cache())?;
    }
    intent::clear(store, session, intent, false, &host.actor())
}

fn not_restored(skipped: &SkippedEntry, entries: usize) -> Error {
    Error::NotRestored { path: parhelia_store::name::display(&skipped.path), reason: skipped.error.clone(), entries }
}

pub(super) fn existing(store: &Store, id: Ulid) -> Result<Option<Checkpoint>> {
    Ok(store.refresh()?.checkpoint(id)?)
}

fn checkpoint(store: &Store, id: Ulid) -> Result<Checkpoint> {
    existing(store, id)?.ok_or_else(|| parhelia_store::Error::NoCheckpoint { selector: id.to_string() }.into())
}

pub(super) fn unhex(list: &[String]) -> Vec<Vec<u8>> {
    let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|text| u8::from_str_radix(text, 16).ok());
    list.iter().filter_map(|text| text.as_bytes().chunks(2).map(byte).collect()).collect()
}
