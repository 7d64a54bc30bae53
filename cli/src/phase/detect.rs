//! `phase detect`: the one that a session could go on with.

use parhelia_knowledge::phase::Home;
use parhelia_screen::human;
use parhelia_wire::Summary;

use super::object;
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Prints it; nothing where there is none.
pub fn run(context: &mut Context, home: &Home) -> Result<Code> {
    let found = home.incomplete()?;
    if let Some(saved) = &found {
        match context.out.json {
            true => context.out.object(object(saved))?,
            false => context.out.line(format!("[{}]", human::path(saved.phase.question().as_bytes())))?,
        }
    }
    context.out.summary(Summary::PhaseDetect { id: found.map(|saved| saved.phase.id) })?;
    Ok(Code::Done)
}
