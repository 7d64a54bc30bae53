//! `session stop`: ends the agent of a session.

use std::time::Duration;

use parhelia_ledger::{Goal, LedgerView as _};
use parhelia_life::ending;
use parhelia_store::lock::has_service;
use parhelia_wire::Summary;

use super::pause::last_checkpoint;
use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
};

/// Flags of `session stop`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name
    #[arg(add = complete::sessions())]
    session: String,
    /// Keep the session wanted, so that `session resume --all` and `session recover` bring it back
    #[arg(long)]
    keep_wanted: bool,
    /// Seconds that the agent may take to end, before and after it is killed
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    patience: u64,
}

/// Ends the agent, and makes a last checkpoint.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let session = store.view().session_named(&args.session)?;
    let (id, patience) = (&session.id, Duration::from_secs(args.patience));
    let progress = context.progress();
    let stopped = ending::stop(&store, &context.host()?, &session, args.keep_wanted, patience, &progress)?;
    drop(progress);
    if let Some(made) = &stopped.made {
        last_checkpoint(context, made).1.iter().for_each(|failure| tell!("parhelia: {failure}"));
    }
    if let Some(e) = &stopped.failed {
        tell!(
            "parhelia: the agent was ended, and no last checkpoint could be made: {e}\nOnce that is mended, `parhelia checkpoint create {id}` \
             in its folder makes one"
        );
    }
    let (was, next) = match (stopped.was_alive, &stopped.unknown) {
        (true, _) => ("has ended".to_owned(), "brings it back"),
        (false, Some(why)) => (format!("was not stopped: whether it lives is not known ({why})"), "starts it"),
        (false, None) => ("was not alive".to_owned(), "starts it"),
    };
    context.out.did(format!("the agent of session {id} {was}"));
    let wanted = match stopped.goal {
        Goal::Running if has_service(store.path()) => "is still wanted: the service resumes it within seconds",
        Goal::Running => "is still wanted: `session resume --all` resumes it",
        _ => "is set aside: `session resume --all` leaves it alone",
    };
    context.out.remark(match stopped.goal {
        Goal::Ended => format!("The agent of session {id} has ended, as the session had before."),
        _ => format!("The agent of session {id} {was}. The session {wanted}; `parhelia session resume {id}` {next}."),
    })?;
    context.out.summary(Summary::SessionStop {
        id: id.clone(),
        stopped: stopped.was_alive,
        wanted: stopped.goal.name().into(),
    })?;
    Ok(if stopped.failed.is_some() { Code::Partly } else { Code::Done })
}
