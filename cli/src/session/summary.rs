//! `session summary`: what was done in a session, and where to go on.

use parhelia_host::Host as _;
use parhelia_knowledge::summary::{
    markdown,
    model::{AskOutcome, ask, newest},
};
use parhelia_service::model;
use parhelia_wire::{Line, Summary};

use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    hook_log::{self, Log},
};
use parhelia_ledger::LedgerView as _;

/// Flags of `session summary`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name [default: that of this folder's newest checkpoint]
    #[arg(add = complete::sessions())]
    session: Option<String>,
    /// The summary at this checkpoint, in place of the one at which the session stands
    #[arg(long, value_name = "CHECKPOINT", conflicts_with = "session", add = complete::checkpoints())]
    checkpoint: Option<String>,
    /// Have the configured model sum the session up, apart from any terminal; started by whoever has made a checkpoint
    #[arg(long, hide = true, requires = "session")]
    ask_model: bool,
}

/// Prints it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    if let (true, Some(session)) = (args.ask_model, &args.session) {
        match asked(context, session) {
            Ok(Some(done)) => hook_log::line(&format!("summary of {session}: {done}")),
            Ok(None) => {}
            Err(e) => hook_log::line(&e.to_string()),
        }
        return Ok(Code::Done);
    }
    let store = context.open()?;
    let (checkpoint, _pin) = match (&args.checkpoint, &args.session) {
        (Some(selector), _) => context.pinned(&store, selector, "summary")?,
        (None, session) => {
            let newest = match session {
                Some(session) => context.find(&store, &format!("{}@latest", store.view().session_named(session)?.id))?,
                None => context.find(&store, "latest")?,
            };
            // After a rollback, the newest one is of what was gone back from.
            let head = store.view().head(&newest.record.session)?;
            context.pin(&store, head.as_ref().unwrap_or(&newest), "summary")?
        }
    };
    let (id, session) = (checkpoint.id(), checkpoint.record.session.clone());
    let Some(summary) = newest(&store, &checkpoint)? else {
        return Err(Failure::NotFound(format!(
            "cannot show a summary of session {session}: checkpoint {id} has none, as it holds no conversation or is of an earlier release; \
             `parhelia checkpoint list {session}` shows others"
        )));
    };
    match context.out.json {
        true => context.out.object(Line::SessionSummary(Box::new((&summary).into())))?,
        false => {
            context.out.page()?;
            for line in markdown(&summary).lines() {
                context.out.line(line)?;
            }
        }
    }
    context.out.summary(Summary::SessionSummary { id: session, checkpoint: id })?;
    Ok(Code::Done)
}

/// Has the model asked. Returns what there is to say of it.
fn asked(context: &Context, session: &str) -> Result<Option<String>> {
    // Its own session: a terminal that closes does not take it along.
    let _ = rustix::process::setsid();
    let (store, host, options) = (context.open()?, context.host()?, context.own_config()?.summary);
    let api = |question: &_| model::ask(&options, question, &|name| host.variable(name));
    let done = match ask(&store, &host, &options, session, &api, &Log("summary"))? {
        AskOutcome::Answered(summary) => {
            format!("{} has summed up checkpoint {}", summary.generated_by.shown(), summary.checkpoint)
        }
        AskOutcome::Same => "the model has summed up the same text before".into(),
        AskOutcome::ByAnother | AskOutcome::Nothing => return Ok(None),
    };
    Ok(Some(done))
}
