//! The variables that the launch of a run had. Only these are set again at a resume: what a checkpoint has of variables may be those of a hook or a
//! tool, in which a project's settings and the agent itself put what they like.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use parhelia_agent::environment::launched;
use parhelia_ledger::{LedgerView as _, Run, kind};
use parhelia_store::{Store, event::NewEvent};
use serde_json::{Value, json};

use super::{
    current::Current,
    life::{agent_of, hooked_agent_of},
};
use crate::{Host, Result, run::belongs_to};

/// Values by name. None is a secret by its name; secrets inside values are redacted; what is not UTF-8 is left out.
pub type Variables = BTreeMap<String, String>;

/// The field of a run with the variables that its launch had.
pub const LAUNCH_VARIABLES: &str = "launch_variables";

/// The variables that the launch of a run had; none where that is not known.
pub fn launch_variables(run: &Run) -> Option<Variables> {
    serde_json::from_value(run.extra.get(LAUNCH_VARIABLES)?.clone()).ok()
}

/// The same of the newest run of some that is known.
pub fn launch_variables_in(store: &Store, runs: &[String]) -> Result<Option<Variables>> {
    let view = store.view();
    for id in runs.iter().rev() {
        if let Some(found) = view.run(id)?.as_ref().and_then(launch_variables) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The variables that a launch by this caller has; none where the caller is an agent, or was started by one.
pub fn of_caller(store: &Store, host: &dyn Host, workspace: &Path) -> Result<Option<Variables>> {
    match belongs_to(store, host)? {
        Some(_) => Ok(None),
        None => kept(host, workspace, &host.variables()).map(Some),
    }
}

/// Records the variables that a run's agent was started with, where its launch was not seen, as that of an agent that is known by its hooks.
pub fn note(store: &Store, host: &dyn Host, current: &Current) -> Result<()> {
    let Some(run) = store.view().run(&current.run)?.filter(|run| run.is_open() && !run.extra.contains_key(LAUNCH_VARIABLES))
    else {
        return Ok(());
    };
    let agent = agent_of(&run).into_iter().chain(hooked_agent_of(&run)).find_map(|agent| agent.variables().ok());
    let Some(variables) = agent else { return Ok(()) };
    let kept = kept(host, &current.workspace, &variables)?;
    let changed = NewEvent::new(kind::RUN_CHANGED, &current.run, super::hook_actor()).in_epoch(current.epoch);
    store.append_events(&[changed.with(LAUNCH_VARIABLES, json!(kept))], &())?;
    Ok(())
}

/// The work's variables among these, without secrets.
fn kept(host: &dyn Host, workspace: &Path, variables: &[(OsString, OsString)]) -> Result<Variables> {
    let settings = host.config(workspace)?.environment;
    Ok(launched(variables, &settings.variables, &settings.deny_variables))
}

/// Variables as a checkpoint's environment has them.
pub fn as_environment(variables: &Variables) -> Value {
    json!({ "variables": variables })
}
