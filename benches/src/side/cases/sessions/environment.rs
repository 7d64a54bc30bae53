//! The environment: the agent's program, Python and its packages, variables.

use super::Place;
use super::project::agent;
use crate::error::{Context, Result};
use crate::process;
use crate::side::lab::Lab;
use crate::side::launch::Job;

/// Notes the size of the agent's program in bytes, which is hashed once; nothing if no agent is installed.
pub fn note_agent(lab: &mut Lab, place: &Place) -> Result<()> {
    // Whatever it reads is in the page cache from here on.
    process::run(&mut place.step(&["env", "show"]).command()?)?;
    if let Some(agent) = agent() {
        let bytes = agent.metadata().context(|| format!("ask for the length of {}", agent.display()))?.len();
        lab.figures.set("environment/agent_bytes", bytes as f64);
    }
    Ok(())
}

/// With nothing cached of it, and once more.
pub fn capture(lab: &mut Lab, place: &Place) -> Result<()> {
    process::remove(&place.project.cache())?;
    for case in ["environment-cold", "environment-cached"] {
        let step = place.step(&["env", "show", "--json"]);
        let outcome = lab.runner.run(&Job { steps: vec![step], sync: None })?;
        lab.figures.add(case, "parhelia", outcome);
    }
    Ok(())
}
