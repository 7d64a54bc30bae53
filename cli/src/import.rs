//! `import`: a checkpoint from a `.tar.zst` or `.tar`, or from a checkpoint's folder of the manifest's schema 1.0, 1.1 or 1.2.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

use parhelia_life::older::{ChecksumReport, Older, Request};
use parhelia_screen::human;
use parhelia_store::{
    archive::import::{Limits, Reader},
    create::{self, ImportOptions, Outcome},
};
use parhelia_wire::{Summary, summary::ImportOutcome};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `import`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The archive to read, or the folder of a checkpoint of schema 1.0, 1.1 or 1.2; `-` is standard input
    archive: PathBuf,
    /// The session of the new checkpoint; not one that works in a folder here [default: the exported checkpoint's, or SESSION-imported]
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// The checkpoint's message [default: that of the exported checkpoint]
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

/// Reads the archive or the folder into a new checkpoint.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let (outcome, checked) = if args.archive.is_dir() {
        let (outcome, checked) = of_folder(context, args)?;
        (outcome, checked_text(checked))
    } else {
        (of_archive(context, args)?, String::new())
    };
    let record = &outcome.checkpoint.record;
    let id = outcome.checkpoint.id();
    let (files, stored) = (human::count(record.workspace.files, "file"), human::size(outcome.stored_bytes));
    context.out.did(format!("checkpoint {id} is made"));
    context.out.remark(format!("Imported as {id} of session {}: {files}, {stored} stored.{checked}", record.session))?;
    context.out.summary(Summary::Import(ImportOutcome {
        id,
        session: record.session.clone(),
        root: record.root.to_string(),
        files: record.workspace.files,
        bytes: record.workspace.bytes,
        new_bytes: outcome.new_bytes,
        stored_bytes: outcome.stored_bytes,
    }))?;
    Ok(Code::Done)
}

fn of_folder(context: &mut Context, args: &Args) -> Result<(Outcome, ChecksumReport)> {
    // No store is made for a folder that cannot be imported.
    let progress = context.progress();
    let older = Older::read(&args.archive, &progress)?;
    let store = context.open_or_make()?;
    let checked = older.checked();
    let request = Request { session: args.session.clone(), message: args.message.clone() };
    Ok((older.import(&store, request, &progress)?, checked))
}

fn of_archive(context: &mut Context, args: &Args) -> Result<Outcome> {
    let archive = &args.archive;
    let input: Box<dyn Read> = if archive.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let failed = |source| Failure::File { action: "open", path: archive.clone(), source };
        Box::new(File::open(archive).map_err(failed)?)
    };
    let store = context.open_or_make()?;
    let progress = context.progress();
    let mut reader = Reader::new(input, archive, Limits::default())?;
    let options = ImportOptions { session: args.session.clone(), message: args.message.clone(), ..ImportOptions::default() };
    Ok(create::import(&store, &mut reader, &options, &progress)?)
}

/// The checks of a folder, in words.
fn checked_text(checked: ChecksumReport) -> String {
    match (checked.whole, checked.files) {
        (true, 0) => " Its checksum is right.".into(),
        (false, 0) => " Its manifest has no checksum.".into(),
        (is_whole, files) => {
            format!(
                " {} of single files are right{}.",
                human::count(files as u64, "checksum"),
                if is_whole { ", and that of the whole" } else { "" }
            )
        }
    }
}
