//! `checkpoint rollback` and `checkpoint undo`: a session's files and conversation as they were at a checkpoint, and back again.

use std::io::IsTerminal;

use parhelia_session::{
    Refusal,
    host::Host,
    rollback::{self, Look, Options, Preview, Rollback, Rolled, Stash, Turn},
    run::{has_agent, stranger_in_newest},
};
use parhelia_store::{Store, projection::Status, record::Checkpoint, restore::RestoreChange};
use parhelia_wire::{self as wire, Line, Summary, summary::RolledBack, tree::Action};

use crate::{
    ask, complete,
    context::Context,
    exit::{Code, Failure, Result},
    human,
    output::Style,
    words,
};

/// Flags of both.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct How {
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Only say what would be done
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Also fill a workspace that is empty because its disk is not mounted, or because it was moved
    #[arg(long)]
    pub recreate_workspace: bool,
    /// Leave the conversation where it is
    #[arg(long)]
    pub files_only: bool,
    /// End a live agent first
    #[arg(long, conflicts_with = "files_only")]
    pub stop: bool,
    /// Also in the middle of a merge or rebase, on another branch than the checkpoint's, and where git cannot be asked
    #[arg(long)]
    pub any_git_state: bool,
    /// Also while another machine or container may still have the session
    #[arg(long)]
    pub take_over: bool,
    /// The session is resumed from there at once.
    #[arg(skip)]
    pub resumes: bool,
    /// A rollback is undone.
    #[arg(skip)]
    pub undoes: bool,
}

/// Flags of `checkpoint rollback`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint to go back to
    #[arg(add = complete::checkpoints())]
    checkpoint: String,
    #[command(flatten)]
    how: How,
}

/// Flags of `checkpoint undo`.
#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    /// The session whose last rollback is undone, by id or name [default: the one of this folder that was rolled back last]
    #[arg(add = complete::sessions())]
    session: Option<String>,
    #[command(flatten)]
    how: How,
}

/// So many paths are named without -v.
const NAMED_MAX: usize = 20;

impl How {
    /// The outcome as a line: the last one, unless the agent goes on.
    fn line(&self, outcome: RolledBack) -> Line {
        let outcome = Box::new(outcome);
        match (self.resumes, self.undoes) {
            (true, _) => Line::Rollback(outcome),
            (_, true) => Summary::CheckpointUndo(outcome).into(),
            _ => Summary::CheckpointRollback(outcome).into(),
        }
    }

    fn options(&self) -> Options {
        Options {
            files_only: self.files_only,
            stop: self.stop,
            any_git_state: self.any_git_state,
            take_over: self.take_over,
            recreate_workspace: self.recreate_workspace,
            dry_run: self.dry_run,
        }
    }
}

/// Rolls back.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let (target, _pin) = context.pin(&store, &context.find_to_overwrite(&store, &args.checkpoint, None)?, "rollback")?;
    rollback::ensure_folder(&store, &target)?;
    let shows = format!("checkpoint rollback {} --dry-run", target.id());
    let _turn = begin(context, &store, &target.record.session, &args.how, ("roll back", &shows))?;
    let host = context.host()?;
    let rollback = Rollback::plan(&store, &host, &target, None, args.how.options())?;
    let rolled = roll(context, rollback, &target, &args.how)?;
    said(context, &target, rolled, &args.how)
}

/// Undoes the last rollback.
pub fn undo(context: &mut Context, args: &UndoArgs) -> Result<Code> {
    let store = context.open()?;
    let host = context.host()?;
    let session = match &args.session {
        Some(name) => store.view().session_named(name)?,
        None => rollback::session_to_undo(&store, &host)?,
    };
    if rollback::last(&session).is_none() && rollback::open(&session).is_none() {
        return Err(Refusal::NotRolledBack { session: session.id }.into());
    }
    let id = session.id;
    // One that was interrupted is finished first, and is then the one that is undone.
    let _turn = begin(context, &store, &id, &args.how, ("undo", &format!("checkpoint undo {id} --dry-run")))?;
    let (last, target) = rollback::to_undo(&store, &id, args.how.dry_run)?;
    let (target, _pin) = context.pin(&store, &target, "undo")?;
    let how = How { files_only: args.how.files_only || !last.with_conversation, undoes: true, ..args.how.clone() };
    let rollback = Rollback::plan(&store, &host, &target, Some(last), how.options())?;
    let rolled = roll(context, rollback, &target, &how)?;
    said(context, &target, rolled, &how)
}

