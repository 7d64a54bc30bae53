//! The places to look at for the environment of a session's agent.

use std::{ffi::OsString, path::Path};

use parhelia_agent::{
    command::Agent,
    environment::{Cache, Request, recorded, steers},
    folder::ConfigFolder,
    kinds::KINDS,
};
use parhelia_ledger::{LedgerView as _, Run, Session};
use parhelia_store::{Store, record::Checkpoint};

use parhelia_host::{Host, Result, run, state::state_bytes};

/// The command line of a run; empty where it is not known.
pub fn argv(run: Option<&Run>) -> Vec<OsString> {
    run.map(Run::command).unwrap_or_default()
}

/// The environment of a workspace, for the agent that a command line starts: its own program, and the servers that it is given. Of a command
/// line that starts no agent nothing is run, and the agent is the one on the search path.
pub fn request(host: &dyn Host, workspace: &Path, argv: &[OsString]) -> Result<Request> {
    let settings = host.config(workspace)?.environment;
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
        variables: host.variables(),
        agent: program.unwrap_or_else(|| "claude".into()),
        mcp_config: files.iter().map(|file| workspace.join(file)).collect(),
        also: settings.variables,
        never: settings.deny_variables,
        packages: settings.packages,
        cache: Cache::new(host.cache_folder().map(|folder| folder.join("environment"))),
        now: host.now(),
    })
}

/// The same for a checkpoint that is made from outside of a session: its variables are not the caller's, but those that its live agent was
/// started with. Where no agent can be seen, the work's are as its last launch had them.
pub fn request_for(host: &dyn Host, store: &Store, workspace: &Path, session: &str) -> Result<Request> {
    request_among(host, store, workspace, session, &|_| true)
}

/// The same for what is done for a session, and not only recorded: of its last launch, nothing counts that says where anything connects to.
pub fn request_to_act(host: &dyn Host, store: &Store, workspace: &Path, session: &str) -> Result<Request> {
    let also = host.config(workspace)?.environment.variables;
    request_among(host, store, workspace, session, &|name| !steers(name, &also))
}

fn request_among(
    host: &dyn Host,
    store: &Store,
    workspace: &Path,
    session: &str,
    counts: &dyn Fn(&str) -> bool,
) -> Result<Request> {
    let view = store.view();
    let known = view.session(session)?;
    let run = known.as_ref().map(|known| view.newest_run(known)).transpose()?.flatten();
    let request = request(host, workspace, &argv(run.as_ref()))?;
    if let Some(variables) = run.as_ref().and_then(run::variables_of) {
        return Ok(Request { variables, ..request });
    }
    let config = known.as_ref().map(|known| run::config_of_session(store, known)).transpose()?.flatten();
    let launched = known.as_ref().map(|known| run::launch_variables_in(store, &known.runs)).transpose()?.flatten();
    // Of a session of an earlier release, or whose agent ran elsewhere, the work's are as they were last.
    let known = match launched {
        None => view.head(session)?.and_then(|head| variables_of(&head)),
        launched => launched,
    };
    let environment = known.map(|mut known| {
        known.retain(|name, _| counts(name));
        run::as_environment(&known)
    });
    let variables = recorded(with_own_folder(host, request.variables, config.as_ref()), environment.as_ref(), &request.also);
    Ok(Request { variables, ..request })
}

/// The variables that a checkpoint has; none where they were not captured.
fn variables_of(checkpoint: &Checkpoint) -> Option<run::Variables> {
    let all = checkpoint.record.environment.as_ref()?.get("variables")?.as_object()?;
    Some(all.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect())
}

/// The same for a safety checkpoint; none where no agent has worked in the session.
pub fn request_for_safety(host: &dyn Host, store: &Store, workspace: &Path, session: &Session) -> Result<Option<Request>> {
    session.run.as_ref().map(|_| request_for(host, store, workspace, &session.id)).transpose()
}

/// The variables by which an agent finds its own folder, where the caller's name another one.
pub fn own_folder(host: &dyn Host, config: Option<&ConfigFolder>) -> Vec<(String, Option<OsString>)> {
    config.map(|config| config.environment(host.config_folder(config.kind()).as_ref())).unwrap_or_default()
}

/// These variables, as an agent has them that works with its own folder.
pub fn with_own_folder(
    host: &dyn Host,
    mut variables: Vec<(OsString, OsString)>,
    config: Option<&ConfigFolder>,
) -> Vec<(OsString, OsString)> {
    for (name, value) in own_folder(host, config) {
        variables.retain(|(known, _)| *known != *name);
        variables.extend(value.map(|value| (name.into(), value)));
    }
    variables
}

/// All Python packages of a checkpoint's environment; none where they were not captured, or cannot be read.
pub fn packages(store: &Store, checkpoint: &Checkpoint) -> Option<String> {
    let bytes = state_bytes(store, checkpoint, "pip_freeze.txt").ok().flatten()?;
    String::from_utf8(bytes).ok()
}
