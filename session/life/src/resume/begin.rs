//! Taking a session over, and bringing back what is missing of it.

use std::time::Duration;

use parhelia_ledger::{Goal, LedgerView as _, Session, Tmux, kind};
use parhelia_store::{Store, event::NewEvent, restore::RestoreReport};
use serde::Deserialize;
use serde_json::json;

use super::{Choice, Preparation, Resume, ResumeRequest, Workspace, bring_back, choose, plan::is_kept};
use crate::{
    mcp::{self, Back},
    supervise,
    workspace::{place::move_to, worktrees::dead_git},
};
use parhelia_host::{
    Error, Host, Observer, Refusal, Result, RunRefusal,
    conversation::{RestoredConversation, aside, put_back, seen_at},
    intent::Turn,
    notice::{self, Notice},
    policy::Prefer,
    run::{self, Begin, Current},
};
use parhelia_oversight::{overrides::overridden, scan::left_out_of, who::is_persons_word};

/// The time that processes of a dead run may take to end, before and after they are forced.
const PATIENCE: Duration = Duration::from_secs(3);
/// The field of a run that says what was wanted of the session before, for the process that starts its agent.
const GOAL_BEFORE: &str = "goal_before";
/// The field of a run whose workspace was restored as it began.
const IS_RESTORED: &str = "is_restored";
/// The field of a run with what its agent should know.
const NOTICES: &str = "notices";

/// A resumed run: taken over, everything is back, and its agent is not started yet.
pub struct PendingResume {
    /// The run.
    pub current: Current,
    /// Everything that was known before.
    pub prepared: Preparation,
    /// The place of the conversation.
    pub restored: RestoredConversation,
}

impl Resume {
    /// Begins the new run, and brings workspace and conversation back. `tmux` is the pane in which the caller will start the agent itself.
    pub fn begin(
        mut self,
        store: &Store,
        host: &dyn Host,
        request: &ResumeRequest,
        tmux: Option<Tmux>,
        observer: &dyn Observer,
    ) -> Result<PendingResume> {
        self.note_variables(host);
        let Resume { prepared, turn, went_back } = self;
        let conversation = prepared.conversation.clone();
        let current = take_over(store, host, &prepared, conversation, prepared.seen_epoch, tmux)?;
        if let Some(checkpoint) = prepared.choice.checkpoint.as_ref().map(|checkpoint| checkpoint.record.id) {
            let safeties = [("from-rejected", request.from_rejected), ("take-over", request.take_over)];
            overridden(store, host, (checkpoint, &current.session), &safeties, observer);
        }
        let begun = back(store, host, prepared, current.clone(), (turn, went_back), request, observer);
        supervise::or_ended(store, host, &current, observer, begun)
    }
}

fn back(
    store: &Store,
    host: &dyn Host,
    mut prepared: Preparation,
    current: Current,
    (turn, went_back): (Turn, bool),
    request: &ResumeRequest,
    observer: &dyn Observer,
) -> Result<PendingResume> {
    let is_older = prepared.choice.checkpoint.as_ref().is_some_and(|chosen| prepared.session.head != Some(chosen.record.id));
    let moves = !went_back && (request.from.is_some() || (is_older && !is_kept(store, &prepared.session)));
    if let Some(target) = prepared.choice.checkpoint.as_ref().filter(|_| moves) {
        // What comes next follows the one that was chosen, or that is restored in the place of the newest, as after a rollback.
        let head = NewEvent::new(kind::SESSION_HEAD, &current.session, host.actor()).in_epoch(current.epoch);
        store.append_events(&[head.with("checkpoint", target.id())], &())?;
    }
    // Whoever waited for the turn sees a session that has been taken over.
    drop(turn);
    let restored = everything_back(store, host, &mut prepared, request, observer)?;
    prepared.notices.iter().for_each(|notice| observer.warn(notice));
    note_notices(store, host, &prepared, &current)?;
    Ok(PendingResume { current, prepared, restored })
}

