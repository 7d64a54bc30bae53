//! `checkpoint verify`: is one checkpoint whole?

use parhelia_session::verification;
use parhelia_wire::{Line, Summary};

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    human,
};

/// Flags of `checkpoint verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint
    #[arg(default_value = "latest", add = complete::checkpoints())]
    checkpoint: String,
    /// Read and hash every file's content, too
    #[arg(long)]
    deep: bool,
}

/// Verifies, and names what is wrong.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let (checkpoint, _pin) = context.pinned(&store, &args.checkpoint, "verify")?;
    let progress = context.progress();
    let report = verification::verify(&store, &checkpoint, args.deep, &progress)?;
    verification::note(&store, &report, &context.actor(), &progress);
    drop(progress);
    for problem in &report.problems {
        context.out.object(Line::Problem(problem.into()))?;
        let place = if problem.path.is_empty() { "(checkpoint)" } else { problem.path.as_str() };
        tell!("parhelia: {place}: {}", problem.error);
    }
    if report.problems_more > 0 {
        tell!("parhelia: and {} more", human::count(report.problems_more, "path"));
    }
    for lack in &report.lacks {
        context.out.object(Line::Lack(lack.into()))?;
        tell!("parhelia: the checkpoint is incomplete: {}: {}", lack.part, lack.error);
    }
    let how = if args.deep { "every byte was read" } else { "content was not read; --deep does" };
    let (id, files, size) = (checkpoint.id(), human::count(report.files, "file"), human::size(report.bytes));
    context.out.remark(match (report.is_ok(), report.is_complete()) {
        (false, _) => format!("Checkpoint {id} is damaged. `parhelia check` says what else is."),
        (_, false) => format!("Checkpoint {id} is incomplete. What it has is undamaged: {files}, {size} ({how})."),
        _ => format!("Checkpoint {id} is whole: {files}, {size} ({how})."),
    })?;
    let unread = checkpoint.record.omitted.as_ref().map_or(0, |omitted| omitted.unreadable);
    if unread > 0 {
        let entries = human::count(unread, "entry");
        context
            .out
            .remark(format!("It lacks {entries} that could not be read when it was made; `parhelia show {id} -v` names them."))?;
    }
    context.out.summary(Summary::CheckpointVerify((&report).into()))?;
    Ok(match (report.is_ok(), report.is_complete()) {
        (false, _) => Code::Corrupt,
        (_, false) => Code::Partly,
        _ => Code::Done,
    })
}
