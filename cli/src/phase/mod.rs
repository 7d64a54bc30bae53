//! `phase`: how far an algorithm has come with a task, in files that other programs read as well. It needs no store.

mod cleanup;
mod complete;
mod create;
mod detect;
mod list;
mod load;

use std::path::PathBuf;

use clap::Subcommand;
use parhelia_knowledge::phase::{Home, PhaseFile, PhaseOutcome};
use parhelia_store::name::NameExt as _;
use parhelia_wire::{Line, phase};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of all verbs of `phase`.
#[derive(Debug, clap::Args)]
pub struct Phases {
    /// The folder with checkpoints/, seed.json and events/ [default: PARHELIA_PHASES, else .pai in your home]
    #[arg(long, global = true, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The verb.
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs of `phase`.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Note that a task has come to a phase
    Create(create::Args),
    /// Print one
    Load(load::Args),
    /// List them, the newest first
    List(list::Args),
    /// Print the newest one that is not completed, where there is one
    Detect,
    /// Mark one as completed
    Complete(complete::Args),
    /// Remove old ones
    Cleanup(cleanup::Args),
}

impl Phases {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        let home = self.home(context)?;
        match &self.verb {
            Verb::Create(args) => create::run(context, &home, args),
            Verb::Load(args) => load::run(context, &home, args),
            Verb::List(args) => list::run(context, &home, args),
            Verb::Detect => detect::run(context, &home),
            Verb::Complete(args) => complete::run(context, &home, args),
            Verb::Cleanup(args) => cleanup::run(context, &home, args),
        }
    }

    fn home(&self, context: &Context) -> Result<Home> {
        if let Some(folder) = &self.folder {
            return Ok(Home::at(folder.clone()));
        }
        Home::of(&context.host()?)
            .ok_or_else(|| Failure::Usage("there is no home for phase checkpoints: set HOME, or give --folder DIR".into()))
    }
}

/// The result, once the observer has been told of what beside it failed.
fn told<T>(done: PhaseOutcome<T>) -> T {
    for trouble in &done.troubles {
        tell!("parhelia: {trouble}");
    }
    done.what
}

/// The object of a phase checkpoint.
fn object(saved: &PhaseFile) -> Line {
    let phase = saved.phase.clone();
    let criterion = |criterion: &parhelia_knowledge::phase::Criterion| phase::Criterion {
        id: criterion.id.clone(),
        subject: criterion.subject.clone(),
        status: criterion.status.name().to_owned(),
    };
    Line::Phase(Box::new(phase::Phase {
        id: phase.id.clone(),
        session: phase.session_id.clone(),
        phase: phase.phase.clone(),
        number: phase.phase_number,
        created_at: phase.created_at,
        completed: phase.completed,
        task: phase.task_summary.clone(),
        criteria: phase.isc_criteria.iter().map(criterion).collect(),
        metadata: phase.metadata.clone(),
        file: saved.file.shown(),
    }))
}
