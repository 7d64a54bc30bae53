//! `session resume`: brings a dead session back to life: workspace, conversation, and the agent.

mod alive;
pub(super) mod all;
mod asked;
mod start;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use parhelia_agent::{
    command::{Agent, Bypass},
    environment::missing,
    folder::ConfigFolder,
};
use parhelia_session::{
    resume::{self, Choice, Restored, Workspace},
    rollback::{self, Turn},
    run::{self, Begin},
};
use parhelia_store::{
    Store, clock,
    event::{NewEvent, kind},
    fold::{Goal, Place, Run, Session, Status, Tmux},
    id::Ulid,
    pin::Pin,
    progress::Progress,
    restore::Report,
    selector::{find, is_relative},
};
use serde::Deserialize;
use serde_json::json;

use self::{alive::if_alive, asked::is_meant, start::start};
use super::{
    agent::{actor, config_of, leftovers, other_folder, others_in, variable},
    supervise::{self, tmux_here},
    terminal::Terminal,
    tmux,
};
use crate::{
    checkpoint::rollback::{How, Rolled, finish_earlier, is_askable, roll_in_turn},
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    human,
    interrupt::{self, Handled},
};

/// Flags of `session resume`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name
    #[arg(required_unless_present = "all", add = complete::sessions())]
    session: Option<String>,
    /// Every session whose agent has died though nobody wanted that, each in a tmux session of its own in the background
    #[arg(long, conflicts_with_all = ["session", "from", "no_tmux", "run"])]
    all: bool,
    /// Go on from this checkpoint instead of the newest one that may be resumed
    #[arg(long, value_name = "CHECKPOINT", add = complete::checkpoints())]
    from: Option<String>,
    /// What to say to the agent first; one that answers a single prompt needs it where no terminal is
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Begin a new conversation, which is told what is known of the old one; it waits for you unless there is a --prompt
    #[arg(long)]
    new_conversation: bool,
    /// Make a checkpoint at least so often, in seconds, where something has changed; 0 for never
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    interval: u64,
    /// Do not ask: run a finished command again; with --from, put a live workspace back to that checkpoint, after a safety checkpoint
    #[arg(short, long)]
    yes: bool,
    /// Also while another machine or container may still have the session
    #[arg(long)]
    take_over: bool,
    /// With --from, also go on from a checkpoint that was rejected
    #[arg(long, requires = "from")]
    from_rejected: bool,
    /// With --from, also in the middle of a merge or rebase, on another branch than the checkpoint's, and where git cannot be asked
    #[arg(long, requires = "from")]
    any_git_state: bool,
    /// Restore the workspace where it was, even if its disk is not mounted, or it was moved
    #[arg(long)]
    recreate_workspace: bool,
    /// In this terminal, even if the session was in tmux
    #[arg(long, conflicts_with = "tmux")]
    no_tmux: bool,
    #[command(flatten)]
    tmux: tmux::Flags,
    /// The run that another process of ours has begun for this one, in a pane that it made
    #[arg(long, hide = true, value_name = "RUN")]
    run: Option<String>,
}

impl Args {
    /// To go on with a session from where it is.
    pub fn of(session: String) -> Self {
        Args {
            session: Some(session),
            all: false,
            from: None,
            prompt: None,
            new_conversation: false,
            interval: 300,
            yes: false,
            take_over: false,
            from_rejected: false,
            any_git_state: false,
            recreate_workspace: false,
            no_tmux: false,
            tmux: tmux::Flags::default(),
            run: None,
        }
    }

    /// To go on from a checkpoint of a session.
    pub fn from_checkpoint(session: String, checkpoint: String, yes: bool) -> Self {
        Args { from: Some(checkpoint), yes, ..Args::of(session) }
    }

    /// Without being asked.
    pub fn agreed(self) -> Self {
        Args { yes: true, ..self }
    }
}

/// The variable that names the checkpoint from which something goes on.
const RESUMED_FROM: &str = "PARHELIA_RESUMED_FROM";
/// A checkpoint that is older than this is said to be.
const OLD_SECONDS: i64 = 300;
/// How long processes of a dead run may take to end, before and after they are forced.
const PATIENCE: Duration = Duration::from_secs(3);

/// Everything that is known before the agent starts.
pub(super) struct Prepared {
    pub session: Session,
    pub agent: Option<Agent>,
    argv: Vec<OsString>,
    pub choice: Choice,
    pub workspace: PathBuf,
    conversation: Option<String>,
    permission_mode: Option<String>,
    /// The agent's own folder.
    pub config: Option<ConfigFolder>,
    seen_epoch: u64,
    /// What was wanted of the session before.
    before: Goal,
    notices: Vec<String>,
    /// Keeps the checkpoint there until everything is back.
    pin: Option<Pin>,
}