/// Fails where there is nobody to be asked.
pub fn is_askable(verb: &str, command: &str) -> Result<()> {
    match std::io::stdin().is_terminal() {
        true => Ok(()),
        false => {
            Err(Failure::Usage(format!("give --yes to {verb} without being asked; `parhelia {command}` shows what would happen")))
        }
    }
}

/// Waits for the session's turn. An earlier rollback that was interrupted is finished, unless this is only about showing something.
fn begin(context: &Context, store: &Store, session: &str, how: &How, (verb, command): (&str, &str)) -> Result<Option<Turn>> {
    if !how.yes && !how.dry_run {
        is_askable(verb, command)?;
    }
    Ok(rollback::begin(store, &context.host()?, session, how.dry_run, &context.progress())?)
}

/// The fate of a rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was done.
    Done {
        /// True if something was left as it is that could not be read.
        spares: bool,
    },
    /// It was only shown.
    Shown {
        /// True if something would be left as it is that cannot be read.
        spares: bool,
    },
    /// The user did not want it.
    Refused,
}

/// Prints that nothing was done, where that is so.
fn said(context: &mut Context, target: &Checkpoint, fate: Fate, how: &How) -> Result<Code> {
    if fate == Fate::Refused {
        context.out.remark("Nothing was changed.")?;
        context.out.object(how.line(RolledBack { target: target.id(), ..RolledBack::default() }))?;
    }
    Ok(match fate {
        Fate::Done { spares: true } | Fate::Shown { spares: true } => Code::Partly,
        _ => Code::Done,
    })
}

/// Shows, asks, and does it.
pub fn roll(context: &mut Context, mut rollback: Rollback<'_>, target: &Checkpoint, how: &How) -> Result<Fate> {
    if how.dry_run || !how.yes || rollback.look().stops.is_some() {
        rollback.ensure_whole(&context.progress())?;
    }
    for notice in &rollback.look().notices {
        tell!("parhelia: {}", words::notice(notice));
    }
    if how.dry_run || !how.yes {
        let preview = rollback.preview(&context.progress())?;
        print_all(context, &preview)?;
        if how.dry_run {
            dry_run(context, target, rollback.look(), &preview, how)?;
            return Ok(Fate::Shown { spares: !preview.spared.is_empty() });
        }
        context.out.flush()?;
        let shown = rollback.look().shown();
        if !ask::is_agreed(context, &format!("Put {shown} back to {}? A safety checkpoint is made first.", target.id()))? {
            return Ok(Fate::Refused);
        }
    }
    let (store, host) = (rollback.store(), context.host()?);
    let rolled = rollback.execute(&context.progress())?;
    report(context, store, &host, &rolled, how)?;
    let spares = !rolled.is_whole();
    rolled.spared?;
    Ok(Fate::Done { spares })
}

fn mark(change: RestoreChange) -> (char, &'static str, Style) {
    match change {
        RestoreChange::Create => ('A', "made again", Style::Green),
        RestoreChange::Replace => ('M', "restored", Style::Yellow),
        RestoreChange::Metadata => ('m', "metadata restored", Style::Dim),
        RestoreChange::Link => ('L', "joined again", Style::Cyan),
        RestoreChange::Delete => ('D', "removed; the safety checkpoint has it", Style::Red),
        RestoreChange::Keep => ('K', "kept", Style::Dim),
    }
}

fn print_changes(context: &mut Context, changes: &[(RestoreChange, Vec<u8>)]) -> Result<()> {
    let most = if context.global.verbose { usize::MAX } else { NAMED_MAX };
    for (change, path) in changes {
        context.out.object(Line::Action(Action::of(path, *change)))?;
    }
    for (change, path) in changes.iter().take(most) {
        let (letter, what, style) = mark(*change);
        let path = if path.is_empty() { ".".to_owned() } else { human::path(path) };
        let letter = context.out.styled(style, letter);
        context.out.line(format!("  {letter} {path} ({what})"))?;
    }
    if changes.len() > most {
        context.out.line(format!("  and {} more; -v names them", changes.len() - most))?;
    }
    Ok(())
}

