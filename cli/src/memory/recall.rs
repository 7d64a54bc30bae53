//! `memory recall`: finds what is known by words.

use parhelia_host::Host;
use parhelia_knowledge::memory;
use parhelia_wire::{Summary, summary::memory::RecallOutcome};

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `memory recall`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Words; entries with most of them come first
    #[arg(required = true)]
    words: Vec<String>,
}

/// Prints what has the words.
pub fn run(context: &mut Context, place: &super::Args, args: &Args) -> Result<Code> {
    let host = context.host()?;
    let (store, _empty) = context.open_or_empty()?;
    let project = place.known_project(&store)?;
    let known = memory::read(&store.layout().root, &project, host.now())?;
    let hits = memory::recall(&known, &args.words.join(" "));
    context.out.page()?;
    for hit in &hits {
        super::print(context, hit.section, hit.entry, hit.contradicts.iter().copied())?;
    }
    if hits.is_empty() {
        context.out.remark("Nothing that is known has one of these words.")?;
    }
    context.out.summary(Summary::MemoryRecall(RecallOutcome { project: project.name, entries: hits.len() as u64 }))?;
    Ok(Code::Done)
}
