//! `env`: one file per verb.

pub mod diff;
mod show;

use std::{ffi::OsString, path::Path};

use clap::Subcommand;
use parhelia_agent::environment::{self, Snapshot};
use parhelia_ledger::LedgerView as _;
use parhelia_life::environment::{argv, request};
use parhelia_store::Store;

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// The verbs of `env`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show an environment: that of a checkpoint, or as it is now
    Show(show::Args),
    /// Compare the environments of two checkpoints, or of one with what it is now
    Diff(diff::Args),
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::Show(args) => show::run(context, args),
            Verb::Diff(args) => diff::run(context, args),
        }
    }
}

/// The environment of a workspace as it is now, for the agent that a command line starts.
pub fn now(context: &Context, workspace: &Path, argv: &[OsString]) -> Result<Snapshot> {
    Ok(environment::capture(&request(&context.host()?, workspace, argv)?))
}

/// The command line of a session's last run; empty where it is not known.
pub fn last_argv(store: &Store, session: &str) -> Result<Vec<OsString>> {
    let view = store.view();
    let run = view.session(session)?.map(|session| view.newest_run(&session)).transpose()?.flatten();
    Ok(argv(run.as_ref()))
}
