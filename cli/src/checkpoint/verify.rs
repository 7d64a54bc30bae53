//! `checkpoint verify`: is one checkpoint whole?

use parhelia_ledger::VerifyLevel;
use parhelia_life::verification;
use parhelia_screen::human;
use parhelia_store::check::VerifyReport;
use parhelia_wire::{Line, Summary};

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
};

/// Flags of `checkpoint verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint
    #[arg(default_value = "latest", add = complete::checkpoints())]
    checkpoint: String,
    /// Read and hash every file's content
    #[arg(long)]
    deep: bool,
    /// Read and hash so much content; where there is more, files are chosen anew each time. 0 for none
    #[arg(long, value_name = "SIZE", default_value = "1G", conflicts_with = "deep", value_parser = size)]
    read: u64,
}

fn size(text: &str) -> std::result::Result<u64, String> {
    parhelia_host::config::size(text).ok_or_else(|| "a size such as 500M, 2G, or 0 for none".to_owned())
}

/// Amounts of content that were read, and that were not.
fn how(report: &VerifyReport) -> String {
    let (read, unread) = (human::size(report.read_bytes), human::size(report.unread_bytes));
    match report.level {
        VerifyLevel::Deep => "every byte was read".to_owned(),
        VerifyLevel::Part => format!("{read} of content were read, {unread} were only looked up; --deep reads all"),
        _ => format!("content was not read, {unread} were only looked up; --deep reads all"),
    }
}

/// Verifies, and names what is wrong.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let (checkpoint, _pin) = context.pinned(&store, &args.checkpoint, "verify")?;
    let progress = context.progress();
    let report = verification::verify(&store, &checkpoint, if args.deep { u64::MAX } else { args.read }, &progress)?;
    verification::note(&store, &report, &context.actor(), &progress);
    drop(progress);
    for problem in &report.problems {
        context.out.object(Line::Problem(problem.clone()))?;
        let place = if problem.path.is_empty() { "(checkpoint)" } else { problem.path.as_str() };
        tell!("parhelia: {place}: {}", problem.error);
    }
    if report.problems_more > 0 {
        tell!("parhelia: and {} more", human::count(report.problems_more, "path"));
    }
    for lack in &report.lacks {
        context.out.object(Line::Lack(lack.clone()))?;
        tell!("parhelia: the checkpoint is incomplete: {}: {}", lack.part, lack.error);
    }
    let how = how(&report);
    let (id, files, size) = (checkpoint.id(), human::count(report.files, "file"), human::size(report.bytes));
    context.out.remark(match (report.is_ok(), report.is_complete()) {
        (false, _) => format!("Checkpoint {id} is damaged. `parhelia check` says what else is."),
        (_, false) => format!("Checkpoint {id} is incomplete. What it has is undamaged: {files}, {size} ({how})."),
        _ if report.level == VerifyLevel::Deep => format!("Checkpoint {id} is whole: {files}, {size} ({how})."),
        _ => format!("Nothing is wrong with checkpoint {id} as far as it was read: {files}, {size} ({how})."),
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
