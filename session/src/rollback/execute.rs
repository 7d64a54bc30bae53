//! Doing it, and finishing what a dead process has begun.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_store::{
    Store, clock, create,
    event::Actor,
    fold::Session,
    id::Ulid,
    omitted::{Omission, Reason},
    progress::Progress,
    record::{Checkpoint, Rules},
    restore::{self, Options, Plan, Report, Skipped, Why},
    tree::Time,
};
use serde_json::{Value, json};

use super::{
    intent::{self, GoesBack, Intent, Last, Turn},
    look::{Look, Wanted, hex, sessions_below, whole},
    since::{newer_of_another, worked_on},
    stash::{self, Stash},
};
use crate::{
    error::{Error, Result},
    overwrite,
    resume::{aside, ensure_place, move_to, put_back},
    retention::SAFETY,
    run::{self, Conversation, config_of_session, life, strangers_in, unseen_in},
};
use parhelia_agent::git::Repository;

/// What was done.
#[derive(Debug)]
pub struct Done {
    /// What the workspace is now.
    pub target: Ulid,
    /// What it was before.
    pub safety: Ulid,
    /// What became of uncommitted changes.
    pub stash: Stash,
    /// What was restored.
    pub report: Report,
    /// Paths that were changed, with their marks.
    pub changes: Vec<(restore::Change, Vec<u8>)>,
    /// Whether the conversation went back, too.
    pub with_conversation: bool,
    /// Copies of the conversation, and files of it that the checkpoint has not, that were moved aside: where they are now.
    pub moved: Vec<PathBuf>,
}

/// How many changes are named.
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
pub fn foresee(store: &Store, look: &Look, wanted: &Wanted<'_>, progress: &dyn Progress) -> Result<(Plan, Vec<Omission>)> {
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
    wanted: &Wanted<'_>,
    undone: Option<&Last>,
    actor: &Actor,
    progress: &dyn Progress,
) -> Result<Done> {
    let target = wanted.target;
    if wanted.recreate {
        // Somebody has said that this is the workspace by now, whatever it was before.
        move_to(store, &look.session, &look.workspace, true, actor)?;
    }
    let since = clock::next();
    let safety = safety(store, look, wanted, actor, progress)?;
    whole(store, target, Some(&safety), progress)?;
    let omitted = store.omissions(&safety)?.into_iter().filter(|omission| omission.reason != Reason::Changing);
    let spare = look.spare(omitted.map(|omission| omission.path));
    // What cannot be planned is refused before there is an intent, which everybody who comes later would have to finish.
    let planned = plan(store, target, &look.workspace, unhex(&spare), Some(since), progress)?;
    ensure_unblocked(&planned, target)?;
    let message = format!("parhelia: before the rollback to {}", target.id());
    let stash = stash::make(&look.workspace, &message, &store.layout().cache());
    let intent = Intent {
        target: target.record.id,
        safety: safety.record.id,
        sequence: Some(safety.sequence),
        head: look.session.head,
        // An undo brings back what its safety checkpoint has, which is newer than the head of then.
        head_after: target.record.id,
        workspace: look.workspace.clone(),
        stash: match &stash {
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
    };
    if let Err(e) = intent::commit(store, &look.session.id, &intent, actor) {
        if let Some(commit) = &intent.stash {
            let _ = stash::drop_entry(&intent.workspace, commit, &store.layout().cache());
        }
        progress.notice(&format!("nothing was changed; safety checkpoint {} stays", safety.id()));
        return Err(e);
    }
    match carry_out(store, &look.session.id, &intent, planned, actor, progress) {
        Ok(out) => Ok(Done {
            target: intent.target,
            safety: intent.safety,
            stash,
            report: out.report,
            changes: out.changes,
            with_conversation: intent.conversation.is_some(),
            moved: out.moved,
        }),
        Err(e) => Err(revert(store, &look.session.id, &intent, actor, e)),
    }
}

fn safety(store: &Store, look: &Look, wanted: &Wanted<'_>, actor: &Actor, progress: &dyn Progress) -> Result<Checkpoint> {
    // What goes back is what is kept; another conversation that the session is in by now is not touched.
    let goes_back = look.conversation.as_ref().map(|(id, _)| id.as_str());
    let of_all = overwrite::Wanted {
        session: &look.session,
        workspace: &look.workspace,
        message: format!("before the rollback to {}", wanted.target.id()),
        rules: Some(rules(&wanted.target.record.rules, &wanted.settings.capture.rules())),
        conversation: Conversation::of(Some(&look.session), goes_back, wanted.config.clone()),
        environment: wanted.environment.clone(),
        settings: wanted.settings,
        actor,
        variable: wanted.variable,
    };
    overwrite::safety(store, of_all, progress)
}

/// What is left out of a safety checkpoint, and so is spared: what was left out then, and what is left out now. Of patterns that
/// contradict each other those of then count.
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
    report: Report,
    changes: Vec<(restore::Change, Vec<u8>)>,
    moved: Vec<PathBuf>,
}

/// Everything behind the intent. May be done again, whatever was done of it before.
fn carry_out(store: &Store, session: &str, intent: &Intent, plan: Plan, actor: &Actor, progress: &dyn Progress) -> Result<Out> {
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
    intent::clear(store, session, intent, true, actor)?;
    Ok(Out { report, changes, moved })
}

fn conversation(store: &Store, session: &str, intent: &Intent, target: &Checkpoint) -> Result<Vec<PathBuf>> {
    let Some(GoesBack { id, config }) = &intent.conversation else { return Ok(Vec::new()) };
    let aside = aside(config, session);
    Ok(put_back(store, Some(target), id, config, &intent.workspace, &aside, true)?.moved)
}

