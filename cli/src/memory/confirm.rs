//! `memory confirm`: a folder shares what is known of the project that it says it is of.

use std::path::Path;

use parhelia_knowledge::memory::{self, Project};
use parhelia_screen::human;
use parhelia_wire::{Summary, summary::memory::ConfirmOutcome};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    workspace::workspace,
};

/// Confirms it.
pub fn run(context: &mut Context, place: &super::Args) -> Result<Code> {
    if place.project.is_some() {
        return Err(Failure::Usage("a folder is confirmed, and no name\nGive --workspace DIR in its place".into()));
    }
    let host = context.host()?;
    let store = context.open()?;
    let folder = workspace(place.workspace.as_deref().unwrap_or(Path::new(".")))?;
    let sessions = parhelia_ledger::selector::sessions_at(&store.view(), &folder)?;
    let project = Project::claimed(&folder, sessions.iter().find(|session| session.project.is_some()));
    let confirmed = memory::confirm(&store, &host, &project)?;
    let name = human::path(project.name.as_bytes());
    match &confirmed {
        Some(folder) => {
            let folder = human::path(folder.as_bytes());
            context.out.did(format!("{folder} is of the project {name}"));
            context.out.remark(format!("{folder} shares what is known of {name}."))?;
        }
        None if project.folder.is_none() => context.out.remark(format!(
            "There is nothing to confirm: {name} says of no project that it is of it, as its git repository has no remote, or it has none. \
             Its memory is its own."
        ))?,
        None => context.out.remark(format!("There is nothing to confirm: it is of {name} already."))?,
    }
    context.out.summary(Summary::MemoryConfirm(ConfirmOutcome { project: project.name, folder: confirmed }))?;
    Ok(Code::Done)
}
