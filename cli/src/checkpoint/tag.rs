//! `checkpoint tag` and `untag`: names by which a checkpoint is found again.

use parhelia_oversight::review::tag;
use parhelia_wire::{
    Summary,
    summary::marks::{TagOutcome, UntagOutcome},
};

use super::marks;
use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
};

/// Flags of both.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint
    #[arg(add = complete::checkpoints())]
    checkpoint: String,
    /// The tags: names, with '/' between the parts of one, such as release/1.2
    #[arg(value_name = "TAG", required = true, add = complete::tags())]
    tags: Vec<String>,
}

/// Adds all of them, or none.
pub fn tag(context: &mut Context, args: &Args) -> Result<Code> {
    let tags = marks::parsed(&args.tags)?;
    let store = context.open()?;
    let id = context.find_id_to_mark(&store, &args.checkpoint)?;
    let tagged = tag::tag(&store, &context.host()?, id, &tags, &context.progress())?;
    if !tagged.added.is_empty() {
        let added = marks::listed(tagged.added.iter().map(tag::Tag::as_str));
        context.out.did(format!("checkpoint {id} is tagged {added}"));
        context.out.remark(format!("Tagged {id}: {added}."))?;
    }
    if !tagged.had.is_empty() {
        let had = marks::listed(tagged.had.iter().map(tag::Tag::as_str));
        context.out.remark(format!("{id} had this before: {had}."))?;
    }
    let added = tagged.added.iter().map(ToString::to_string).collect();
    let tags = tagged.tags.into_iter().collect();
    context.out.summary(Summary::CheckpointTag(TagOutcome { id: id.to_string(), added, tags }))?;
    Ok(Code::Done)
}

/// Removes all of them, or none.
pub fn untag(context: &mut Context, args: &Args) -> Result<Code> {
    let tags: Vec<tag::Tag> = marks::parsed(&args.tags)?;
    let store = context.open()?;
    let id = context.find_id_to_mark(&store, &args.checkpoint)?;
    let left = tag::untag(&store, &context.host()?, id, &tags, &context.progress())?;
    let removed = marks::listed(tags.iter().map(tag::Tag::as_str));
    context.out.did(format!("checkpoint {id} is no longer tagged {removed}"));
    context.out.remark(format!("Removed from {id}: {removed}. {}", marks::tags_text(&left)))?;
    let (removed, tags) = (tags.iter().map(ToString::to_string).collect(), left.into_iter().collect());
    context.out.summary(Summary::CheckpointUntag(UntagOutcome { id: id.to_string(), removed, tags }))?;
    Ok(Code::Done)
}
