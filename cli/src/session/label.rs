//! `session label`: labels of a session, by which others choose it.

use parhelia_oversight::labels::{self, Key, Label};
use parhelia_wire::{Summary, summary::LabelOutcome};

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
};
use parhelia_ledger::LedgerView as _;

/// Flags of `session label`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name
    #[arg(add = complete::sessions())]
    session: String,
    /// Labels to set, as KEY=VALUE, and to remove, as KEY- [default: print those that it has]
    #[arg(value_name = "KEY=VALUE|KEY-")]
    labels: Vec<String>,
}

/// Changes or prints them.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let (mut set, mut remove) = (Vec::<Label>::new(), Vec::<Key>::new());
    for text in &args.labels {
        match text.strip_suffix('-').filter(|_| !text.contains('=')) {
            Some(key) => remove.push(key.parse()?),
            None => set.push(text.parse::<Label>()?),
        }
    }
    let store = context.open()?;
    let session = store.view().session_named(&args.session)?;
    let mut changed = false;
    if !args.labels.is_empty() {
        changed = labels::change(&store, &context.host()?, &session, (&set, &remove), &context.progress())?;
    }
    let id = session.id;
    let session = store.refresh()?.session(&id)?.ok_or_else(|| parhelia_store::Error::NoSession { session: id.clone() })?;
    let labels = labels::of(&session);
    if args.labels.is_empty() {
        if labels.is_empty() {
            context.out.remark(format!("Session {id} has no labels."))?;
        }
        for (key, value) in &labels {
            context.out.line(format!("{key}={value}"))?;
        }
    } else if changed {
        context.out.did(format!("the labels of session {id} were changed"));
        let shown: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        context.out.remark(match shown.is_empty() {
            true => format!("Session {id} has no labels now."),
            false => format!("Session {id} has the labels {}.", shown.join(", ")),
        })?;
    } else {
        context.out.remark(format!("Session {id} has these labels already."))?;
    }
    context.out.summary(Summary::SessionLabel(LabelOutcome { id, changed, labels }))?;
    Ok(Code::Done)
}
