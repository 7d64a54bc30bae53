//! `session review`: what was done since the last state that a person approved, and deciding about it: on a screen, by a line, or printed.

mod caller;
mod line;
mod print;

use std::{io::IsTerminal, sync::Arc};

use parhelia_ledger::{LedgerView as _, Session};
use parhelia_life::review_report::Review;
use parhelia_screen::{Next, Outcome, review};
use parhelia_store::{Error, Store};

use self::caller::AtTerminal;
use super::{decide, resume};
use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    interrupt,
};

/// Flags of `session review`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session [default: the one of this folder's newest checkpoint]
    #[arg(add = complete::sessions())]
    session: Option<String>,
    /// Print it, also on a terminal
    #[arg(long)]
    print: bool,
}

/// The way in which a review is shown.
enum How {
    Printed,
    ByLine,
    OnScreen,
}

impl How {
    fn of(context: &Context, args: &Args) -> Self {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        match std::env::var_os("TERM").filter(|term| !term.is_empty() && term != "dumb") {
            _ if args.print || context.out.json || !is_terminal => How::Printed,
            None => How::ByLine,
            Some(_) => How::OnScreen,
        }
    }
}

/// The step after a review.
enum FollowUp {
    Done(Code),
    /// The session is resumed.
    Continue,
}

/// Shows it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let handled = interrupt::install(&context.cancel())?;
    let store = context.open()?;
    let name = match &args.session {
        Some(name) => name.clone(),
        None => context.find(&store, "latest")?.record.session,
    };
    let session = store.view().session_named(&name)?;
    let id = session.id.clone();
    let then = match How::of(context, args) {
        How::Printed => FollowUp::Done(print::print(context, &store, &Review::of(&store, session)?)?),
        How::ByLine => line::review(context, Arc::new(store), session)?,
        How::OnScreen => on_screen(context, Arc::new(store), session)?,
    };
    // From here on signals are the resumed agent's.
    drop(handled);
    match then {
        FollowUp::Done(code) => Ok(code),
        FollowUp::Continue => resume::run(context, &resume::Args::of(id)),
    }
}

fn on_screen(context: &mut Context, store: Arc<Store>, session: Session) -> Result<FollowUp> {
    let caller = AtTerminal::new(context)?;
    let Outcome { next, decisions } = review(&caller, store.clone(), session).map_err(|error| match error {
        parhelia_screen::Error::Session(error) => Failure::Session(error),
        parhelia_screen::Error::Terminal(source) => Failure::File { action: "use", path: "the terminal".into(), source },
    })?;
    for (checkpoint, verdict, decided) in &decisions {
        decide::tell(context, &store, *checkpoint, *verdict, decided)?;
    }
    match next {
        Next::Quit => Ok(FollowUp::Done(Code::Done)),
        Next::Continue => Ok(FollowUp::Continue),
        Next::Stopped => Err(Error::Cancelled.into()),
    }
}
