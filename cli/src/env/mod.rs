//! `env`: one file per verb.

pub mod diff;
mod show;

use std::path::Path;

use clap::Subcommand;
use jiff::Timestamp;
use parhelia_session::{
    environment::{self, Cache, Request, Snapshot},
    resume::state_bytes,
};
use parhelia_store::{Store, record::Checkpoint};

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// What to do with the environment of an agent.
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

/// The environment of a workspace as it is now.
pub fn now(context: &Context, workspace: &Path) -> Result<Snapshot> {
    Ok(environment::capture(&request(context, workspace)?))
}

/// All Python packages of a checkpoint's environment; none where they were not captured, or cannot be read.
pub fn packages(store: &Store, checkpoint: &Checkpoint) -> Option<String> {
    let bytes = state_bytes(store, checkpoint, "pip_freeze.txt").ok().flatten()?;
    String::from_utf8(bytes).ok()
}

/// What has to be looked at to tell the environment of a workspace.
pub fn request(context: &Context, workspace: &Path) -> Result<Request> {
    let settings = context.config(workspace)?.environment;
    Ok(Request {
        workspace: workspace.to_owned(),
        variables: std::env::vars_os().collect(),
        agent: "claude".into(),
        mcp_config: Vec::new(),
        also: settings.variables,
        never: settings.deny_variables,
        packages: settings.packages,
        cache: Cache::new(context.cache_folder().map(|folder| folder.join("environment"))),
        now: Timestamp::now(),
    })
}
