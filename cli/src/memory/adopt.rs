//! `memory adopt`: takes over what is known of another project.

use std::path::Path;

use parhelia_host::Host;
use parhelia_knowledge::memory::{self, Project};
use parhelia_screen::human;
use parhelia_store::name::NameExt as _;
use parhelia_wire::{Summary, summary::memory::AdoptOutcome};

use crate::{
    context::Context,
    exit::{Code, Result},
    workspace::workspace,
};

/// Flags of `memory adopt`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The other project by its name, as `memory list --projects` prints it, or by its folder
    from: String,
}

/// Takes it over.
pub fn run(context: &mut Context, place: &super::Args, args: &Args) -> Result<Code> {
    let host = context.host()?;
    let store = context.open()?;
    memory::ensure_person(&store, &host, "memory adopt")?;
    let project = place.project(&store)?;
    let root = &store.layout().root;
    let named = Project::named(&args.from);
    let other = match Path::new(&args.from) {
        folder if memory::ensure_known(root, &named).is_err() && folder.is_dir() => Project::named(&workspace(folder)?.shown()),
        _ => named,
    };
    let (entries, sessions) = memory::adopt(root, &project, &other, host.now())?;
    let text = format!("{} and {} taken over", human::count(entries, "entry"), human::count(sessions, "session"));
    if entries + sessions > 0 {
        context.out.did(text.clone());
    }
    context.out.remark(format!("{text}."))?;
    context.out.summary(Summary::MemoryAdopt(AdoptOutcome { project: project.name, from: other.name, entries, sessions }))?;
    Ok(Code::Done)
}
