//! `memory save`: remembers something.

use parhelia_knowledge::memory::{self, New};
use parhelia_screen::human;
use parhelia_wire::{Summary, summary::memory::SaveOutcome};

use crate::{
    context::Context,
    exit::{Code, Result},
    input,
};

/// So much of standard input is read: enough to tell how much too long it is.
const INPUT_BYTES_MAX: u64 = 1 << 20;

/// Flags of `memory save`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Section and name: conventions.testing, architecture, gotchas; anything else is the name of a note
    key: String,
    /// The text; `-` reads it from standard input
    text: String,
    /// A file that matters for it; may be repeated
    #[arg(short, long, value_name = "PATH")]
    file: Vec<String>,
    /// Take the place of what has the same section and name; else both are kept, and shown as contradictory
    #[arg(long)]
    replace: bool,
}

/// Remembers it.
pub fn run(context: &mut Context, place: &super::Args, args: &Args) -> Result<Code> {
    let text = if args.text == "-" { input::text(INPUT_BYTES_MAX)? } else { args.text.clone() };
    let host = context.host()?;
    let store = context.open_or_make()?;
    let project = place.project(&store)?;
    let new = New { key: args.key.clone(), text, files: args.file.clone(), replaces: args.replace };
    // A name that was mistyped is one that nobody knows.
    let is_unknown = place.project.is_some() && memory::ensure_known(&store.layout().root, &project).is_err();
    let kept = memory::save(&store, &host, &project, &new)?;
    if is_unknown && !context.global.quiet {
        tell!("parhelia: nothing was known of a project {}: this is the first", human::path(project.name.as_bytes()));
    }
    if kept.is_new {
        context.out.did(format!("{} is remembered", kept.entry.id));
    }
    super::print(context, kept.section, &kept.entry, &kept.contradicts)?;
    context.out.summary(Summary::MemorySave(SaveOutcome { id: kept.entry.id, project: project.name, recorded: kept.is_new }))?;
    Ok(Code::Done)
}
