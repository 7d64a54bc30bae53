//! `copy-store`: copies the whole store to another folder, or brings a copy up to date.

use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use parhelia_screen::human;
use parhelia_store::copy::{self, CopyOptions};
use parhelia_wire::{Summary, summary::CopiedStore};

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `copy-store`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of the copy
    #[arg(value_name = "DEST")]
    to: PathBuf,
    /// Make the copy where there is none; without this, a missing copy is an error
    #[arg(long)]
    init: bool,
    /// Remove packs from the copy that gc has removed from the store
    #[arg(long)]
    remove_freed: bool,
}

/// Copies it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let progress = context.progress();
    let options = CopyOptions { make: args.init, remove_freed: args.remove_freed };
    let report = copy::run(&store, &args.to, &options, &progress)?;
    drop(progress);
    let shown = human::path(args.to.as_os_str().as_bytes());
    context.out.did(format!("the copy at {shown} is up to date"));
    for (pack, fault) in &report.damaged {
        tell!("parhelia: pack {pack}: {fault}");
    }
    let (packs, checkpoints) = (human::count(report.copied_packs, "pack"), human::count(report.checkpoints, "checkpoint"));
    let verb = if report.made { "Made a copy at" } else { "Brought up to date the copy at" };
    context.out.remark(format!("{verb} {shown}: {checkpoints}; {packs} copied, {}.", human::size(report.copied_bytes)))?;
    if report.removed_packs > 0 {
        let (packs, size) = (human::count(report.removed_packs, "pack"), human::size(report.removed_bytes));
        context.out.remark(format!("Removed {packs} that the store does not have any more, {size}."))?;
    }
    if report.left_out_files > 0 {
        let files = human::count(report.left_out_files, "file");
        tell!("parhelia: {files} beside packs and journal cannot be read, and the copy has them as they were, or not at all");
    }
    if args.remove_freed && !report.damaged.is_empty() {
        tell!("parhelia: nothing was removed from the copy: while the store is damaged, its packs may be needed");
    }
    if !report.damaged.is_empty() {
        tell!(
            "parhelia: {} missing or damaged in the store, and not whole in the copy: run `parhelia check --read-data`",
            human::count(report.damaged.len() as u64, "pack")
        );
    }
    let code = match (report.damaged.is_empty(), report.left_out_files) {
        (false, _) => Code::Corrupt,
        (true, 0) => Code::Done,
        (true, _) => Code::Partly,
    };
    context.out.summary(Summary::CopyStore(CopiedStore { destination: shown, report }))?;
    Ok(code)
}