impl Prepared {
    /// Variables that everything gets which is started again: what the checkpoint has and this process has not, and where it comes from.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        let Some(checkpoint) = &self.choice.checkpoint else { return Vec::new() };
        let mut found = missing(checkpoint.record.environment.as_ref(), &|name| variable(name).is_some());
        found.push((RESUMED_FROM.into(), checkpoint.id().into()));
        found
    }
}

/// Resumes.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let Some(name) = args.session.as_ref().filter(|_| !args.all) else { return all::run(context, args) };
    let store = context.open()?;
    let session = store.view().session_named(name)?;
    if let Some(run) = &args.run {
        return go_on(context, &store, args, session, run);
    }
    if session.status == Status::Ended {
        return Err(Failure::Refused(format!(
            "session {} has ended, which is for good; `parhelia session run` begins another",
            session.id
        )));
    }
    // Until the agent is there, to which they go from then on.
    let signals = interrupt::install(&context.cancel())?;
    let last = session.run.as_deref().map(|id| store.view().run(id)).transpose()?.flatten();
    if let Some(run) = &last
        && let Some(code) = if_alive(context, &store, args, &session, run)?
    {
        return Ok(code);
    }
    if !is_meant(context, args, &session, last.as_ref())? {
        return Ok(Code::Done);
    }
    let turn = rollback::held(&store, &session.id, &context.progress())?;
    let seen_epoch = session.epoch;
    if !args.recreate_workspace {
        resume::ensure_place(&store, &session)?;
    }
    finish_earlier(context, &store, &session.id)?;
    // That may have taken it to another conversation; and whoever had the turn before may have brought it back to life.
    let session = store.refresh()?.session(&session.id)?.unwrap_or(session);
    if session.epoch != seen_epoch {
        return Err(taken_over(&session.id));
    }
    let mut prepared = prepare(&store, args, session, last.as_ref())?;
    if let Some(chosen) = &prepared.choice.checkpoint {
        prepared.pin = context.pinned(&store, &chosen.id(), "resume")?.1;
    }
    let place = tmux::place(&store, &args.tmux, args.no_tmux, &prepared, last.as_ref())?;
    let went_back = match put_back(context, &store, &turn, &mut prepared, args)? {
        Rolled::Done { .. } => true,
        Rolled::Refused => return Ok(Code::Done),
        Rolled::Shown { .. } => false,
    };
    if place.is_none() {
        Terminal::make_sane();
    }
    let here = tmux_here().filter(|_| place.is_none());
    let current = take_over(&store, &prepared, prepared.conversation.clone(), prepared.seen_epoch, here)?;
    let done = launch(context, &store, prepared, &current, (turn, went_back, signals), place, args);
    supervise::or_ended(&store, &current, done)
}

/// Brings back what is missing, and starts the agent of a session that was taken over.
fn launch(
    context: &mut Context,
    store: &Store,
    mut prepared: Prepared,
    current: &run::Current,
    (turn, went_back, signals): (Turn, bool, Handled),
    place: Option<tmux::Place>,
    args: &Args,
) -> Result<Code> {
    if let Some(target) = prepared.choice.checkpoint.as_ref().filter(|_| args.from.is_some() && !went_back) {
        // What comes next follows the one that was chosen, as after a rollback.
        let head = NewEvent::new(kind::SESSION_HEAD, &current.session, actor()).in_epoch(current.epoch);
        store.append_events(&[head.with("checkpoint", target.id())], &())?;
    }
    // Whoever waited for the turn sees a session that has been taken over.
    drop(turn);
    let restored = bring_back(context, store, &mut prepared, args)?;
    for notice in &prepared.notices {
        tell!("parhelia: {notice}");
    }
    note_notices(store, &prepared, current)?;
    // Standard output is the agent's.
    if !context.global.quiet && !context.out.json {
        let from = prepared.choice.checkpoint.as_ref().map(|checkpoint| {
            format!(" from checkpoint {} ({})", checkpoint.id(), human::ago(checkpoint.record.created_at, clock::timestamp()))
        });
        let (session, run, epoch) = (&current.session, &current.run, current.epoch);
        tell!("Session {session} goes on{} (run {run}, epoch {epoch}).", from.unwrap_or_default());
    }
    context.out.object(
        "session",
        json!({
            "session": current.session,
            "run": current.run,
            "epoch": current.epoch,
            "from": prepared.choice.checkpoint.as_ref().map(|c| c.id()),
            "conversation": prepared.conversation,
            "transcript": restored.transcript.as_ref().map(|path| path.display().to_string()),
            "notices": prepared.notices,
        }),
    )?;
    context.out.flush()?;
    drop(signals);
    let Some(place) = place else {
        // The agent may live for days, and its checkpoint is not needed for that.
        drop(prepared.pin.take());
        return start(context, store, &mut prepared, current, args);
    };
    tmux::resume(context, store, &args.tmux, &place, &prepared, &in_pane(args, current))
}

