//! `memory list`: everything that is known.

use parhelia_host::Host;
use parhelia_knowledge::memory;
use parhelia_screen::human;
use parhelia_wire::{Line, Summary, summary::memory::ListOutcome};

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `memory list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The projects of which something is known, in place of one's entries
    #[arg(long)]
    projects: bool,
}

/// Prints it.
pub fn run(context: &mut Context, place: &super::Args, args: &Args) -> Result<Code> {
    let host = context.host()?;
    let (store, _empty) = context.open_or_empty()?;
    let root = &store.layout().root;
    context.out.page()?;
    if args.projects {
        let (projects, damaged) = memory::projects(root);
        for trouble in damaged {
            tell!("parhelia: {trouble}");
        }
        for project in &projects {
            context.out.line(human::path(project.name.as_bytes()))?;
        }
        let projects = projects.into_iter().map(|project| project.name).collect();
        context.out.summary(Summary::MemoryList(ListOutcome { project: None, projects, entries: 0, sessions: 0 }))?;
        return Ok(Code::Done);
    }
    let project = place.known_project(&store)?;
    let known = memory::read(root, &project, host.now())?;
    for (section, entry) in known.knowledge.all() {
        super::print(context, section, entry, known.knowledge.contradictory(section, entry))?;
    }
    for outcome in &known.session_history {
        match context.out.json {
            true => context.out.object(Line::SessionOutcome(outcome.into()))?,
            false => {
                let (day, summary) = (outcome.timestamp.strftime("%Y-%m-%d"), human::path(outcome.summary.as_bytes()));
                context.out.line(format!("session {}, {} {day}: {summary}", outcome.session_id, outcome.outcome))?;
            }
        }
    }
    if let Some(former) = memory::unadopted(root, &project, &known) {
        let former = human::shell(former.as_bytes());
        context
            .out
            .remark(format!("More is known of {former}, without its remote: `parhelia memory adopt {former}` takes it over."))?;
    }
    super::say_unconfirmed(context, &project)?;
    let (entries, sessions) = (known.knowledge.all().count() as u64, known.session_history.len() as u64);
    if entries + sessions == 0 {
        context.out.remark(format!("Nothing is known of {}.", human::path(project.name.as_bytes())))?;
    }
    context.out.summary(Summary::MemoryList(ListOutcome {
        project: Some(project.name),
        projects: Vec::new(),
        entries,
        sessions,
    }))?;
    Ok(Code::Done)
}
