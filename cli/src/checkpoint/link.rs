//! `checkpoint link` and `unlink`: a checkpoint's links to issues.

use parhelia_oversight::review::link;
use parhelia_wire::{
    Summary,
    summary::marks::{LinkOutcome, UnlinkOutcome},
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
    /// The issues: the URL of an issue or a pull request, OWNER/REPO#12, an id of Beads, or any other URL
    #[arg(value_name = "URL", required = true)]
    links: Vec<String>,
}

/// Adds all of them, or none.
pub fn link(context: &mut Context, args: &Args) -> Result<Code> {
    let issues = args.links.iter().map(|text| link::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let store = context.open()?;
    let id = context.find_id_to_mark(&store, &args.checkpoint)?;
    let linked = link::link(&store, &context.host()?, id, &issues, &context.progress())?;
    if !linked.added.is_empty() {
        let added = linked.added.iter().map(marks::issue_of).collect::<Vec<_>>().join(", ");
        context.out.did(format!("checkpoint {id} is linked to {added}"));
        context.out.remark(format!("Linked {id}: {added}."))?;
    }
    if !linked.confirmed.is_empty() {
        let confirmed = linked.confirmed.iter().map(marks::issue_of).collect::<Vec<_>>().join(", ");
        context.out.did(format!("the link of checkpoint {id} to {confirmed} is confirmed"));
        context.out.remark(format!("Confirmed for {id}: {confirmed}."))?;
    }
    let had: Vec<_> = linked.had.iter().filter(|issue| !linked.confirmed.contains(issue)).collect();
    if !had.is_empty() {
        let had = had.into_iter().map(marks::issue).collect::<Vec<_>>().join(", ");
        context.out.remark(format!("{id} had this before: {had}."))?;
    }
    if !linked.asked.is_empty() {
        let asked = linked.asked.iter().map(marks::issue).collect::<Vec<_>>().join(", ");
        context.out.remark(format!("Asked for, and by no person: {asked}. {}", marks::ASKED))?;
    }
    let (added, links, asked) = (linked.added, linked.links.into_iter().collect(), linked.asked);
    context.out.summary(Summary::CheckpointLink(LinkOutcome { id: id.to_string(), added, links, asked }))?;
    Ok(Code::Done)
}

/// Removes all of them, or none.
pub fn unlink(context: &mut Context, args: &Args) -> Result<Code> {
    let issues = args.links.iter().map(|text| link::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let store = context.open()?;
    let id = context.find_id_to_mark(&store, &args.checkpoint)?;
    let unlinked = link::unlink(&store, &context.host()?, id, &issues, &context.progress())?;
    let removed = unlinked.removed.iter().map(marks::issue).collect::<Vec<_>>().join(", ");
    context.out.did(format!("checkpoint {id} is no longer linked to {removed}"));
    context.out.remark(format!("Removed from {id}: {removed}."))?;
    let (removed, links) = (unlinked.removed, unlinked.links.into_iter().collect());
    context.out.summary(Summary::CheckpointUnlink(UnlinkOutcome { id: id.to_string(), removed, links }))?;
    Ok(Code::Done)
}
