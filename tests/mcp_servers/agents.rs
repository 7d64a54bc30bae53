//! The real agent with servers of its own: their state goes into checkpoints, and comes back with them.

use std::{fs, path::PathBuf, process::Child};

use parhelia_tests::{
    agent::{Agent, Block, Reply, tool},
    binary,
    live::{Live, kill, shown, wait},
    write,
};
use serde_json::{Value, json};

use crate::mcp_servers::programs::{Words, notes, odd};

/// The user's servers, each by its command line and its variables.
pub fn configure(live: &Live, servers: &[(&str, &Words, Value)]) {
    let server = |(name, words, env): &(&str, &Words, Value)| {
        ((*name).to_owned(), json!({"command": words[0], "args": words[1..], "env": env}))
    };
    let servers: serde_json::Map<String, Value> = servers.iter().map(server).collect();
    let file = json!({"numStartups": 7, "hasCompletedOnboarding": true, "mcpServers": servers});
    write(&live.agent.home().join(".claude.json"), serde_json::to_string_pretty(&file).unwrap().as_bytes()).unwrap();
}

/// Has the agent call a tool in a run of its own; returns what the tool has told it.
pub fn told(live: &Live, call: Block, run: impl FnOnce(&Live) -> Child) -> String {
    let seen = live.api.exchanges().len();
    live.api.then([connected(), Reply::of([call]), Reply::text("Done.")]);
    let output = run(live).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    result(live, seen + 3)
}

/// Has the agent wait until its servers are there. Where they are already it says that there is no such tool.
fn connected() -> Reply {
    Reply::of([tool("WaitForMcpServers", json!({}))])
}