/// Takes a run over that another process has begun, in the pane that it made for that. Everything but the start is done.
pub fn take_on(store: &Store, host: &dyn Host, session: Session, run: &str, request: &ResumeRequest) -> Result<PendingResume> {
    let found = store.view().run(run)?.filter(|run| session.run.as_ref() == Some(&run.id) && run.is_open() && run.pid.is_none());
    let run = found.ok_or_else(|| RunRefusal::DoesNotWait { run: run.to_owned() })?;
    let current = Current::of(&run, Some(&session));
    run::taken_on(store, &current, &run::this_process()?, host.tmux().as_ref(), host.actor())?;
    let from = run.resumed_from.as_ref().and_then(|id| id.parse().ok());
    let choice = choose(store, &session, from, true, Prefer::default())?;
    let noticed = run.extra.get(NOTICES).and_then(|list| serde_json::from_value(list.clone()).ok());
    let noticed: Vec<String> = noticed.unwrap_or_default();
    let argv = run.command();
    let prepared = Preparation {
        agent: run::agent_in(&run),
        argv,
        choice: Choice::of(choice.checkpoint.filter(|_| from.is_some())),
        launched: run::launch_variables(&run).unwrap_or_default(),
        also: host.config(&current.workspace)?.environment.variables,
        may_steer: request.launch_variables,
        other: None,
        workspace: current.workspace.clone(),
        conversation: run.conversation.clone(),
        permission_mode: run::mode_within(run.permission_mode.clone(), run::agent_in(&run).as_ref()),
        config: run::config_of(&run),
        seen_epoch: run.epoch,
        before: run.extra.get(GOAL_BEFORE).and_then(|goal| Goal::deserialize(goal).ok()).unwrap_or(Goal::Running),
        notices: noticed.into_iter().map(|text| Notice::Noticed { text }).collect(),
        pin: None,
        is_restored: run.extra.get(IS_RESTORED).and_then(|value| value.as_bool()).unwrap_or_default(),
        session,
    };
    // It lies where it should by now; this finds it.
    let restored = conversation(store, &prepared, false);
    let restored = supervise::or_ended(store, host, &current, &(), restored)?;
    Ok(PendingResume { current, prepared, restored })
}

/// Records what happened around a resume, for the agent's session-start hook.
pub(super) fn note_notices(store: &Store, host: &dyn Host, prepared: &Preparation, current: &Current) -> Result<()> {
    let notices: Vec<String> = prepared.notices.iter().map(ToString::to_string).collect();
    let noted = NewEvent::new(kind::RUN_CHANGED, &current.run, host.actor()).in_epoch(current.epoch);
    let noted = noted.with(NOTICES, notices).with(GOAL_BEFORE, json!(prepared.before)).with(IS_RESTORED, prepared.is_restored);
    store.append_events(&[noted], &())?;
    Ok(())
}

/// Begins the new run: from here on every earlier one is fenced, and of two who try, one fails.
pub(super) fn take_over(
    store: &Store,
    host: &dyn Host,
    prepared: &Preparation,
    conversation: Option<String>,
    seen_epoch: u64,
    tmux: Option<Tmux>,
) -> Result<Current> {
    // What the last launch had stays known, whether it is set this time or not.
    let mut launched = prepared.launched.clone();
    launched.extend(run::of_caller(store, host, &prepared.workspace)?.unwrap_or_default());
    let begun = run::begin(
        store,
        &Begin {
            launch_variables: Some(launched),
            settings: Some(run::settings_of_caller(host)),
            session: prepared.session.id.clone(),
            workspace: prepared.workspace.clone(),
            argv: prepared.argv.clone(),
            folder: prepared.workspace.clone(),
            conversation,
            permission_mode: prepared.permission_mode.clone(),
            at_terminal: prepared.agent.as_ref().map(|agent| agent.is_at_terminal()),
            config: prepared.config.clone(),
            resumed_by_agent: !is_persons_word(store, host, &prepared.session.id)?,
            resumed_from: prepared.choice.checkpoint.as_ref().map(|c| c.record.id),
            seen_epoch: Some(seen_epoch),
            tmux,
            launcher: Some(run::this_process()?),
            actor: host.actor(),
            ..Begin::default()
        },
    );
    match begun {
        Err(Error::Store(parhelia_store::Error::Fenced { .. })) => {
            Err(Refusal::TakenOver { session: prepared.session.id.clone() }.into())
        }
        other => other,
    }
}

