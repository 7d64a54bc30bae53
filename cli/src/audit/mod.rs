//! `audit`: who decided, deleted, went back or switched off a safety.

mod export;
mod log;
mod verify;

use clap::Subcommand;
use jiff::Timestamp;
use parhelia_ledger::LedgerView as _;
use parhelia_oversight::review::audit::{ACTIONS, Filter};
use parhelia_store::Store;

use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    when,
};

/// The verbs of `audit`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List decisions, overrides, deletions, rollbacks and changes of policies
    Log(log::Args),
    /// Write the audit as JSON Lines or CSV
    Export(export::Args),
    /// Prove that nothing was removed from the chain of events, or changed in it
    Verify(verify::Args),
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::Log(args) => log::run(context, args),
            Verb::Export(args) => export::run(context, args),
            Verb::Verify(args) => verify::run(context, args),
        }
    }
}

/// Flags that choose entries.
#[derive(Debug, clap::Args)]
struct FilterArgs {
    /// Only what concerns this session
    #[arg(long, value_name = "SESSION", add = complete::sessions())]
    session: Option<String>,
    /// Only acts whose name begins so, such as checkpoint.reject or policy.
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Only what was recorded since then: a time such as 2026-01-16, or an age such as 2h or 3d
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    since: Option<Timestamp>,
}

impl FilterArgs {
    fn filter(&self, store: &Store, without_automatic: bool) -> Result<Filter> {
        if let Some(action) =
            self.action.as_ref().filter(|action| !ACTIONS.iter().any(|known| known.starts_with(action.as_str())))
        {
            return Err(Failure::Usage(format!("no act's name begins with '{action}'; there are {}", ACTIONS.join(", "))));
        }
        let session = self.session.as_ref().map(|name| store.view().session_named(name)).transpose()?;
        Ok(Filter {
            session: session.map(|session| session.id),
            // Whoever asks for these wants to see them.
            without_automatic: without_automatic && self.action.is_none(),
            action: self.action.clone(),
            since: self.since,
        })
    }
}
