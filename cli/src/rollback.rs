//! The flags, the questions and the outcome of a rollback, whichever verb asks for it.

pub mod report;

use std::{io::IsTerminal, os::unix::ffi::OsStrExt, path::PathBuf};

use parhelia_life::rollback::{Options, Rollback};
use parhelia_screen::human;
use parhelia_store::{clock, record::Checkpoint};
use parhelia_wire::{Line, Summary, summary::RolledBack};

use crate::{
    ask,
    context::Context,
    exit::{Failure, Result},
    words,
};

/// Flags of a rollback and of its undoing.
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
    /// Leave this path as it is; from the current folder if that is in the workspace, else from the workspace; may be repeated
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub leave: Vec<PathBuf>,
    /// Leave as it is what cannot be put back: files of another user, read-only mounts, files that are mounts (what cannot be read stays anyway)
    #[arg(long)]
    pub leave_unwritable: bool,
    /// The session is resumed from there at once.
    #[arg(skip)]
    pub resumes: bool,
    /// A rollback is undone.
    #[arg(skip)]
    pub undoes: bool,
}

impl How {
    /// The outcome as a line: the last one, unless the agent goes on.
    pub fn line(&self, outcome: RolledBack) -> Line {
        let outcome = Box::new(outcome);
        match (self.resumes, self.undoes) {
            (true, _) => Line::Rollback(outcome),
            (_, true) => Summary::CheckpointUndo(outcome).into(),
            _ => Summary::CheckpointRollback(outcome).into(),
        }
    }

    /// The flags that change what a dry run shows, as they are typed.
    pub fn typed(&self) -> String {
        let flags = [
            (self.recreate_workspace, "--recreate-workspace"),
            (self.files_only, "--files-only"),
            (self.stop, "--stop"),
            (self.any_git_state, "--any-git-state"),
            (self.take_over, "--take-over"),
            (self.leave_unwritable, "--leave-unwritable"),
        ];
        let flags = flags.iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| format!(" {flag}"));
        let leave = self.leave.iter().map(|path| format!(" --leave {}", human::shell(path.as_os_str().as_bytes())));
        flags.chain(leave).collect()
    }

    pub fn options(&self) -> Options {
        Options {
            files_only: self.files_only,
            stop: self.stop,
            any_git_state: self.any_git_state,
            take_over: self.take_over,
            recreate_workspace: self.recreate_workspace,
            leave: self.leave.clone(),
            leave_unwritable: self.leave_unwritable,
            dry_run: self.dry_run,
        }
    }
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

/// The fate of a rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The rollback was carried out.
    Done {
        /// True if something was left as it is that could not be read or put back.
        spares: bool,
    },
    /// It was only shown.
    Shown {
        /// True if something would be left as it is that cannot be read or put back.
        spares: bool,
    },
    /// The user did not want it.
    Refused,
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
        context.out.flush()?;
        if let Some(refusal) = preview.refused {
            return Err(refusal.into());
        }
        if how.dry_run {
            report::dry_run(context, target, rollback.look(), &preview, how)?;
            return Ok(Fate::Shown { spares: !preview.is_whole() });
        }
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

/// A checkpoint with what tells it from others: age, session, message.
fn described(checkpoint: &Checkpoint) -> String {
    let record = &checkpoint.record;
    let (age, session) = (human::ago(record.created_at, clock::timestamp()), human::path(record.session.as_bytes()));
    let message = record.message.as_deref().and_then(|message| message.lines().next());
    let message = message.map(|line| format!(": {}", human::path(line.as_bytes()))).unwrap_or_default();
    format!("{} ({age}, session {session}{message})", checkpoint.id())
}
