//! What a resumed agent is told.

use std::fs;

use parhelia_tests::{
    agent::{Reply, tool},
    live::{Live, kill, shown, wait},
};
use serde_json::{Value, json};

#[test]
fn a_tool_call_that_was_interrupted_is_told_and_not_repeated() {
    let Some(live) = Live::new() else { return };
    let workspace = live.agent.workspace();
    let command = "echo started >> starts; for i in $(seq 6000); do sleep 0.05; done # of-the-interrupted-call";
    live.api.then([
        Reply::of([tool("Write", json!({ "file_path": workspace.join("made.txt"), "content": "done before\n" }))]),
        Reply::of([tool("Bash", json!({ "command": command, "timeout": 600_000 }))]),
    ]);
    let child = live.start("start it and wait");
    wait(|| workspace.join("starts").exists().then_some(()));
    let conversation = live.api.wait_for(2)[0].session.clone().unwrap();
    wait(|| {
        fs::read_to_string(live.agent.transcript(&conversation)).ok().filter(|said| said.contains("of-the-interrupted-call"))
    });
    kill(live.agent_process());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", shown(&output));
    let session = live.session();
    let index: Value = serde_json::from_slice(&live.state(&format!("{session}@latest"), "conversation.json")).unwrap();
    assert_eq!(index["summary"]["pending_tool_calls"].as_array().map(Vec::len), Some(1), "{}", index["summary"]);

    live.api.then([Reply::text("I look first.")]);
    let seen = live.api.exchanges().len();
    let text = live.expect(&["session", "resume", &session, "--prompt", "go on"]);
    assert!(text.contains("I look first."), "{text}");
    let asked = live.api.wait_for(seen + 1);
    let said = asked.last().unwrap().text();
    let (_, told) = said.split_once("## Interrupted tool calls").unwrap_or_else(|| panic!("it is not told: {said}"));
    let told = told.split("\n## ").next().unwrap_or_default();
    assert!(told.contains("were not repeated"), "{told}");
    let call = told.lines().find(|line| line.starts_with("- Bash: ")).unwrap_or_else(|| panic!("{told}"));
    assert!(call.contains(command), "{call}");
    assert!(!told.contains("made.txt"), "what has a result was not interrupted: {told}");
    assert_eq!(asked.len(), seen + 1);
    assert_eq!(fs::read_to_string(workspace.join("starts")).unwrap(), "started\n");
    assert!(live.processes(&session).is_empty());
}
