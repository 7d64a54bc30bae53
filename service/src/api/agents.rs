//! The kinds of agents that sessions can begin with.

use std::path::Path;

use axum::{Json, extract::State, routing::get};
use parhelia_agent::kinds;
use parhelia_life::supervise::ensure_startable;
use schemars::JsonSchema;
use serde::Serialize;

use super::operation::{Answer, Operation};
use crate::app::{App, read};

/// The kinds of agents that sessions can begin with.
#[derive(Debug, Serialize, JsonSchema)]
struct Agents {
    /// Kinds of agents: those that are built in, and those that the user has declared.
    agents: Vec<Agent>,
}

/// A kind of agent.
#[derive(Debug, Serialize, JsonSchema)]
struct Agent {
    /// Its name in records.
    kind: String,
    /// Its name for people.
    title: String,
    /// The name of its program, with which a command line begins.
    program: String,
    /// True if that program is in a folder of the PATH that agents get which the service begins.
    installed: bool,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/v1/agents", "listAgents", "Kinds of agents that are known, and whether each is installed.", get(list))
            .gives::<Agents>(),
    ]
}

async fn list(State(app): State<App>) -> Answer<Agents> {
    read(&app, |app, _| {
        let agents = kinds::all().into_iter().map(|kind| Agent {
            kind: kind.name().to_owned(),
            title: kind.title().to_owned(),
            program: kind.program_name().to_owned(),
            installed: ensure_startable(&*app.host, &[kind.program_name().into()], Path::new("/")).is_ok(),
        });
        Ok(Json(Agents { agents: agents.collect() }))
    })
    .await
}
