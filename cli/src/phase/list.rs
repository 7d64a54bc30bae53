//! `phase list`: all of them, the newest first.

use parhelia_knowledge::phase::Home;
use parhelia_screen::human;
use parhelia_wire::Summary;

use super::object;
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `phase list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only those that are completed
    #[arg(long, conflicts_with = "incomplete")]
    completed: bool,
    /// Only those that are not
    #[arg(long)]
    incomplete: bool,
}

/// Prints them.
pub fn run(context: &mut Context, home: &Home, args: &Args) -> Result<Code> {
    let wanted = match (args.completed, args.incomplete) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let found = home.list(wanted)?;
    context.out.page()?;
    for saved in &found {
        let phase = &saved.phase;
        match context.out.json {
            true => context.out.object(object(saved))?,
            false => {
                let state = if phase.completed { "completed" } else { "incomplete" };
                let (id, name, task) = (
                    human::path(phase.id.as_bytes()),
                    human::path(phase.phase.as_bytes()),
                    human::path(phase.task_summary.as_bytes()),
                );
                context
                    .out
                    .line(format!("{id}  {:.0}  {state:10}  phase {} ({name})  {task}", phase.created_at, phase.phase_number))?;
            }
        }
    }
    if found.is_empty() {
        context.out.remark("There is no phase checkpoint.")?;
    }
    context.out.summary(Summary::PhaseList { phases: found.len() as u64 })?;
    Ok(Code::Done)
}
