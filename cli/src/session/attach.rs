//! `session attach`: shows the tmux session in which a session's agent works.

use parhelia_ledger::LedgerView as _;
use std::io::IsTerminal;

use parhelia_host::{
    Refusal,
    run::{self, has_agent},
};
use parhelia_life::tmux::TmuxSession;
use parhelia_wire::Summary;

use super::tmux;
use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `session attach`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name
    #[arg(add = complete::sessions())]
    session: String,
}

/// Becomes tmux. Where there is no terminal, the command that attaches is printed.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let session = store.view().session_named(&args.session)?;
    let id = &session.id;
    let last = store.view().newest_run(&session)?;
    let unknown = last.as_ref().and_then(run::why_unknown);
    let Some(run) = last.filter(|run| run::life(run).is_alive()) else {
        if !has_agent(&session) {
            return Err(Refusal::NoAgent { action: "attach to", session: id.clone() }.into());
        }
        let what = unknown
            .map_or_else(|| "it has no live agent".to_owned(), |why| format!("whether it has a live agent is not known ({why})"));
        let text = format!("cannot attach to session {id}: {what}\n`parhelia session resume {id} --tmux` starts it in tmux");
        return Err(Failure::Refused(text));
    };
    let Some(shown) = TmuxSession::of(&run) else {
        return Err(Failure::Refused(format!(
            "cannot attach to session {id}: its agent is not in tmux, but in another terminal"
        )));
    };
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if is_terminal && !context.out.json {
        context.out.flush()?;
        drop(store);
        return Err(tmux::attach(&context.host()?, &shown));
    }
    let attach = tmux::command_text(&shown);
    context.out.line(&attach)?;
    context.out.summary(Summary::SessionAttach { id: id.clone(), attach })?;
    Ok(Code::Done)
}
