//! A state that waited for the server, given to it before the agent's first request.

use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parhelia_host::mcp::State;
use parhelia_life::mcp::{
    live::{GivenBack, TOOL},
    pending::{self, PendingState},
};
use parhelia_store::clock;
use serde_json::{Value, json};

use super::{
    ProxyTarget, Server, locked,
    ours::{Failure, ask},
};
use crate::state;

/// The time that a server has to take its state back. The agent waits as long, and does not wait longer.
const LIMIT: Duration = Duration::from_secs(10);

/// The state that waits for a server.
pub fn waiting(proxied: &ProxyTarget) -> Option<PendingState> {
    let folder = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
    pending::take(proxied.store.as_deref()?, &proxied.name, proxied.session.as_deref(), &folder, clock::timestamp())
}

/// Holds the agent's requests, and gives the server its state. Answers and notifications of the agent go on: the server may need them.
pub fn begin(server: &Arc<Server>, waiting: PendingState) {
    locked(&server.input).held = Some(Vec::new());
    let giving = server.clone();
    let thread = thread::Builder::new().name("state".into()).spawn(move || {
        let error = give(&giving, &waiting.state).err();
        match &error {
            None => giving.note(&format!("took back its state of checkpoint {}", waiting.checkpoint)),
            Some(why) => giving.note(&format!("did not take back its state of checkpoint {}: {why}", waiting.checkpoint)),
        }
        *locked(&giving.given_back) = Some(GivenBack { checkpoint: waiting.checkpoint, error });
        release(&giving);
    });
    match thread {
        Ok(thread) => *locked(&server.giving) = Some(thread),
        Err(_) => release(server),
    }
}

/// Passes on the requests that were held, in their order.
pub fn release(server: &Server) {
    let mut input = locked(&server.input);
    for line in input.held.take().unwrap_or_default() {
        let _ = input.write(&line);
    }
}

fn give(server: &Server, given: &State) -> Result<(), String> {
    let said = |failure| match failure {
        Failure::Refused { message, .. } => format!("it answered: {message}"),
        Failure::Ended => "it has ended".into(),
        Failure::Unanswered(why) => why,
    };
    let until = Instant::now() + LIMIT;
    let left = || until.saturating_duration_since(Instant::now());
    let mut cursor = json!({});
    let tool = loop {
        let page = ask(server, "tools/list", cursor, left()).map_err(said)?;
        match (tool_in(&page), page.get("nextCursor").and_then(Value::as_str)) {
            (Some(tool), _) => break tool.clone(),
            (None, Some(_)) if left().is_zero() => return Err(format!("it listed tools for {LIMIT:?}, and no {TOOL}")),
            (None, Some(next)) => cursor = json!({"cursor": next}),
            (None, None) => return Err(format!("it has no tool {TOOL}")),
        }
    };
    let result =
        ask(server, "tools/call", json!({"name": TOOL, "arguments": state::arguments(&tool, given)}), left()).map_err(said)?;
    state::refused(&result).map_or(Ok(()), Err)
}

/// The tool that takes a state back, in the result of `tools/list`.
fn tool_in(page: &Value) -> Option<&Value> {
    let mut tools = page.get("tools")?.as_array()?.iter();
    tools.find(|tool| tool.get("name").and_then(Value::as_str) == Some(TOOL))
}
