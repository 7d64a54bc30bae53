//! `phase complete`: the task is finished, and is not offered again.

use parhelia_host::Host;
use parhelia_knowledge::phase::Home;
use parhelia_wire::Summary;

use super::{object, told};
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `phase complete`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its id
    id: String,
}

/// Marks it.
pub fn run(context: &mut Context, home: &Home, args: &Args) -> Result<Code> {
    let now = context.host()?.now();
    let saved = told(home.complete(&args.id, now)?);
    let id = saved.phase.id.clone();
    context.out.did(format!("phase checkpoint {id} is completed"));
    context.out.object(object(&saved))?;
    context.out.remark(format!("Phase checkpoint {id} is completed."))?;
    context.out.summary(Summary::PhaseComplete { id })?;
    Ok(Code::Done)
}
