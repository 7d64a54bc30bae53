//! `checkpoint annotate`: adds a remark to a checkpoint.

use std::{
    io::{self, Read},
    sync::atomic::Ordering,
};

use parhelia_oversight::review::annotation::{self, ANNOTATION_BYTES_MAX, Text};
use parhelia_wire::{Summary, summary::marks::AnnotateOutcome};

use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    interrupt::Cancel,
};

/// Flags of `checkpoint annotate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint
    #[arg(add = complete::checkpoints())]
    checkpoint: String,
    /// The text; - reads it from standard input, and a text that begins with - stands behind --
    text: String,
}

/// Adds it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let text = if args.text == "-" { read(&context.cancel())? } else { args.text.clone() };
    let text = Text::new(&text)?;
    let store = context.open()?;
    let id = context.find_id_to_mark(&store, &args.checkpoint)?;
    let (annotation, annotations) = annotation::annotate(&store, &context.host()?, id, &text, &context.progress())?;
    context.out.did(format!("checkpoint {id} is annotated"));
    context.out.remark(format!("Annotated {id}."))?;
    let annotations = annotations as u64;
    context.out.summary(Summary::CheckpointAnnotate(AnnotateOutcome { id: id.to_string(), annotation, annotations }))?;
    Ok(Code::Done)
}

/// The text on standard input; of one that is too long, more than may be.
fn read(cancel: &Cancel) -> Result<String> {
    let mut bytes = Vec::new();
    // A carriage return at the end of each line does not count.
    let failed = |source| Failure::File { action: "read", path: "standard input".into(), source };
    io::stdin().take(2 * ANNOTATION_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if cancel.load(Ordering::Relaxed) {
        // Whoever interrupts has not said it all.
        return Err(parhelia_store::Error::Cancelled.into());
    }
    String::from_utf8(bytes).map_err(|_| Failure::Usage("the text on standard input is not UTF-8".into()))
}
