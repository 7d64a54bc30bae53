//! `phase load`: one of them, whole.

use parhelia_knowledge::phase::Home;
use parhelia_screen::human;
use parhelia_store::name::NameExt as _;
use parhelia_wire::Summary;

use super::object;
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `phase load`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its id
    id: String,
}

/// Prints it.
pub fn run(context: &mut Context, home: &Home, args: &Args) -> Result<Code> {
    let saved = home.load(&args.id)?;
    let phase = &saved.phase;
    if context.out.json {
        context.out.object(object(&saved))?;
    } else {
        let mut facts = vec![
            ("phase", format!("{} ({})", phase.phase_number, human::path(phase.phase.as_bytes()))),
            ("task", human::path(phase.task_summary.as_bytes())),
            ("session", human::path(phase.session_id.as_bytes())),
            ("created", phase.created_at.to_string()),
            ("completed", if phase.completed { "yes" } else { "no" }.to_owned()),
            ("file", saved.file.shown()),
        ];
        for criterion in &phase.isc_criteria {
            let (id, subject) = (human::path(criterion.id.as_bytes()), human::path(criterion.subject.as_bytes()));
            facts.push(("criterion", format!("{id}: {subject} ({})", criterion.status.name())));
        }
        if !phase.metadata.is_empty() {
            facts.push(("metadata", human::path(serde_json::Value::from(phase.metadata.clone()).to_string().as_bytes())));
        }
        context.out.facts(facts, 11)?;
    }
    context.out.summary(Summary::PhaseLoad { id: args.id.clone() })?;
    Ok(Code::Done)
}
