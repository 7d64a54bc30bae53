//! `import`: a checkpoint from a `.tar.zst` or `.tar`.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

use parhelia_store::{
    archive::import::{Limits, Reader},
    create::{self, ImportOptions},
};
use serde_json::json;

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    human,
};

/// Flags of `import`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The archive to read; `-` is standard input
    archive: PathBuf,
    /// The session that the checkpoint belongs to [default: the exported checkpoint's]
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// What to say of it [default: what the exported checkpoint says]
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

/// Reads the archive into a new checkpoint.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let input: Box<dyn Read> = if args.archive.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let failed = |source| Failure::File { action: "open", path: args.archive.clone(), source };
        Box::new(File::open(&args.archive).map_err(failed)?)
    };
    let store = context.open_with(true)?;
    let progress = context.progress();
    let mut reader = Reader::new(input, &args.archive, Limits::default())?;
    let options = ImportOptions { session: args.session.clone(), message: args.message.clone() };
    let outcome = create::import(&store, &mut reader, &options, &progress)?;
    drop(progress);
    let record = &outcome.checkpoint.record;
    let id = outcome.checkpoint.id();
    let (files, stored) = (human::count(record.workspace.files, "file"), human::size(outcome.stored_bytes));
    context.out.remark(format!("Imported as {id} of session {}: {files}, {stored} stored.", record.session))?;
    context.out.summary(json!({
        "id": id,
        "session": record.session,
        "root": record.root,
        "files": record.workspace.files,
        "bytes": record.workspace.bytes,
        "new_bytes": outcome.new_bytes,
        "stored_bytes": outcome.stored_bytes,
    }))?;
    Ok(Code::Done)
}
