//! Finishing a rollback that a dead process has begun, or giving it up where work has gone on since.

use std::{path::Path, time::Duration};

use parhelia_agent::git::Repository;
use parhelia_ledger::{LedgerView as _, Session};
use parhelia_store::{
    Store, clock, create,
    event::Actor,
    progress::Progress,
    record::{Cause, Checkpoint, SAFETY},
};
use serde_json::{Value, json};

use super::{
    execute::{carry_out, existing, go_back, plan, revert, unhex},
    look::{hex, sessions_below},
    since::{newer_of_another, worked_on},
    spared,
};
use crate::workspace::place::ensure_place;
use parhelia_host::{
    Host, Observer, Refusal, Result,
    intent::{self, Intent, Turn},
    notice::{InterruptedRollback, Notice},
    run::{self, config_of_session, life, strangers_in, unseen_in},
};
use parhelia_oversight::scan;

/// Paths that one message names, at most.
const NAMED_MAX: usize = 8;

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
        observer.warn(&Notice::Unfinished(InterruptedRollback::RollbackGivenUp {
            target: intent.target,
            safety: intent.safety,
            why: reason,
        }));
        return Ok(());
    }
    let Some(known) = safety.as_ref().or(target.as_ref()) else {
        intent::clear(store, &session.id, &intent, false, actor)?;
        observer.warn(&Notice::Unfinished(InterruptedRollback::RollbackLost { target: intent.target, safety: intent.safety }));
        return Ok(());
    };
    let since = clock::next();
    if intent.workspace.is_dir() {
        let judge = scan::judge(store, &host.config(&intent.workspace)?.secrets)?;
        let made = before_finishing(store, session, &intent, known, (actor, judge), observer)?;
        observer.warn(&Notice::Unfinished(InterruptedRollback::SavedBeforeFinishing { safety: made.record.id }));
        let kept: Vec<Vec<u8>> = spared::kept(store, store.omissions(&made)?, target.as_ref()).collect();
        let below = sessions_below(store, &intent.workspace, &session.id, target.as_ref())?.into_iter().map(|(path, _)| path);
        let worked_on = match (&target, &safety) {
            (Some(target), Some(safety)) => worked_on(store, target, safety, &made)?,
            _ => Vec::new(),
        };
        if !worked_on.is_empty() {
            observer.warn(&Notice::Unfinished(InterruptedRollback::ChangedSince { paths: named(&worked_on) }));
        }
        intent.spare.extend(hex(kept.into_iter().chain(below).chain(worked_on)));
    }
    if intent.goes_back {
        go_back(store, host, &session.id, &intent)?;
        observer.warn(&Notice::Unfinished(InterruptedRollback::RollbackTakenBack { target: intent.target }));
        return Ok(());
    }
    let done = match target {
        Some(target) => plan(store, &target, &intent.workspace, unhex(&intent.spare), Some(since), observer)
            .and_then(|plan| carry_out(store, host, &session.id, &intent, plan, observer)),
        None => Err(parhelia_store::Error::NoCheckpoint { selector: intent.target.to_string() }.into()),
    };
    done.map_err(|e| revert(store, host, &session.id, &intent, e))?;
    observer.warn(&Notice::Unfinished(InterruptedRollback::RollbackFinished { target: intent.target }));
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
    (actor, judge): (&Actor, Option<create::Judge>),
    progress: &dyn Progress,
) -> Result<Checkpoint> {
    let options = create::Options {
        workspace: intent.workspace.clone(),
        session: session.id.clone(),
        actor: actor.clone(),
        cause: Cause::Safety,
        trigger_detail: Some(SAFETY.to_owned()),
        message: Some(format!("before the interrupted rollback to {} was finished", intent.target)),
        rules: known.record.rules.clone(),
        judge,
        ..create::Options::default()
    };
    Ok(create::run(store, &options, progress)?.checkpoint)
}

/// Waits, at most so long, until nobody else makes a checkpoint of the session or rolls it back, and finishes what a dead process has begun.
/// Returns no turn if somebody else goes on for longer.
pub fn take_turn(
    store: &Store,
    host: &dyn Host,
    session: &str,
    limit: Duration,
    observer: &dyn Observer,
) -> Result<Option<Turn>> {
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