/// Stops what the dead run has left behind, and sees to workspace and conversation.
fn everything_back(
    store: &Store,
    host: &dyn Host,
    prepared: &mut Preparation,
    request: &ResumeRequest,
    observer: &dyn Observer,
) -> Result<RestoredConversation> {
    let stopped = run::stop_leftovers(store, &prepared.session, &prepared.workspace, PATIENCE)?;
    prepared.notices.extend(Notice::of_leftovers(&stopped));
    let checkpoint = prepared.choice.checkpoint.as_ref();
    let workspace = bring_back(store, &prepared.session, checkpoint, &prepared.workspace, observer)?;
    let is_made_anew = matches!(workspace, Workspace::Restored(_) | Workspace::Copied { .. });
    match workspace {
        Workspace::Kept => {}
        Workspace::Copied { from } => prepared.notices.push(Notice::WorkspaceCopied { from }),
        Workspace::Restored(report) => {
            prepared.is_restored = true;
            prepared.notices.push(Notice::WorkspaceRestored { files: report.counts.files });
            prepared.notices.extend(checkpoint.map(|restored| left_out_of(store, restored)).transpose()?.flatten());
            prepared.notices.extend(skipped(&report));
            prepared.notices.extend(dead_git(&prepared.workspace).map(|git| Notice::Git(notice::Git::Gone { git })));
        }
        Workspace::GitRestored { report, aside } => {
            prepared.notices.push(Notice::GitRestored { aside });
            prepared.notices.extend(skipped(&report));
        }
    }
    if is_made_anew || request.recreate_workspace {
        // It is this folder by now, whatever the session's was before.
        move_to(store, &prepared.session, &prepared.workspace, true, &host.actor())?;
    }
    let restored = conversation(store, prepared, request.from.is_some())?;
    if let Some(checkpoint) = restored.from_checkpoint.filter(|_| request.from.is_none() && !is_made_anew) {
        prepared.notices.push(Notice::ConversationRestored { checkpoint });
    }
    if let Some(checkpoint) = &prepared.choice.checkpoint {
        let back = if request.from.is_some() { Back::Chosen } else { Back::Missing };
        prepared.notices.extend(mcp::give_back(store, host, &prepared.workspace, checkpoint, back));
    }
    prepared.notices.extend(restored.not_adopted.clone().map(|why| Notice::NotAdopted { why }));
    if let Some(first) = restored.moved.first() {
        prepared.notices.push(Notice::ConversationKeptAside { files: restored.moved.len(), first: first.clone() });
    }
    if restored.repaired.cut_bytes > 0 {
        let (bytes, aside) = (restored.repaired.cut_bytes, restored.repaired.aside.clone());
        prepared.notices.push(Notice::ConversationRepaired { bytes, aside });
    }
    Ok(restored)
}

fn skipped(report: &RestoreReport) -> Option<Notice> {
    let first = report.skipped.first()?;
    let path = parhelia_store::name::display(&first.path);
    Some(Notice::NotRestored { entries: report.skipped.len() as u64, path, why: first.error.clone() })
}

/// Sees to it that the agent finds its conversation, `exactly` as it is in the checkpoint or as it goes on on disk.
fn conversation(store: &Store, prepared: &Preparation, exactly: bool) -> Result<RestoredConversation> {
    let (Some(id), Some(config)) = (&prepared.conversation, &prepared.config) else { return Ok(RestoredConversation::default()) };
    let config = config.path.as_path();
    let (aside, checkpoint) = (aside(config, &prepared.session.id), prepared.choice.checkpoint.as_ref());
    put_back(store, checkpoint, (id, seen_at(&prepared.session, id).as_deref()), config, &prepared.workspace, &aside, exactly)
}
