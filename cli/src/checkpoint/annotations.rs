//! `checkpoint annotations`: the remarks about checkpoints.

use parhelia_oversight::review::annotation;
use parhelia_store::name::NameExt as _;
use parhelia_wire::{Line, Summary, checkpoint as wire};

use super::marks;
use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    output::Style,
};

/// Flags of `checkpoint annotations`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only those of this checkpoint
    #[arg(add = complete::checkpoints())]
    checkpoint: Option<String>,
}

/// Prints them.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let checkpoint = args.checkpoint.as_ref().map(|selector| context.find_id(&store, selector)).transpose()?;
    let found = annotation::annotations(&store.view(), checkpoint)?;
    if found.is_empty() {
        let of = checkpoint.map_or_else(|| format!("in {}", store.path().shown()), |id| format!("of {id}"));
        context.out.remark(format!("No annotations {of}."))?;
    } else {
        context.out.page()?;
    }
    let mut before = None;
    for (id, annotation) in &found {
        context.out.object(Line::Annotation(wire::CheckpointAnnotation::of(*id, annotation)))?;
        if before.replace(*id) != Some(*id) {
            let heading = context.out.styled(Style::Bold, id);
            context.out.line(heading)?;
        }
        for line in marks::annotation(annotation) {
            context.out.line(format!("  {line}").trim_end())?;
        }
    }
    context.out.summary(Summary::CheckpointAnnotations { annotations: found.len() as u64 })?;
    Ok(Code::Done)
}
