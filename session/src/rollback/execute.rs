//! Doing it, and finishing what a dead process has begun.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_store::{
    Store, clock, create,
    event::Actor,
    id::Ulid,
    omitted::{Omission, Reason},
    progress::Progress,
    projection::Session,
    record::{Checkpoint, Rules},
    restore::{self, Options, Plan, RestoreReport, Skipped, Why},
    tree::Time,
};
use serde_json::{Value, json};

use super::{
    intent::{self, GoesBack, Intent, Last, Turn},
    look::{Look, RollbackRequest, hex, sessions_below, whole},
    since::{newer_of_another, worked_on},
    stash::{self, Stash},
};
use crate::{
    checkpoint::Conversation,
    error::{Error, Refusal, Result},
    host::{Host, Observer},
    notice::Notice,
    overwrite::{self, SafetyRequest},
    resume::{aside, ensure_place, move_to, put_back},
    retention::SAFETY,
    run::{self, config_of_session, life, strangers_in, unseen_in},
};
use parhelia_agent::git::Repository;

/// The result of a rollback.
#[derive(Debug)]
pub struct Done {
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
/// Paths that one message names, at most.
const NAMED_MAX: usize = 8;

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
        let options = create::Options { workspace: look.workspace.clone(), rules, ..create::Options::default() };
        omitted = create::look(store, &options, progress)?.2;
    }
    let spared = omitted.iter().filter(|omission| omission.reason != Reason::Changing);
    let spare = look.spare(spared.map(|omission| omission.path.clone()));
    let planned = plan(store, wanted.target, &look.workspace, unhex(&spare), None, progress)?;
    ensure_unblocked(&planned, wanted.target)?;
    Ok((planned, omitted))
}

