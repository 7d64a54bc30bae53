//! `checkpoint untag`: takes tags from a checkpoint.

use parhelia_session::review::tag;
use parhelia_wire::Summary;

use super::marks;
use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
};

/// Flags of `checkpoint untag`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint
    #[arg(add = complete::checkpoints())]
    checkpoint: String,
    /// The tags
    #[arg(value_name = "TAG", required = true, add = complete::tags())]
    tags: Vec<String>,
}

/// Removes all of them, or none.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let tags: Vec<tag::Tag> = marks::parsed(&args.tags)?;
    let store = context.open()?;
    let id = marks::chosen(context, &store, &args.checkpoint)?;
    let left = tag::untag(&store, &context.host()?, id, &tags, &context.progress())?;
    let removed = marks::listed(tags.iter().map(tag::Tag::as_str));
    context.out.did(format!("checkpoint {id} is no longer tagged {removed}"));
    context.out.remark(format!("Removed from {id}: {removed}. {}", marks::tags_text(&left)))?;
    let (removed, tags) = (tags.iter().map(ToString::to_string).collect(), left.into_iter().collect());
    context.out.summary(Summary::CheckpointUntag { id: id.to_string(), removed, tags })?;
    Ok(Code::Done)
}
