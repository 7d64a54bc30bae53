//! `checkpoint rollback` and `checkpoint undo`: a session's files and conversation as they were at a checkpoint, and back again.

mod report;

use std::io::IsTerminal;

use parhelia_session::{
    Refusal,
    rollback::{self, Options, Rollback, Turn},
};
use parhelia_store::{Store, clock, record::Checkpoint};
use parhelia_wire::{Line, Summary, summary::RolledBack};

use crate::{
    ask, complete,
    context::Context,
    exit::{Code, Failure, Result},
    human, words,
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

/// A checkpoint with what tells it from others: age, session, message.
fn described(checkpoint: &Checkpoint) -> String {
    let record = &checkpoint.record;
    let (age, session) = (human::ago(record.created_at, clock::timestamp()), human::path(record.session.as_bytes()));
    let message = record.message.as_deref().and_then(|message| message.lines().next());
    let message = message.map(|line| format!(": {}", human::path(line.as_bytes()))).unwrap_or_default();
    format!("{} ({age}, session {session}{message})", checkpoint.id())
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
        report::preview(context, &preview)?;
        if how.dry_run {
            report::dry_run(context, target, rollback.look(), &preview, how)?;
            return Ok(Fate::Shown { spares: !preview.spared.is_empty() });
        }
        context.out.flush()?;
        let shown = rollback.look().shown();
        if !ask::is_agreed(context, &format!("Put {shown} back to {}? A safety checkpoint is made first.", described(target)))? {
            return Ok(Fate::Refused);
        }
    }
    let (store, host) = (rollback.store(), context.host()?);
    let rolled = rollback.execute(&context.progress())?;
    report::print(context, store, &host, &rolled, how)?;
    let spares = !rolled.is_whole();
    rolled.spared?;
    Ok(Fate::Done { spares })
}
