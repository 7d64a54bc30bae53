//! `phase cleanup`: old ones go.

use jiff::SignedDuration;
use parhelia_host::Host;
use parhelia_knowledge::phase::{Home, KEPT_DAYS};
use parhelia_screen::human;
use parhelia_wire::Summary;

use super::{object, told};
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `phase cleanup`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Remove those that are older than so many days
    #[arg(long, value_name = "DAYS", default_value_t = KEPT_DAYS)]
    older_than: u32,
}

/// Removes them.
pub fn run(context: &mut Context, home: &Home, args: &Args) -> Result<Code> {
    let now = context.host()?.now();
    let removed = told(home.clean_up(SignedDuration::from_hours(24 * i64::from(args.older_than)), now)?);
    for saved in &removed {
        context.out.object(object(saved))?;
    }
    let count = removed.len() as u64;
    context.out.did(format!("{} removed", human::count(count, "phase checkpoint")));
    context.out.remark(format!("{} removed.", human::count(count, "phase checkpoint")))?;
    context.out.summary(Summary::PhaseCleanup { removed: count })?;
    Ok(Code::Done)
}