/// Prints what becomes of files and conversation.
fn print_all(context: &mut Context, preview: &Preview) -> Result<()> {
    print_changes(context, &preview.changes)?;
    tell_spared(&preview.spared, "would be left as it is");
    if preview.changes.is_empty() && preview.spared.is_empty() {
        context.out.line("  the files are as they are in the checkpoint")?;
    }
    match &preview.spoken {
        Some(spoken) => context.out.line(format!("  the conversation {}", spoken.text())),
        None => Ok(()),
    }
}

/// Names files that stay as they are.
fn tell_spared(spared: &[Vec<u8>], stays: &str) {
    for path in spared {
        tell!("parhelia: {}: {stays}, since it cannot be read for the safety checkpoint", human::path(path));
    }
}

fn dry_run(context: &mut Context, target: &Checkpoint, look: &Look, preview: &Preview, how: &How) -> Result<()> {
    let what = if look.conversation.is_some() { "files and conversation" } else { "files" };
    context.out.remark(format!("Would put {what} of {} back to {}.", look.shown(), target.id()))?;
    context.out.object(how.line(RolledBack {
        target: target.id(),
        dry_run: true,
        session: Some(look.session.id.clone()),
        changes: preview.changes.len() as u64,
        with_conversation: look.conversation.is_some(),
        conversation: preview.spoken.as_ref().map(Into::into),
        notices: look.notices.iter().map(words::notice).collect(),
        spared: shown(&preview.spared),
        ..RolledBack::default()
    }))
}

fn shown(paths: &[Vec<u8>]) -> Vec<String> {
    paths.iter().map(|path| human::path(path)).collect()
}

fn report(context: &mut Context, store: &Store, host: &dyn Host, rolled: &Rolled, how: &How) -> Result<()> {
    let Rolled { session, workspace, done, spared } = rolled;
    let spared = spared.as_deref().unwrap_or_default();
    context
        .out
        .did(format!("{} is rolled back to checkpoint {}; safety checkpoint {} is made", workspace, done.target, done.safety));
    context.out.remark(format!("Rolled back {workspace} to checkpoint {}.", done.target))?;
    print_changes(context, &done.changes)?;
    tell_spared(spared, "left as it is");
    context
        .out
        .remark(format!("Safety checkpoint: {} (`parhelia checkpoint undo {}` goes back to it).", done.safety, session.id))?;
    match &done.stash {
        Stash::Made(commit) => context.out.remark(format!(
            "Stashed changes of tracked files: stash@{{0}} ({}). Untracked files are in the safety checkpoint alone.",
            &commit[..commit.len().min(12)]
        ))?,
        Stash::Nothing => {}
        Stash::Not(reason) => tell!("parhelia: no stash entry was made ({reason}); the safety checkpoint has everything"),
    }
    if done.with_conversation {
        context.out.remark("The conversation is at the checkpoint's position.")?;
    }
    for path in done.moved.iter().take(NAMED_MAX) {
        context.out.remark(format!("Kept aside of the conversation: {}", path.display()))?;
    }
    if done.moved.len() > NAMED_MAX {
        context.out.remark(format!("Kept aside of the conversation: {} more", done.moved.len() - NAMED_MAX))?;
    }
    let can_go_on = !how.resumes && session.status != Status::Ended && has_agent(session);
    let next = can_go_on.then(|| format!("parhelia session resume {}", session.id));
    // An agent that was started by hand may live beside files that went back alone.
    let stranger = next.as_ref().map(|_| stranger_in_newest(store, host, session)).transpose()?.flatten();
    match (&next, &stranger) {
        (Some(next), None) => context.out.remark(format!("To go on from here: {next}"))?,
        (Some(next), Some(open)) => {
            context.out.remark(format!("To go on from here: end what has it open, then {next} ({open})"))?
        }
        (None, _) => {}
    }
    context.out.object(how.line(RolledBack {
        target: done.target.to_string(),
        changed: true,
        session: Some(session.id.clone()),
        safety: Some(done.safety.to_string()),
        stash: wire::summary::Stash::of(&done.stash),
        changes: done.changes.len() as u64,
        files: Some(done.report.counts.files),
        deleted: Some(done.report.counts.deleted),
        with_conversation: done.with_conversation,
        moved: done.moved.iter().map(|path| path.display().to_string()).collect(),
        spared: shown(spared),
        next,
        open_in: stranger.map(|open| open.to_string()),
        ..RolledBack::default()
    }))
}
