//! The tmux session in which an agent works.

use std::{path::Path, time::Duration};

use parhelia_agent::tmux::{self, Limits, Server};
use parhelia_ledger::Tmux;
use serde_json::{Value, json};

use parhelia_host::job::{Job, JobOutput};

/// The folder of `state` with what tmux showed.
pub const TMUX_FOLDER: &str = "tmux";
/// The file in it with everything but the text.
pub const TMUX_FILE: &str = "tmux.json";
/// The field in that file that names the pane of the agent.
pub const AGENT_PANE: &str = "agent_pane";

const TMUX_LIMIT: Duration = Duration::from_secs(5);

/// Captures what tmux shows of the session that a pane belongs to. A `tmux` in the workspace is not run.
pub fn tmux_job(place: Tmux, workspace: &Path) -> Job {
    let workspace = workspace.to_owned();
    Job::new(TMUX_FOLDER, move || {
        let server = Server::new(Some(place.socket.clone().into()), TMUX_LIMIT).outside(&workspace);
        let found = tmux::session_of(&server, &place.pane).and_then(|name| tmux::capture(&server, &name, Limits::default()));
        let found = found.map_err(|e| e.to_string())?;
        let mut state = json!(found.state);
        state[AGENT_PANE] = Value::from(place.pane.clone());
        let mut files = vec![(format!("{TMUX_FOLDER}/{TMUX_FILE}"), serde_json::to_vec_pretty(&state).unwrap_or_default())];
        files.extend(found.scrollback.into_iter().map(|text| (format!("{TMUX_FOLDER}/{}", text.name), text.bytes)));
        let error = (!found.problems.is_empty()).then(|| found.problems.join("; "));
        Ok(Some(JobOutput { files, error, ..JobOutput::default() }))
    })
}
