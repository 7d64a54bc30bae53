//! `checkpoint verify`: is one checkpoint whole?

use parhelia_session::verification;
use parhelia_store::check;
use serde_json::json;

use crate::{
    context::Context,
    exit::{Code, Result},
    human,
};

/// Flags of `checkpoint verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint
    #[arg(default_value = "latest")]
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
    let report = check::verify(&store, &checkpoint, args.deep, &progress)?;
    verification::note(&store, &report, &context.actor(), &progress)?;
    drop(progress);
    for problem in &report.problems {
        context.out.object("problem", json!({ "path": problem.path, "error": problem.error }))?;
        let place = if problem.path.is_empty() { "(checkpoint)" } else { problem.path.as_str() };
        eprintln!("parhelia: {place}: {}", problem.error);
    }
    if report.problems_more > 0 {
        eprintln!("parhelia: and {} more", human::count(report.problems_more, "path"));
    }
    let how = if args.deep { "every byte was read" } else { "content was not read; --deep does" };
    if report.is_ok() {
        let (files, size) = (human::count(report.files, "file"), human::size(report.bytes));
        context.out.remark(format!("Checkpoint {} is whole: {files}, {size} ({how}).", checkpoint.id()))?;
    } else {
        context.out.remark(format!("Checkpoint {} is damaged. `parhelia check` says what else is.", checkpoint.id()))?;
    }
    context.out.summary(json!({
        "id": checkpoint.id(),
        "ok": report.is_ok(),
        "deep": report.deep,
        "checksum": report.checksum,
        "files": report.files,
        "bytes": report.bytes,
        "trees": report.trees,
        "problems": report.problems.len() as u64 + report.problems_more,
    }))?;
    Ok(if report.is_ok() { Code::Done } else { Code::Corrupt })
}