/// Back to what was before. Returns the error that led here, with what came of going back.
fn revert(store: &Store, session: &str, intent: &Intent, actor: &Actor, why: Error) -> Error {
    let intent = Intent { goes_back: true, ..intent.clone() };
    // Whoever finishes it if this process cannot takes it back as well. Where that cannot be noted, going back is tried all the same.
    let _ = intent::commit(store, session, &intent, actor);
    let (target, safety, why) = (intent.target, intent.safety, Box::new(why));
    match go_back(store, session, &intent, actor) {
        Ok(()) => Error::RollbackFailed { target, why },
        Err(e) => Error::HalfRolledBack { target, safety, workspace: intent.workspace, why, back: Box::new(e) },
    }
}

fn go_back(store: &Store, session: &str, intent: &Intent, actor: &Actor) -> Result<()> {
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
        stash::drop_entry(&intent.workspace, commit, &store.layout().cache())?;
    }
    intent::clear(store, session, intent, false, actor)
}

fn not_restored(skipped: &Skipped, entries: usize) -> Error {
    Error::NotRestored { path: parhelia_store::name::display(&skipped.path), reason: skipped.error.clone(), entries }
}

/// Finishes a rollback that was begun by a process which is dead, or takes it back where it cannot be finished. Where work has gone on since,
/// it is given up: that work is worth more. What was done is told. The caller holds the session's turn. Nothing is done while the
/// session's agent may be alive, or another one in its conversation, whose work would be overwritten.
pub fn finish(store: &Store, session: &Session, actor: &Actor, tell: &dyn Fn(&str), progress: &dyn Progress) -> Result<()> {
    let Some(mut intent) = intent::open(session) else { return Ok(()) };
    let view = store.view();
    let run = session.run.as_deref().map(|id| view.run(id)).transpose()?.flatten();
    if run.is_some_and(|run| life(&run).is_alive()) || is_open_elsewhere(store, session, &intent)? {
        return Ok(());
    }
    if let Some((other, _)) = run::live_in(store, &intent.workspace, &session.id)?.first() {
        return Err(Error::Refused(format!(
            "a rollback of session {} to {} was interrupted, and cannot be finished while session {} is alive in the same workspace, or in \
             one below or above it; end that first",
            session.id, intent.target, other.id
        )));
    }
    if session.workspace.as_ref().is_some_and(|place| place.folder() == intent.workspace) {
        ensure_place(store, session)?;
    }
    let (target, safety) = (existing(store, intent.target)?, existing(store, intent.safety)?);
    if let Some(reason) = gone_on(store, session, &intent, safety.as_ref())? {
        intent::clear(store, &session.id, &intent, false, actor)?;
        tell(&format!(
            "a rollback to {} was interrupted, and is not finished: {reason}. `parhelia checkpoint rollback {}` begins it anew; what was \
             there before it is in safety checkpoint {}",
            intent.target, intent.target, intent.safety
        ));
        return Ok(());
    }
    let Some(known) = safety.as_ref().or(target.as_ref()) else {
        intent::clear(store, &session.id, &intent, false, actor)?;
        tell(&format!(
            "a rollback to {} was interrupted, and is not finished: neither that checkpoint nor {}, which has what was there before, is in \
             the store any more; the workspace is left as it is",
            intent.target, intent.safety
        ));
        return Ok(());
    };
    let since = clock::next();
    if intent.workspace.is_dir() {
        let made = before_finishing(store, session, &intent, known, actor, progress)?;
        tell(&format!("what is there now, after a rollback that was interrupted, is in safety checkpoint {}", made.id()));
        let omitted = store.omissions(&made)?.into_iter().filter(|omission| omission.reason != Reason::Changing);
        let below = sessions_below(store, &intent.workspace, &session.id)?.into_iter().map(|(path, _)| path);
        let worked_on = match (&target, &safety) {
            (Some(target), Some(safety)) => worked_on(store, target, safety, &made)?,
            _ => Vec::new(),
        };
        if !worked_on.is_empty() {
            tell(&format!("left as it is, for it was changed since the rollback was interrupted: {}", named(&worked_on)));
        }
        intent.spare.extend(hex(omitted.map(|omission| omission.path).chain(below).chain(worked_on)));
    }
    if intent.goes_back {
        go_back(store, &session.id, &intent, actor)?;
        tell(&format!("a rollback to {} that had failed is taken back now; everything is as it was before", intent.target));
        return Ok(());
    }
    let done = match target {
        Some(target) => plan(store, &target, &intent.workspace, unhex(&intent.spare), Some(since), progress)
            .and_then(|plan| carry_out(store, &session.id, &intent, plan, actor, progress)),
        None => Err(parhelia_store::Error::NoCheckpoint { selector: intent.target.to_string() }.into()),
    };
    done.map_err(|e| revert(store, &session.id, &intent, actor, e))?;
    tell(&format!("a rollback to {} that was interrupted is finished now", intent.target));
    Ok(())
}

/// Whether an agent that is not the session's has its newest conversation open, or the one that goes back: a person has started it by hand.
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

/// What says that somebody has worked on since a rollback was interrupted: a newer checkpoint, or git.
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

/// Whether git is at another commit, on another branch or in the middle of something else than a checkpoint's record says. Where it cannot be
/// told without asking git, it is not.
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
pub fn settle(
    store: &Store,
    session: &str,
    limit: Duration,
    actor: &Actor,
    tell: &dyn Fn(&str),
    progress: &dyn Progress,
) -> Result<Option<Turn>> {
    let turn = intent::turn(store, session, limit, progress)?;
    if let Some(known) = store.refresh()?.session(session)?.filter(|_| turn.is_some()) {
        finish(store, &known, actor, tell, progress)?;
    }
    Ok(turn)
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