fn ensure_unblocked(planned: &Plan, target: &Checkpoint) -> Result<()> {
    let blocked: Vec<Skipped> = planned.blocked().collect();
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
) -> Result<Done> {
    let (target, host) = (wanted.target, wanted.host);
    let actor = &host.actor();
    if wanted.options.recreate_workspace {
        // Somebody has said that this is the workspace by now, whatever it was before.
        move_to(store, &look.session, &look.workspace, true, actor)?;
    }
    let since = clock::next();
    let safety = safety(store, look, wanted, progress)?;
    whole(store, target, Some(&safety), progress)?;
    let omitted = store.omissions(&safety)?.into_iter().filter(|omission| omission.reason != Reason::Changing);
    let spare = look.spare(omitted.map(|omission| omission.path));
    // What cannot be planned is refused before there is an intent, which everybody who comes later would have to finish.
    let planned = plan(store, target, &look.workspace, unhex(&spare), Some(since), progress)?;
    ensure_unblocked(&planned, target)?;
    let message = format!("parhelia: before the rollback to {}", target.id());
    let stash = stash::make(host, &look.workspace, &message, &store.layout().cache());
    let intent = intended(look, target, &safety, &stash, spare, undone);
    if let Err(e) = intent::commit(store, &look.session.id, &intent, actor) {
        if let Some(commit) = &intent.stash {
            let _ = stash::drop_entry(host, &intent.workspace, commit, &store.layout().cache());
        }
        progress.notice(&format!("nothing was changed; safety checkpoint {} stays", safety.id()));
        return Err(e);
    }
    match carry_out(store, host, &look.session.id, &intent, planned, progress) {
        Ok(out) => Ok(Done {
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

struct Out {
    report: RestoreReport,
    changes: Vec<(restore::RestoreChange, Vec<u8>)>,
    moved: Vec<PathBuf>,
}

/// Everything behind the intent. May be done again, whatever was done of it before.
fn carry_out(store: &Store, host: &dyn Host, session: &str, intent: &Intent, plan: Plan, progress: &dyn Progress) -> Result<Out> {
    let target = checkpoint(store, intent.target)?;
    let mut changes = Vec::new();
    plan.each_change(&mut |change, path| {
        if changes.len() < CHANGES_MAX {
            changes.push((change, path.to_vec()));
        }
    })?;
    let report = restore::execute(store, &target, plan, progress)?;
    let (left, failed): (Vec<&Skipped>, Vec<&Skipped>) =
        report.skipped.iter().partition(|skipped| matches!(skipped.why, Why::Withheld | Why::Changed));
    if let Some(skipped) = failed.first() {
        return Err(not_restored(skipped, failed.len()));
    }
    for skipped in left {
        progress.notice(&format!("{}: {}", parhelia_store::name::display(&skipped.path), skipped.error));
    }
    let moved = conversation(store, session, intent, &target)?;
    intent::clear(store, session, intent, true, &host.actor())?;
    Ok(Out { report, changes, moved })
}

fn conversation(store: &Store, session: &str, intent: &Intent, target: &Checkpoint) -> Result<Vec<PathBuf>> {
    let Some(GoesBack { id, config }) = &intent.conversation else { return Ok(Vec::new()) };
    let aside = aside(config, session);
    Ok(put_back(store, Some(target), id, config, &intent.workspace, &aside, true)?.moved)
}

/// Back to what was before. Returns the error that led here, with what came of going back.
fn revert(store: &Store, host: &dyn Host, session: &str, intent: &Intent, why: Error) -> Error {
    let intent = Intent { goes_back: true, ..intent.clone() };
    // Whoever finishes it if this process cannot takes it back as well. Where that cannot be noted, going back is tried all the same.
    let _ = intent::commit(store, session, &intent, &host.actor());
    let (target, safety, why) = (intent.target, intent.safety, Box::new(why));
    match go_back(store, host, session, &intent) {
        Ok(()) => Error::RollbackFailed { target, why },
        Err(e) => Error::HalfRolledBack { target, safety, workspace: intent.workspace, why, back: Box::new(e) },
    }
}

fn go_back(store: &Store, host: &dyn Host, session: &str, intent: &Intent) -> Result<()> {
    let safety = checkpoint(store, intent.safety)?;
    // Whoever asked to stop has been heard; going back is not stopped.
    let plan = plan(store, &safety, &intent.workspace, unhex(&intent.spare), None, &())?;
    let report = restore::execute(store, &safety, plan, &())?;
    let failed: Vec<&Skipped> = report.skipped.iter().filter(|skipped| skipped.why != Why::Withheld).collect();
    if let Some(skipped) = failed.first() {
        return Err(not_restored(skipped, failed.len()));
    }
    conversation(store, session, intent, &safety)?;
    if let Some(commit) = &intent.stash {
        stash::drop_entry(host, &intent.workspace, commit, &store.layout().cache())?;
    }
    intent::clear(store, session, intent, false, &host.actor())
}

fn not_restored(skipped: &Skipped, entries: usize) -> Error {
    Error::NotRestored { path: parhelia_store::name::display(&skipped.path), reason: skipped.error.clone(), entries }
}

/// Finishes a rollback that was begun by a process which is dead, or takes it back where it cannot be finished. Where work has gone on since,
/// it is given up: that work is worth more. What was done is told. The caller holds the session's turn. Nothing is done while the
/// session's agent may be alive, or another one in its conversation, whose work would be overwritten.
pub fn finish(store: &Store, host: &dyn Host, session: &Session, observer: &dyn Observer) -> Result<()> {
    let actor = &host.actor();
    let Some(mut intent) = intent::open(session) else { return Ok(()) };
    let view = store.view();
    let run = view.newest_run(session)?;
    if run.is_some_and(|run| life(&run).is_alive()) || is_open_elsewhere(store, session, &intent)? {
        return Ok(());
    }
    if let Some((other, _)) = run::live_in(store, &intent.workspace, &session.id)?.first() {
        let (session, target, other) = (session.id.clone(), intent.target, other.id.clone());
        return Err(Refusal::CannotFinish { session, target, other }.into());
    }
    if session.workspace.as_ref().is_some_and(|place| place.folder() == intent.workspace) {
        ensure_place(store, session)?;
    }
    let (target, safety) = (existing(store, intent.target)?, existing(store, intent.safety)?);
    if let Some(reason) = gone_on(store, session, &intent, safety.as_ref())? {
        intent::clear(store, &session.id, &intent, false, actor)?;
        observer.warn(&Notice::RollbackGivenUp { target: intent.target, safety: intent.safety, why: reason });
        return Ok(());
    }
    let Some(known) = safety.as_ref().or(target.as_ref()) else {
        intent::clear(store, &session.id, &intent, false, actor)?;
        observer.warn(&Notice::RollbackLost { target: intent.target, safety: intent.safety });
        return Ok(());
    };
    let since = clock::next();
    if intent.workspace.is_dir() {
        let made = before_finishing(store, session, &intent, known, actor, observer)?;
        observer.warn(&Notice::SavedBeforeFinishing { safety: made.record.id });
        let omitted = store.omissions(&made)?.into_iter().filter(|omission| omission.reason != Reason::Changing);
        let below = sessions_below(store, &intent.workspace, &session.id)?.into_iter().map(|(path, _)| path);
        let worked_on = match (&target, &safety) {
            (Some(target), Some(safety)) => worked_on(store, target, safety, &made)?,
            _ => Vec::new(),
        };
        if !worked_on.is_empty() {
            observer.warn(&Notice::ChangedSince { paths: named(&worked_on) });
        }
        intent.spare.extend(hex(omitted.map(|omission| omission.path).chain(below).chain(worked_on)));
    }
    if intent.goes_back {
        go_back(store, host, &session.id, &intent)?;
        observer.warn(&Notice::RollbackTakenBack { target: intent.target });
        return Ok(());
    }
    let done = match target {
        Some(target) => plan(store, &target, &intent.workspace, unhex(&intent.spare), Some(since), observer)
            .and_then(|plan| carry_out(store, host, &session.id, &intent, plan, observer)),
        None => Err(parhelia_store::Error::NoCheckpoint { selector: intent.target.to_string() }.into()),
    };
    done.map_err(|e| revert(store, host, &session.id, &intent, e))?;
    observer.warn(&Notice::RollbackFinished { target: intent.target });
    Ok(())
}

/// Checks whether a stranger has the session's newest conversation open, or the one that goes back: an agent that a person has started by
/// hand, and that is not the session's.
fn is_open_elsewhere(store: &Store, session: &Session, intent: &Intent) -> Result<bool> {
    let config = match &intent.conversation {
        Some(goes_back) => Some(goes_back.config.clone()),
        None => config_of_session(store, session)?.map(|config| config.path),
    };
    let Some(config) = config else { return Ok(false) };
    let newest = session.conversations.last().map(|newest| &newest.id);
    for id in intent.conversation.iter().map(|goes_back| &goes_back.id).chain(newest) {
        if !strangers_in(store, session, &config, id)?.is_empty() || unseen_in(store, session, &config, id)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The first of some paths, and how many more there are.
fn named(paths: &[Vec<u8>]) -> String {
    let shown: Vec<String> = paths.iter().take(NAMED_MAX).map(|path| parhelia_store::name::display(path)).collect();
    match paths.len().saturating_sub(NAMED_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Evidence, in words, that work went on after a rollback was interrupted: a newer checkpoint, or git. None if there is none.
fn gone_on(store: &Store, session: &Session, intent: &Intent, safety: Option<&Checkpoint>) -> Result<Option<String>> {
    // Where nobody knows any more when it began, whatever is there counts: work is worth more than the rollback.
    let began = intent.sequence.or(safety.map(|safety| safety.sequence)).unwrap_or(0);
    let is_newer = |found: &Checkpoint| found.sequence > began && !found.record.is_safety() && !found.record.fenced;
    // In the order of commits: ids follow a clock, which may have been set back.
    let view = store.view();
    let mut newest_first = view.newest_first_of(&session.id)?;
    if let Some(newer) = newest_first.find(|found| found.as_ref().map_or(true, is_newer)).transpose()? {
        return Ok(Some(format!("work has gone on since, up to checkpoint {}", newer.id())));
    }
    if let Some(newer) = newer_of_another(store, session, intent, began)? {
        return Ok(Some(format!("session {} has worked there since, up to checkpoint {}", newer.record.session, newer.id())));
    }
    let git = safety.and_then(|safety| safety.record.git.as_ref());
    let has_moved = git.is_some_and(|then| has_moved(&intent.workspace, then));
    Ok(has_moved.then(|| "git is elsewhere by now, or in the middle of something else".to_owned()))
}

/// Checks whether git has left the commit, branch or operation of a checkpoint's record. False if that cannot be told without running git.
pub(super) fn has_moved(workspace: &Path, then: &Value) -> bool {
    let Ok(Some(repository)) = Repository::around(workspace) else { return false };
    let now = repository.facts();
    let then_text = |name: &str| then.get(name).and_then(Value::as_str);
    let is_readable = now.commit.is_some() || then_text("head").is_none();
    let is_same = then_text("head") == now.commit.as_deref()
        && then_text("branch") == now.branch.as_deref()
        && then.get("operation").unwrap_or(&Value::Null) == &json!(repository.operation());
    is_readable && !is_same
}

/// Somebody may have worked in what a dead process left half done. What was left out before is left out again.
fn before_finishing(
    store: &Store,
    session: &Session,
    intent: &Intent,
    known: &Checkpoint,
    actor: &Actor,
    progress: &dyn Progress,
) -> Result<Checkpoint> {
    let options = create::Options {
        workspace: intent.workspace.clone(),
        session: session.id.clone(),
        actor: actor.clone(),
        trigger_detail: Some(SAFETY.to_owned()),
        message: Some(format!("before the interrupted rollback to {} was finished", intent.target)),
        rules: known.record.rules.clone(),
        ..create::Options::default()
    };
    Ok(create::run(store, &options, progress)?.checkpoint)
}

/// Waits, at most so long, until nobody else makes a checkpoint of the session or rolls it back, and finishes what a dead process has begun.
/// Where somebody else goes on for longer, there is no turn to be had.
pub fn settle(store: &Store, host: &dyn Host, session: &str, limit: Duration, observer: &dyn Observer) -> Result<Option<Turn>> {
    let turn = intent::turn(store, session, limit, observer)?;
    if turn.is_some() {
        finish_earlier(store, host, session, observer)?;
    }
    Ok(turn)
}

/// Finishes a rollback of a session that a dead process has begun. The caller holds the session's turn.
pub fn finish_earlier(store: &Store, host: &dyn Host, session: &str, observer: &dyn Observer) -> Result<()> {
    match store.refresh()?.session(session)? {
        Some(session) => finish(store, host, &session, observer),
        None => Ok(()),
    }
}

fn existing(store: &Store, id: Ulid) -> Result<Option<Checkpoint>> {
    Ok(store.refresh()?.checkpoint(id)?)
}

fn checkpoint(store: &Store, id: Ulid) -> Result<Checkpoint> {
    existing(store, id)?.ok_or_else(|| parhelia_store::Error::NoCheckpoint { selector: id.to_string() }.into())
}

fn unhex(list: &[String]) -> Vec<Vec<u8>> {
    let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|text| u8::from_str_radix(text, 16).ok());
    list.iter().filter_map(|text| text.as_bytes().chunks(2).map(byte).collect()).collect()
}
