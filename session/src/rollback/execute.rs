//! Doing it, and finishing what a dead process has begun.

use std::{path::PathBuf, time::Duration};

use parhelia_store::{
    Store, create,
    event::Actor,
    fold::Session,
    id::Ulid,
    omitted::Reason,
    progress::Progress,
    record::{Checkpoint, Rules, Trigger},
    restore::{self, Options, Plan, Report, Skipped},
};

use super::{
    intent::{self, Intent, Last, Turn},
    look::{Look, Wanted, whole},
    stash::{self, Stash},
};
use crate::{
    error::{Error, Result},
    resume::{aside, put_back},
    retention::SAFETY,
    run::{self, Conversation, Life, life},
};

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

/// The plan of a rollback: the checkpoint's files in place, git's own folders and what is spared left alone.
pub fn plan(
    store: &Store,
    target: &Checkpoint,
    workspace: &std::path::Path,
    spare: Vec<Vec<u8>>,
    progress: &dyn Progress,
) -> Result<Plan> {
    let options = Options { in_place: true, delete: true, spare, exclude: vec![".git".into()], ..Options::new(workspace) };
    Ok(restore::plan(store, target, &options, progress)?)
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
    let safety = safety(store, look, wanted, actor, progress)?;
    whole(store, target, Some(&safety), progress)?;
    let omitted = store.omissions(&safety)?.into_iter().filter(|omission| omission.reason != Reason::Changing);
    let message = format!("parhelia: before the rollback to {}", target.id());
    let stash = stash::make(&look.workspace, &message);
    let intent = Intent {
        target: target.record.id,
        safety: safety.record.id,
        head: look.session.head,
        head_after: undone.map_or(target.record.id, |last| last.head.unwrap_or(last.safety)),
        workspace: look.workspace.clone(),
        stash: match &stash {
            Stash::Made(commit) => Some(commit.clone()),
            _ => None,
        },
        spare: look.spare(omitted.map(|omission| omission.path)),
        conversation: look.conversation.clone(),
        conversation_before: look.session.conversations.last().map(|last| last.id.clone()),
        conversation_after: match (&look.conversation, undone) {
            (None, _) => None,
            (Some((id, _)), None) => Some(id.clone()),
            (Some((id, _)), Some(last)) => Some(last.conversation.clone().unwrap_or_else(|| id.clone())),
        },
    };
    intent::commit(store, &look.session.id, &intent, actor)?;
    match carry_out(store, &look.session.id, &intent, actor, progress) {
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
    let made = run::make(
        store,
        &run::Wanted {
            session: &look.session.id,
            run: None,
            workspace: &look.workspace,
            trigger: Trigger::Manual,
            detail: Some(SAFETY.to_owned()),
            message: Some(format!("before the rollback to {}", wanted.target.id())),
            skip_if_unchanged: false,
            rules: Some(rules(&wanted.target.record.rules, &wanted.settings.capture.rules())),
            conversation: Conversation::of(Some(&look.session), goes_back, wanted.config.clone()),
            tmux: run::tmux_of(store, &look.session)?,
            environment: None,
            config: wanted.settings,
            actor: actor.clone(),
            variable: wanted.variable,
        },
        progress,
    )?;
    let safety = made.outcome.checkpoint;
    match &made.verified {
        Some(report) if !report.is_ok() => Err(Error::Damaged(format!(
            "the safety checkpoint {} is damaged, and nothing was changed; `parhelia check --repair` mends the store",
            safety.id()
        ))),
        _ => Ok(safety),
    }
}

/// What is left out of a safety checkpoint, and so is spared: what was left out then, and what is left out now. Of patterns that
/// contradict each other those of then count.
fn rules(then: &Rules, now: &Rules) -> Rules {
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
fn carry_out(store: &Store, session: &str, intent: &Intent, actor: &Actor, progress: &dyn Progress) -> Result<Out> {
    let target = checkpoint(store, intent.target)?;
    let plan = plan(store, &target, &intent.workspace, unhex(&intent.spare), progress)?;
    let mut changes = Vec::new();
    plan.each_change(&mut |change, path| {
        if changes.len() < CHANGES_MAX {
            changes.push((change, path.to_vec()));
        }
    })?;
    let report = restore::execute(store, &target, plan, progress)?;
    let (withheld, failed): (Vec<&Skipped>, Vec<&Skipped>) = report.skipped.iter().partition(|skipped| skipped.is_withheld);
    if let Some(skipped) = failed.first() {
        return Err(not_restored(skipped, failed.len()));
    }
    for skipped in withheld {
        progress.notice(&format!("{}: {}", parhelia_store::name::display(&skipped.path), skipped.error));
    }
    let moved = conversation(store, session, intent, &target)?;
    intent::clear(store, session, intent, true, actor)?;
    Ok(Out { report, changes, moved })
}

fn conversation(store: &Store, session: &str, intent: &Intent, target: &Checkpoint) -> Result<Vec<PathBuf>> {
    let Some((id, config)) = &intent.conversation else { return Ok(Vec::new()) };
    let aside = aside(config, session);
    Ok(put_back(store, Some(target), id, config, &intent.workspace, &aside, true)?.moved)
}

/// Back to what was before. Returns the error that led here, with what came of going back.
fn revert(store: &Store, session: &str, intent: &Intent, actor: &Actor, why: Error) -> Error {
    let back = (|| -> Result<()> {
        let safety = checkpoint(store, intent.safety)?;
        // Whoever asked to stop has been heard; going back is not stopped.
        let plan = plan(store, &safety, &intent.workspace, unhex(&intent.spare), &())?;
        let report = restore::execute(store, &safety, plan, &())?;
        let failed: Vec<&Skipped> = report.skipped.iter().filter(|skipped| !skipped.is_withheld).collect();
        if let Some(skipped) = failed.first() {
            return Err(not_restored(skipped, failed.len()));
        }
        conversation(store, session, intent, &safety)?;
        if let Some(commit) = &intent.stash {
            stash::drop_entry(&intent.workspace, commit)?;
        }
        intent::clear(store, session, intent, false, actor)
    })();
    let (target, safety, why) = (intent.target, intent.safety, Box::new(why));
    match back {
        Ok(()) => Error::RollbackFailed { target, why },
        Err(e) => Error::HalfRolledBack { target, safety, workspace: intent.workspace.clone(), why, back: Box::new(e) },
    }
}

fn not_restored(skipped: &Skipped, entries: usize) -> Error {
    Error::NotRestored { path: parhelia_store::name::display(&skipped.path), reason: skipped.error.clone(), entries }
}

/// A rollback that a dead process had begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What the workspace is now.
    pub target: Ulid,
    /// What it was before it was finished, with what was done to it since the process died. None where the workspace was gone.
    pub safety: Option<Ulid>,
}

/// Finishes a rollback that was begun by a process which is dead, or takes it back where it cannot be finished. The caller holds the
/// session's turn. `None` where there is none, and while an agent is alive, whose work it would overwrite.
pub fn finish(store: &Store, session: &Session, actor: &Actor, progress: &dyn Progress) -> Result<Option<Finished>> {
    let Some(intent) = intent::open(session) else { return Ok(None) };
    let view = store.view();
    let run = session.run.as_deref().map(|id| view.run(id)).transpose()?.flatten();
    if run.is_some_and(|run| matches!(life(&run), Life::Agent(_) | Life::Starting(_))) {
        return Ok(None);
    }
    let target = checkpoint(store, intent.target)?;
    let is_there = intent.workspace.is_dir();
    let safety = is_there.then(|| before_finishing(store, session, &intent, &target, actor, progress)).transpose()?;
    match carry_out(store, &session.id, &intent, actor, progress) {
        Ok(_) => Ok(Some(Finished { target: intent.target, safety })),
        Err(e) => Err(revert(store, &session.id, &intent, actor, e)),
    }
}

/// Somebody may have worked in what a dead process left half done.
fn before_finishing(
    store: &Store,
    session: &Session,
    intent: &Intent,
    target: &Checkpoint,
    actor: &Actor,
    progress: &dyn Progress,
) -> Result<Ulid> {
    let options = create::Options {
        workspace: intent.workspace.clone(),
        session: session.id.clone(),
        actor: actor.clone(),
        trigger: Trigger::Manual,
        trigger_detail: Some(SAFETY.to_owned()),
        message: Some(format!("before the interrupted rollback to {} was finished", target.id())),
        rules: target.record.rules.clone(),
        ..create::Options::default()
    };
    Ok(create::run(store, &options, progress)?.checkpoint.record.id)
}

/// Waits, at most so long, until nobody else makes a checkpoint of the session or rolls it back, and finishes what a dead process has begun.
/// Where somebody else goes on for longer, there is no turn to be had.
pub fn settle(
    store: &Store,
    session: &str,
    limit: Duration,
    actor: &Actor,
    progress: &dyn Progress,
) -> Result<(Option<Turn>, Option<Finished>)> {
    let turn = intent::turn(store, session, limit)?;
    let known = store.refresh()?.session(session)?.filter(|_| turn.is_some());
    let finished = known.map(|known| finish(store, &known, actor, progress)).transpose()?.flatten();
    Ok((turn, finished))
}

fn checkpoint(store: &Store, id: Ulid) -> Result<Checkpoint> {
    let found = store.refresh()?.checkpoint(id)?;
    found.ok_or_else(|| parhelia_store::Error::NoCheckpoint { selector: id.to_string() }.into())
}

fn unhex(list: &[String]) -> Vec<Vec<u8>> {
    let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|text| u8::from_str_radix(text, 16).ok());
    list.iter().filter_map(|text| text.as_bytes().chunks(2).map(byte).collect()).collect()
}