/// What is left to do, as arguments for the process in a pane.
fn in_pane(args: &Args, current: &run::Current) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["--run".into(), current.run.clone().into()];
    words.extend(["--interval".into(), args.interval.to_string().into()]);
    words.extend(args.new_conversation.then(|| "--new-conversation".into()));
    words.extend(args.prompt.as_ref().map(|prompt| format!("--prompt={prompt}").into()));
    words.extend(["--".into(), current.session.clone().into()]);
    words
}

/// Starts the agent of a run that another process has begun, in the pane that it made for that. Everything else is done.
fn go_on(context: &Context, store: &Store, args: &Args, session: Session, run: &str) -> Result<Code> {
    let found = store.view().run(run)?.filter(|run| session.run.as_ref() == Some(&run.id) && run.is_open() && run.pid.is_none());
    let Some(run) = found else { return Err(Failure::Refused(format!("run {run} does not wait for its agent"))) };
    let current = run::Current::of(&run, Some(&session));
    if let Some(launcher) = supervise::this_process()? {
        run::taken_on(store, &current, &launcher, tmux_here().as_ref(), actor())?;
    }
    let from = run.resumed_from.as_ref().and_then(|id| id.parse().ok());
    let choice = resume::choose(store, &session, from, true)?;
    let argv: Vec<OsString> = run.command();
    let notices = run.extra.get("notices").and_then(|list| serde_json::from_value(list.clone()).ok());
    let mut prepared = Prepared {
        agent: Agent::of(&argv),
        argv,
        choice: Choice { checkpoint: choice.checkpoint.filter(|_| from.is_some()), skipped: Vec::new() },
        workspace: current.workspace.clone(),
        conversation: run.conversation.clone(),
        permission_mode: run.permission_mode.clone(),
        config: run::config_of(&run),
        seen_epoch: run.epoch,
        before: run.extra.get(GOAL_BEFORE).and_then(|goal| Goal::deserialize(goal).ok()).unwrap_or(Goal::Running),
        notices: notices.unwrap_or_default(),
        pin: None,
        session,
    };
    // It lies where it should by now; this finds it.
    let done = conversation(store, &prepared, false).and_then(|_| start(context, store, &mut prepared, &current, args));
    supervise::or_ended(store, &current, done)
}

/// With `--from`, a workspace that is there becomes what it is in that checkpoint, as by a rollback, where the user wants that. Otherwise there
/// is nothing to be put back.
fn put_back(context: &mut Context, store: &Store, turn: &Turn, prepared: &mut Prepared, args: &Args) -> Result<Rolled> {
    let Some(target) = prepared.choice.checkpoint.clone().filter(|_| args.from.is_some()) else {
        return Ok(Rolled::Shown { spares: false });
    };
    let is_there = std::fs::read_dir(&prepared.workspace).is_ok_and(|mut entries| entries.next().is_some());
    if !is_there {
        return Ok(Rolled::Shown { spares: false });
    }
    let how = How {
        yes: args.yes,
        any_git_state: args.any_git_state,
        take_over: args.take_over,
        recreate_workspace: args.recreate_workspace,
        resumes: true,
        ..How::default()
    };
    if !how.yes {
        is_askable("roll back", &format!("checkpoint rollback {} --dry-run", target.id()))?;
    }
    let rolled = roll_in_turn(context, store, Some(turn), &target, None, &how)?;
    if matches!(rolled, Rolled::Done { .. }) {
        prepared
            .notices
            .push(format!("the workspace was put back to checkpoint {}; later changes are gone from it", target.id()));
    } else {
        context.out.remark("Nothing was changed.")?;
    }
    Ok(rolled)
}

/// The field of a run that says what was wanted of the session before, for the process that starts its agent.
const GOAL_BEFORE: &str = "goal_before";

/// Records what happened around a resume, for the agent's session-start hook.
fn note_notices(store: &Store, prepared: &Prepared, current: &run::Current) -> Result<()> {
    let noted = NewEvent::new(kind::RUN_CHANGED, &current.run, actor()).in_epoch(current.epoch);
    let noted = noted.with("notices", prepared.notices.clone()).with(GOAL_BEFORE, json!(prepared.before));
    store.append_events(&[noted], &())?;
    Ok(())
}

