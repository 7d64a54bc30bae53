//! `checkpoint tags`: the tags in use.

use parhelia_oversight::review::tag;
use parhelia_screen::human;
use parhelia_store::{clock, name::NameExt as _};
use parhelia_wire::{Line, Summary, checkpoint as wire};

use super::marks;
use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    layout::Table,
};

/// Flags of `checkpoint tags`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only those that match: release and all below it, release/*, release/**, **/v1
    #[arg(value_name = "PATTERN", add = complete::tags())]
    patterns: Vec<String>,
}

/// Prints them.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let patterns = marks::parsed(&args.patterns)?;
    let store = context.open()?;
    let view = store.view();
    let heading = ["ID", "TAG", "SESSION", "CREATED", "CHECKPOINTS"];
    let (now, mut rows) = (clock::timestamp(), vec![heading.map(str::to_owned).to_vec()]);
    for tag in tag::in_use(&view, &patterns)? {
        let Some(newest) = view.checkpoint(tag.newest)? else { continue };
        let shown = wire::Tag::of(&tag, &newest.record);
        rows.push(vec![
            newest.id(),
            human::path(tag.tag.as_bytes()),
            human::path(newest.record.session.as_bytes()),
            human::ago(newest.record.created_at, now),
            human::number(tag.checkpoints as u64),
        ]);
        context.out.object(Line::Tag(shown))?;
    }
    let tags = rows.len() as u64 - 1;
    if tags == 0 {
        let that = if args.patterns.is_empty() { "" } else { " that matches" };
        context.out.remark(format!("No tag{that} in {}.", store.path().shown()))?;
    } else {
        context.out.page()?;
        context.out.table(&Table { rows: &rows, right: &[4], dropped: &["CHECKPOINTS", "CREATED"] })?;
    }
    context.out.summary(Summary::CheckpointTags { tags })?;
    Ok(Code::Done)
}
