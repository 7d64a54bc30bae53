//! `session prompt`: says something to the agent of a session from another terminal, or from a script.

use parhelia_host::Refusal;
use parhelia_ledger::{LedgerView as _, Status};
use parhelia_life::prompt;
use parhelia_wire::{Summary, summary::PromptOutcome};

use super::resume;
use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    input,
};

/// Flags of `session prompt`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name
    #[arg(add = complete::sessions())]
    session: String,
    /// The prompt; `-` reads it from standard input
    text: String,
}

/// Types it in for an agent that has nothing to do, and resumes a dead one with it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let text = if args.text == "-" {
        input::text(prompt::BYTES_MAX as u64)?.trim_end_matches('\n').to_owned()
    } else {
        args.text.clone()
    };
    prompt::check(&text)?;
    let store = context.open()?;
    let session = store.view().session_named(&args.session)?;
    if session.status == Status::Ended {
        return Err(Refusal::HasEnded { session: session.id }.into());
    }
    if !prompt::type_in(&store, &session, &text)? {
        drop(store);
        return resume::run(context, &resume::Args::of(session.id).prompted(text));
    }
    context.out.did(format!("session {} has got a prompt", session.id));
    context.out.remark(format!("Session {} has got the prompt.", session.id))?;
    context.out.summary(Summary::SessionPrompt(PromptOutcome { id: session.id }))?;
    Ok(Code::Done)
}