fn taken_over(session: &str) -> Failure {
    Failure::Refused(format!("somebody else has just resumed session {session}; `parhelia session show {session}` says who"))
}

/// Finds out what there is to go on with. Changes nothing.
fn prepare(store: &Store, args: &Args, session: Session, last: Option<&Run>) -> Result<Prepared> {
    let from = args.from.as_ref().map(|text| chosen(store, &session, text)).transpose()?;
    let choice = resume::choose(store, &session, from, args.from_rejected)?;
    let mut notices: Vec<String> =
        choice.skipped.iter().map(|(id, why)| format!("checkpoint {id} is newer, and was passed over: it {why}")).collect();
    notices.extend(old(&choice, args.from.is_some()));
    if choice.checkpoint.is_none() {
        notices.push("the session has no checkpoint to go on from; the workspace is taken as it is".into());
    }
    let place = session.workspace.as_ref().map(Place::folder);
    let workspace = place.ok_or_else(|| Failure::Refused(format!("session {} has no workspace", session.id)))?;
    let argv: Vec<OsString> = last.map(Run::command).unwrap_or_default();
    if argv.is_empty() {
        return Err(Failure::Refused(format!(
            "it is not known how session {} was started; start it with `parhelia session run`",
            session.id
        )));
    }
    let agent = Agent::of(&argv);
    let conversation = goes_on_with(&session, &choice, args.from.is_some());
    let (seen_epoch, before) = (session.epoch, session.goal());
    let permission_mode = last.and_then(|run| run.permission_mode.clone());
    let mode_bypasses = || permission_mode.as_deref().filter(|mode| *mode == "bypassPermissions").map(|_| Bypass::On);
    if let Some(bypass) = agent.as_ref().and_then(|agent| agent.bypass().or_else(mode_bypasses)) {
        let what =
            if bypass == Bypass::On { "without permission checks" } else { "with the choice to turn permission checks off" };
        notices.push(format!("the agent is started {what}, as it was"));
    }
    let config = config_of(store, &session)?;
    if agent.is_some() {
        notices.extend(others(store, &session, &choice, args.from.is_some(), args.take_over)?);
    }
    notices.extend(config.as_ref().filter(|_| agent.is_some()).and_then(other_folder));
    let mut prepared = Prepared {
        session,
        agent,
        argv,
        choice,
        workspace,
        conversation,
        permission_mode,
        config,
        seen_epoch,
        before,
        notices,
        pin: None,
    };
    let variables: Vec<String> =
        prepared.environment().into_iter().map(|(name, _)| name).filter(|name| name != RESUMED_FROM).collect();
    if !variables.is_empty() {
        prepared.notices.push(format!("set as they were, because they are not set here: {}", variables.join(", ")));
    }
    Ok(prepared)
}

/// The conversation that a session goes on with: that of a checkpoint that was chosen, else its newest.
fn goes_on_with(session: &Session, choice: &Choice, is_chosen: bool) -> Option<String> {
    let of_checkpoint = choice.checkpoint.as_ref().and_then(resume::held);
    let newest = session.conversations.last().map(|conversation| conversation.id.clone());
    if is_chosen { of_checkpoint.or(newest) } else { newest.or(of_checkpoint) }
}

/// Fails where somebody else has the conversation open that a session would go on with, and where somebody may have it out of sight, unless
/// that is over by `take_over`. Other sessions that were in it are said.
pub(super) fn others(store: &Store, session: &Session, choice: &Choice, is_chosen: bool, take_over: bool) -> Result<Vec<String>> {
    let Some(id) = goes_on_with(session, choice, is_chosen) else { return Ok(Vec::new()) };
    let config = config_of(store, session)?.map(|config| config.path).unwrap_or_default();
    let mut said = others_in(store, session, &config, &id)?;
    match (run::unseen_in(store, session, &config, &id)?, take_over) {
        (Some(text), true) => said.push(text),
        (Some(text), false) => {
            return Err(Failure::Refused(format!("{text}; end that first, or give --take-over if it is over")));
        }
        (None, _) => {}
    }
    Ok(said)
}

/// The checkpoint that somebody means who speaks of this session.
pub(super) fn chosen(store: &Store, session: &Session, text: &str) -> Result<Ulid> {
    Ok(find(&store.view(), &meant(session, text))?.record.id)
}

/// The same as a selector that means it anywhere: the latest of this session, not of another folder or of the store.
pub(super) fn meant(session: &Session, text: &str) -> String {
    if is_relative(text) { format!("{}@{text}", session.id) } else { text.to_owned() }
}