/// The answer of the tool that was called last before the agent's request of this number.
fn result(live: &Live, number: usize) -> String {
    let exchanges = live.api.wait_for(number);
    let (_, result) = exchanges[number - 1].blocks("tool_result").pop().unwrap();
    let text = match &result["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    assert_ne!(result["is_error"], true, "{text}");
    // A tool of the Python package gives its text in an object, too, and that is what the agent hands on.
    let object = serde_json::from_str::<Value>(&text).unwrap_or_default();
    object["result"].as_str().map(str::to_owned).unwrap_or(text)
}

/// The state of a server in a checkpoint.
pub fn kept(live: &Live, checkpoint: &str, server: &str) -> Value {
    let servers: Value = serde_json::from_slice(&live.state(checkpoint, "mcp/servers.json")).unwrap();
    servers["servers"][server].clone()
}

fn add(text: &str) -> Block {
    tool("mcp__notes__add_note", json!({ "text": text }))
}

fn list() -> Block {
    tool("mcp__notes__list_notes", json!({}))
}

/// An agent that has called a tool, and is in the middle of another one that does not end before the workspace is gone.
pub fn in_a_tool(live: &Live, call: Block, run: impl FnOnce(&Live) -> Child) -> Child {
    let flag = live.agent.workspace().join("busy");
    let _ = fs::remove_file(&flag);
    let busy = tool("Bash", json!({"command": "touch busy; while test -e busy; do sleep 0.1; done", "timeout": 600_000}));
    live.api.then([connected(), Reply::of([call]), Reply::of([busy])]);
    let seen = live.api.exchanges().len();
    let child = run(live);
    wait(|| flag.exists().then_some(()));
    result(live, seen + 3);
    child
}

/// A checkpoint that somebody makes from outside.
pub fn create(live: &Live, session: &str) -> String {
    let workspace = live.agent.workspace();
    let arguments = ["checkpoint", "create", session, "--workspace", workspace.to_str().unwrap()];
    live.objects(&arguments, "summary")[0]["id"].as_str().unwrap().to_owned()
}

/// The session's id, before it has a checkpoint.
pub fn session(live: &Live) -> String {
    let sessions = live.objects(&["session", "list"], "session");
    sessions[0]["id"].as_str().unwrap().to_owned()
}

/// The user's own file with servers.
fn own_file(live: &Live) -> PathBuf {
    live.agent.home().join(".claude.json")
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn a_servers_memory_goes_back_with_the_session() {
    let Some(live) = Live::new() else { return };
    configure(&live, &[("notes", &notes(), json!({}))]);
    let text = live.expect(&["hooks", "install", "--mcp"]);
    assert!(text.contains("A proxy was put before each MCP server") && text.contains("notes"), "{text}");
    let child = in_a_tool(&live, add("the old one"), |live| live.start("remember the old one"));
    let session = session(&live);
    let old = create(&live, &session);
    let server = kept(&live, &old, "notes");
    assert_eq!((&server["kept"], &server["scope"], &server["transport"]), (&json!("state"), &json!("user"), &json!("stdio")));
    assert_eq!(server["mime_type"], "application/json", "{server}");
    assert_eq!(remembered(&live, &old), json!(["the old one"]));

    // What is made when agent and server are dead has what was captured last.
    kill(live.agent_process());
    child.wait_with_output().unwrap();
    let first = newest(&live, &session);
    assert_ne!(first, old);
    assert_eq!(remembered(&live, &first), json!(["the old one"]));
    // The server outlives its agent by a moment, in which it still answers.
    wait(|| fs::read_dir(live.store().join("mcp/live")).unwrap().next().is_none().then_some(()));
    let ending = create(&live, &session);
    assert_eq!(remembered(&live, &ending), json!(["the old one"]));
    assert!(kept(&live, &ending, "notes")["as_of"].is_string(), "it is told that the server did not run");

    // A plain resume goes on with it.
    told(&live, add("the new one"), |live| live.resume(&session, "remember the new one"));
    let after = newest(&live, &session);
    assert_eq!(remembered(&live, &after), json!(["the old one", "the new one"]), "{:#?}", live.checkpoints(&session));
    let given = kept(&live, &after, "notes")["given_back"].clone();
    assert_eq!(given, json!({"checkpoint": ending}), "it was given back without an error");
    assert_eq!(told(&live, list(), |live| live.resume(&session, "list")), "the old one\nthe new one");

    // Back, in both ways.
    let from_old = ["session", "resume", &session, "--from", &old, "--yes", "--prompt", "list"];
    assert_eq!(told(&live, list(), |live| live.command(&from_old).spawn().unwrap()), "the old one");
    live.expect(&["checkpoint", "rollback", &after, "--yes"]);
    assert_eq!(told(&live, list(), |live| live.resume(&session, "list")), "the old one\nthe new one");
    live.expect(&["checkpoint", "rollback", &old, "--yes"]);
    assert_eq!(told(&live, list(), |live| live.resume(&session, "list")), "the old one");
    live.expect(&["check"]);
}

/// The newest checkpoint of a session.
fn newest(live: &Live, session: &str) -> String {
    live.checkpoints(session)[0]["id"].as_str().unwrap().to_owned()
}

/// The notes that a checkpoint has of the server.
fn remembered(live: &Live, checkpoint: &str) -> Value {
    let server = kept(live, checkpoint, "notes");
    let file = server["file"].as_str().unwrap_or_else(|| panic!("{server}"));
    serde_json::from_slice::<Value>(&live.state(checkpoint, file)).unwrap()["notes"].clone()
}

#[test]
fn a_server_that_ends_when_it_is_asked_makes_the_checkpoint_incomplete() {
    let Some(live) = Live::new() else { return };
    configure(&live, &[("odd", &odd(&["crashes-later"]), json!({}))]);
    live.expect(&["hooks", "install", "--mcp"]);
    let echo = tool("mcp__odd__echo", json!({"text": "x"}));
    let child = in_a_tool(&live, echo, |live| live.start("talk with it"));
    let session = session(&live);
    let old = create(&live, &session);
    assert_eq!(kept(&live, &old, "odd")["as_of"], Value::Null);
    let workspace = live.agent.workspace();
    fs::write(workspace.join("crash"), "").unwrap();
    let words = ["checkpoint", "create", &session, "--workspace", workspace.to_str().unwrap()];
    let output = live.command(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", shown(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("odd: it has ended; its state is of"), "{said}");
    let server = kept(&live, &newest(&live, &session), "odd");
    assert!(server["kept"] == "state" && server["as_of"].is_string(), "{server}");
    kill(live.agent_process());
    child.wait_with_output().unwrap();
}

#[test]
fn proxies_are_taken_out_again() {
    let Some(live) = Live::new() else { return };
    configure(&live, &[("notes", &notes(), json!({"A": "ü"})), ("bare", &vec!["serve".into()], json!({}))]);
    let before = fs::read_to_string(own_file(&live)).unwrap();
    live.expect(&["hooks", "install", "--mcp"]);
    let wrapped = fs::read_to_string(own_file(&live)).unwrap();
    assert_eq!(wrapped.matches("mcp-proxy").count(), 2, "{wrapped}");
    let status = live.expect(&["hooks", "status"]);
    assert!(status.contains("A proxy stands before these MCP servers: notes, bare."), "{status}");
    assert!(live.expect(&["hooks", "install", "--mcp"]).contains("already"));
    assert_eq!(fs::read_to_string(own_file(&live)).unwrap(), wrapped);
    live.expect(&["hooks", "uninstall"]);
    let after = fs::read_to_string(own_file(&live)).unwrap();
    assert_eq!(without_space(&after), without_space(&before));
    live.expect(&["hooks", "uninstall"]);
    assert_eq!(fs::read_to_string(own_file(&live)).unwrap(), after);
}

#[test]
fn servers_of_a_project_are_reached_by_the_name_of_the_program() {
    let Some(live) = Live::new() else { return };
    let words = notes();
    let file = live.agent.workspace().join(".mcp.json");
    let servers = json!({"mcpServers": {"notes": {"command": words[0], "args": words[1..]}}});
    fs::write(&file, servers.to_string()).unwrap();
    write(&live.agent.config().join("settings.json"), br#"{"enableAllProjectMcpServers": true}"#).unwrap();
    live.expect(&["hooks", "install", "--mcp", "--project", live.agent.workspace().to_str().unwrap()]);
    let wrapped: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(wrapped["mcpServers"]["notes"]["command"], "parhelia");
    let path = format!("{}:{}", binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let run = |live: &Live| {
        let mut command = live.command(&["session", "run", "--workspace", live.agent.workspace().to_str().unwrap(), "--"]);
        command.arg(live.agent.program()).args(Agent::headless("remember")).env("PATH", &path);
        command.spawn().unwrap()
    };
    let child = in_a_tool(&live, add("of the project"), run);
    let session = session(&live);
    let made = create(&live, &session);
    assert_eq!(remembered(&live, &made), json!(["of the project"]));
    assert_eq!(kept(&live, &made, "notes")["scope"], "project");
    kill(live.agent_process());
    child.wait_with_output().unwrap();
    live.expect(&["hooks", "uninstall", "--project", live.agent.workspace().to_str().unwrap()]);
    assert_eq!(without_space(&fs::read_to_string(&file).unwrap()), without_space(&servers.to_string()));
}
