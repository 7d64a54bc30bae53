//! `memory suggest`: patterns in earlier sessions that are worth remembering.

use parhelia_host::Host;
use parhelia_knowledge::memory;
use parhelia_screen::human;
use parhelia_wire::{Line, Summary, summary::memory::SuggestOutcome};

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `memory suggest`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Remember the suggestion of this id
    #[arg(long, value_name = "ID", conflicts_with = "dismiss")]
    accept: Option<String>,
    /// Never make the suggestion of this id again
    #[arg(long, value_name = "ID")]
    dismiss: Option<String>,
}

/// Prints the suggestions, or decides about one.
pub fn run(context: &mut Context, place: &super::Args, args: &Args) -> Result<Code> {
    let host = context.host()?;
    let (store, _empty) = context.open_or_empty()?;
    let project = place.project(&store)?;
    let known = memory::read(&store.layout().root, &project, host.now())?;
    let summary = |suggestions| Summary::MemorySuggest(SuggestOutcome { project: project.name.clone(), suggestions });
    if let Some(id) = &args.accept {
        let kept = memory::accept(&store, &host, &project, &known, id)?;
        context.out.did(format!("{} is remembered", kept.entry.id));
        super::print(context, kept.section, &kept.entry, &kept.contradicts)?;
        context.out.summary(summary(0))?;
        return Ok(Code::Done);
    }
    if let Some(id) = &args.dismiss {
        memory::dismiss(&store, &host, &project, &known, id)?;
        context.out.did(format!("suggestion {id} is dismissed"));
        context.out.remark(format!("Suggestion {id} is not made again."))?;
        context.out.summary(summary(0))?;
        return Ok(Code::Done);
    }
    let found = memory::suggestions(&store, &project, &known)?;
    context.out.page()?;
    for suggestion in &found {
        match context.out.json {
            true => context.out.object(Line::Suggestion(Box::new(suggestion.clone())))?,
            false => {
                let (key, text) = (&suggestion.key, human::path(suggestion.text.as_bytes()));
                context.out.line(format!("{}  {key}: {text} (sessions {})", suggestion.id, suggestion.sessions.join(", ")))?;
            }
        }
    }
    match found.is_empty() {
        true => context.out.remark("Nothing is suggested.")?,
        false => context.out.remark("`--accept ID` remembers one, `--dismiss ID` has it not come again.")?,
    }
    context.out.summary(summary(found.len() as u64))?;
    Ok(Code::Done)
}