/// Says how much may be missing, where the checkpoint is not of just now; of one that was chosen, that it is of another folder.
pub(super) fn old(choice: &Choice, is_chosen: bool) -> Option<String> {
    let checkpoint = choice.checkpoint.as_ref()?;
    if is_chosen {
        let text =
            || format!("checkpoint {} was made of another folder, which was in the place of the session's", checkpoint.id());
        return checkpoint.record.is_of_another_folder().then(text);
    }
    let (made, now) = (checkpoint.record.created_at, clock::timestamp());
    let is_old = now.duration_since(made).as_secs() >= OLD_SECONDS;
    is_old.then(|| format!("checkpoint {} was made {}", checkpoint.id(), human::ago(made, now)))
}

/// Begins the new run: from here on every earlier one is fenced, and of two who try, one fails.
fn take_over(
    store: &Store,
    prepared: &Prepared,
    conversation: Option<String>,
    seen_epoch: u64,
    tmux: Option<Tmux>,
) -> Result<run::Current> {
    let begun = run::begin(
        store,
        &Begin {
            session: prepared.session.id.clone(),
            workspace: prepared.workspace.clone(),
            argv: prepared.argv.clone(),
            folder: prepared.workspace.clone(),
            conversation,
            permission_mode: prepared.permission_mode.clone(),
            config: prepared.config.clone(),
            resumed_from: prepared.choice.checkpoint.as_ref().map(|c| c.record.id),
            seen_epoch: Some(seen_epoch),
            tmux,
            launcher: supervise::this_process()?,
            actor: actor(),
            ..Begin::default()
        },
    );
    let session = &prepared.session.id;
    match begun {
        Err(parhelia_session::Error::Store(parhelia_store::Error::Fenced { .. })) => Err(taken_over(session)),
        other => Ok(other?),
    }
}

/// Stops what the dead run has left behind, and sees to workspace and conversation.
fn bring_back(context: &Context, store: &Store, prepared: &mut Prepared, args: &Args) -> Result<Restored> {
    let stopped = run::stop_leftovers(store, &prepared.session, &prepared.workspace, PATIENCE)?;
    prepared.notices.extend(leftovers(&stopped));
    let progress = context.progress();
    let checkpoint = prepared.choice.checkpoint.as_ref();
    let workspace = resume::bring_back(store, checkpoint, &prepared.workspace, &progress as &dyn Progress)?;
    let is_made_anew = matches!(workspace, Workspace::Restored(_));
    match workspace {
        Workspace::Kept => {}
        Workspace::Restored(report) => {
            prepared.notices.push(format!("the workspace was gone, and was restored: {} files", report.counts.files));
            prepared.notices.extend(skipped(&report));
        }
        Workspace::GitRestored { report, aside } => {
            let kept = aside.map(|path| format!("; what was left of it is in {}", path.display())).unwrap_or_default();
            prepared.notices.push(format!("the workspace had no usable .git any more; it was restored{kept}"));
            prepared.notices.extend(skipped(&report));
        }
    }
    drop(progress);
    if is_made_anew || args.recreate_workspace {
        // It is this folder by now, whatever the session's was before.
        resume::move_to(store, &prepared.session, &prepared.workspace, true, &actor())?;
    }
    let restored = conversation(store, prepared, args.from.is_some())?;
    if let Some(first) = restored.moved.first() {
        let count = human::count(restored.moved.len() as u64, "file");
        prepared.notices.push(format!("kept aside of the conversation: {count}, such as {}", first.display()));
    }
    if restored.repaired.cut_bytes > 0 {
        let kept = restored.repaired.aside.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        prepared
            .notices
            .push(format!("the conversation's last record was torn; {} bytes were moved to {kept}", restored.repaired.cut_bytes));
    }
    Ok(restored)
}

/// What could not be restored, as a notice.
fn skipped(report: &Report) -> Option<String> {
    let first = report.skipped.first()?;
    let path = human::path(&first.path);
    Some(format!("{} could not be restored, such as {path}: {}", human::count(report.skipped.len() as u64, "entry"), first.error))
}

/// Sees to it that the agent finds its conversation, `exactly` as it is in the checkpoint or as it goes on on disk.
fn conversation(store: &Store, prepared: &Prepared, exactly: bool) -> Result<Restored> {
    let (Some(id), Some(config)) = (&prepared.conversation, &prepared.config) else { return Ok(Restored::default()) };
    let config = config.path.as_path();
    let (aside, checkpoint) = (resume::aside(config, &prepared.session.id), prepared.choice.checkpoint.as_ref());
    Ok(resume::put_back(store, checkpoint, id, config, &prepared.workspace, &aside, exactly)?)
}
