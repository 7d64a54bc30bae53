//! `import`: a checkpoint from a `.tar.zst` or `.tar`, or from a checkpoint's folder of the manifest's schema 1.0 or 1.1.

mod folder;

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

use parhelia_store::{
    archive::import::{Limits, Reader},
    create::{self, ImportOptions},
};
use parhelia_wire::{Summary, summary::Imported};

use self::folder::Folder;
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    human,
};

/// Flags of `import`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The archive to read, or the folder of a checkpoint of schema 1.0 or 1.1; `-` is standard input
    archive: PathBuf,
    /// The session of the new checkpoint; not one that works in a folder here [default: the exported checkpoint's, or SESSION-imported]
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// The checkpoint's message [default: that of the exported checkpoint]
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

/// Reads the archive into a new checkpoint.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let old = args.archive.is_dir().then(|| Folder::read(&args.archive)).transpose()?;
    let archive = old.as_ref().map_or(&args.archive, |old| &old.archive);
    let input: Box<dyn Read> = if archive.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let failed = |source| Failure::File { action: "open", path: archive.clone(), source };
        Box::new(File::open(archive).map_err(failed)?)
    };
    let store = context.open_with(true)?;
    let progress = context.progress();
    let mut reader = Reader::new(input, archive, Limits::default())?;
    let of_folder = old.as_ref();
    let options = ImportOptions {
        session: args.session.clone(),
        origin_session: of_folder.and_then(|old| old.session.clone()),
        message: args.message.clone().or_else(|| of_folder.map(|old| old.message.clone())),
        origin: of_folder.and_then(|old| old.id.clone()),
    };
    let outcome = create::import(&store, &mut reader, &options, &progress)?;
    drop(progress);
    let record = &outcome.checkpoint.record;
    let id = outcome.checkpoint.id();
    let (files, stored) = (human::count(record.workspace.files, "file"), human::size(outcome.stored_bytes));
    context.out.did(format!("checkpoint {id} is made"));
    context.out.remark(format!("Imported as {id} of session {}: {files}, {stored} stored.", record.session))?;
    context.out.summary(Summary::Import(Imported {
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
