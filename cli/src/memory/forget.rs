//! `memory forget`: forgets something.

use parhelia_knowledge::memory;
use parhelia_screen::human;
use parhelia_wire::{Summary, summary::memory::ForgetOutcome};

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `memory forget`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The id of an entry, or a section and name, such as conventions.testing
    which: String,
}

/// Forgets it.
pub fn run(context: &mut Context, place: &super::Args, args: &Args) -> Result<Code> {
    let host = context.host()?;
    let store = context.open()?;
    let project = place.known_project(&store)?;
    let gone = memory::forget(&store, &host, &project, &args.which)?;
    for (section, entry) in &gone {
        context.out.did(format!("{} is forgotten", entry.id));
        super::print(context, *section, entry, [])?;
    }
    context.out.remark(format!("{} forgotten.", human::count(gone.len() as u64, "entry")))?;
    context.out.summary(Summary::MemoryForget(ForgetOutcome { project: project.name, forgotten: gone.len() as u64 }))?;
    Ok(Code::Done)
}
