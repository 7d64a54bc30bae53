//! `checkpoint unlink`: removes links of a checkpoint to issues.

use parhelia_session::review::link;
use parhelia_wire::Summary;

use super::marks;
use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
};

/// Flags of `checkpoint unlink`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint
    #[arg(add = complete::checkpoints())]
    checkpoint: String,
    /// The issues, as `checkpoint link` takes them
    #[arg(value_name = "URL", required = true)]
    links: Vec<String>,
}

/// Removes all of them, or none.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let issues = args.links.iter().map(|text| link::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let store = context.open()?;
    let id = marks::chosen(context, &store, &args.checkpoint)?;
    let unlinked = link::unlink(&store, &context.host()?, id, &issues, &context.progress())?;
    let removed = unlinked.removed.iter().map(marks::issue).collect::<Vec<_>>().join(", ");
    context.out.did(format!("checkpoint {id} is no longer linked to {removed}"));
    context.out.remark(format!("Removed from {id}: {removed}."))?;
    let (removed, links) = (marks::links(&unlinked.removed), marks::links(&unlinked.links));
    context.out.summary(Summary::CheckpointUnlink { id: id.to_string(), removed, links })?;
    Ok(Code::Done)
}
