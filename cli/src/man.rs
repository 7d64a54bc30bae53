//! `man`: man pages, made of the same definitions as the help.

#![expect(clippy::disallowed_methods, reason = "writes into a folder that the user names")]

use parhelia_store::name::NameExt as _;
use std::{fs, path::PathBuf};

use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `man`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder, such as ~/.local/share/man/man1; it is made where it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes a page of each verb of a command.
pub fn run(context: &mut Context, args: &Args, command: clap::Command) -> Result<Code> {
    let failed = |action: &'static str| move |source| Failure::File { action, path: args.folder.clone(), source };
    fs::create_dir_all(&args.folder).map_err(failed("create folder"))?;
    clap_mangen::generate_to(command, &args.folder).map_err(failed("write man pages to"))?;
    let shown = args.folder.shown();
    context.out.did(format!("man pages are written to {shown}"));
    context.out.remark(format!("Wrote man pages to {shown}; parhelia.1 is the first."))?;
    context.out.summary(Summary::Man { folder: shown })?;
    Ok(Code::Done)
}
