//! `env`: one file per verb.

pub mod diff;
mod show;

use std::{ffi::OsString, path::Path};

use clap::Subcommand;
use parhelia_agent::{
    command::Agent,
    environment::{self, Cache, Request, Snapshot, recorded},
    kind::KINDS,
};
use parhelia_session::{resume::state_bytes, run};
use parhelia_store::{
    Store, clock,
    fold::{Run, Session},
    record::Checkpoint,
};

use crate::{
    context::Context,
    exit::{Code, Result},
    session::agent::with_own_folder,
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

/// The environment of a workspace as it is now, for the agent that a command line starts.
pub fn now(context: &Context, workspace: &Path, argv: &[OsString]) -> Result<Snapshot> {
    Ok(environment::capture(&request(context, workspace, argv)?))
}

/// What was executed as a run.
pub fn argv(run: Option<&Run>) -> Vec<OsString> {
    run.map(Run::command).unwrap_or_default()
}

/// What was executed as a session's last run; nothing where that is not known.
pub fn last_argv(store: &Store, session: &str) -> Result<Vec<OsString>> {
    let view = store.view();
    let run = view.session(session)?.and_then(|session| session.run);
    Ok(argv(run.map(|id| view.run(&id)).transpose()?.flatten().as_ref()))
}

/// All Python packages of a checkpoint's environment; none where they were not captured, or cannot be read.
pub fn packages(store: &Store, checkpoint: &Checkpoint) -> Option<String> {
    let bytes = state_bytes(store, checkpoint, "pip_freeze.txt").ok().flatten()?;
    String::from_utf8(bytes).ok()
}

/// What has to be looked at to tell the environment of a workspace, for the agent that a command line starts: its own program, and the
/// servers that it is given. Of a command line that starts no agent nothing is run, and the agent is the one on the search path.
pub fn request(context: &Context, workspace: &Path, argv: &[OsString]) -> Result<Request> {
    let settings = context.config(workspace)?.environment;
    let agent = Agent::of(argv);
    let program = agent.as_ref().and_then(Agent::program).map(|program| match Path::new(program).components().count() {
        0 | 1 => program.clone(),
        _ => workspace.join(program).into_os_string(),
    });
    let kind = agent.as_ref().map_or(KINDS[0], Agent::kind);
    let files = agent.map(|agent| agent.mcp_config()).unwrap_or_default();
    Ok(Request {
        kind,
        workspace: workspace.to_owned(),
        variables: std::env::vars_os().collect(),
        agent: program.unwrap_or_else(|| "claude".into()),
        mcp_config: files.iter().map(|file| workspace.join(file)).collect(),
        also: settings.variables,
        never: settings.deny_variables,
        packages: settings.packages,
        cache: Cache::new(context.cache_folder().map(|folder| folder.join("environment"))),
        now: clock::timestamp(),
    })
}

/// The same for a checkpoint that is made from outside of a session: its variables are not this process's, but those that its live agent was
/// started with. Where no agent can be seen, the work's are as they were last.
pub fn request_for(context: &Context, store: &Store, workspace: &Path, session: &str) -> Result<Request> {
    let view = store.view();
    let known = view.session(session)?;
    let run = known.as_ref().and_then(|known| known.run.as_deref()).map(|id| view.run(id)).transpose()?.flatten();
    let request = request(context, workspace, &argv(run.as_ref()))?;
    if let Some(variables) = run.as_ref().and_then(run::variables_of) {
        return Ok(Request { variables, ..request });
    }
    let config = known.as_ref().map(|known| run::config_of_session(store, known)).transpose()?.flatten();
    let last = view.head(session)?.and_then(|head| head.record.environment);
    let variables = recorded(with_own_folder(request.variables, config.as_ref()), last.as_ref(), &request.also);
    Ok(Request { variables, ..request })
}

/// The same for a safety checkpoint; none where no agent has worked in the session.
pub fn request_for_safety(context: &Context, store: &Store, workspace: &Path, session: &Session) -> Result<Option<Request>> {
    session.run.as_ref().map(|_| request_for(context, store, workspace, &session.id)).transpose()
}
