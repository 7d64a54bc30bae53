//! `parhelia mcp`, the server for the agent itself: under a client that is not ours, and under the real agent.

use std::{fs, os::unix::fs::symlink, process::Command};

use parhelia_tests::{
    Scratch,
    agent::{Reply, tool},
    binary,
    live::{Live, shown},
    write,
};
use serde_json::{Value, json};

use crate::mcp_servers::{agents::told, client::Client, programs};

#[test]
fn a_client_that_is_not_ours_finds_everything_as_described() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    let files: [(&str, &[u8]); 4] =
        [("text.txt", b"one\ntwo\n"), ("folder/ünder", b"below\n"), ("binary", b"\xff\0\xfe"), ("large", &[b'l'; 300_000])];
    for (path, bytes) in files {
        write(&workspace.join(path), bytes).unwrap();
    }
    fs::create_dir(workspace.join("folder/deeper")).unwrap();
    symlink("/etc", workspace.join("link")).unwrap();
    let ours = scratch.command(&["mcp"]);
    let mut client = Command::new(programs::python());
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/mcp_servers/own_client.py")).arg(&workspace).arg(ours.get_program());
    client.arg("mcp").env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = client.output().unwrap();
    assert!(output.status.success() && output.stdout == b"done\n", "{}", shown(&output));
    scratch.expect(0, &["check"]);
}

#[test]
fn lines_that_are_no_requests_do_not_end_it() {
    let scratch = Scratch::without_store();
    fs::create_dir(scratch.path("work")).unwrap();
    let mut client = Client::start(scratch.command(&["mcp"]).current_dir(scratch.path("work")));
    client.hello();
    for odd in [json!("text"), json!(7), json!([]), json!({}), json!({"jsonrpc": "2.0", "id": 99}), json!({"method": "x"})] {
        client.send(&odd);
    }
    let listed = client.request("tools/list", json!({}));
    assert!(listed["result"]["tools"].as_array().unwrap().len() >= 6, "{listed}");
    let listed = client.request("tools/call", json!({"name": "list_checkpoints", "arguments": {}}));
    assert_eq!(listed["result"]["isError"], true, "there is no store yet: {listed}");
    assert!(!scratch.store().exists(), "whoever reads makes none");
    client.close();
    assert_eq!(client.ended().code(), Some(0));
}

#[test]
fn the_agent_makes_a_checkpoint_of_its_own_session() {
    let Some(live) = Live::new() else { return };
    let servers = json!({"mcpServers": {"parhelia": {"command": binary(), "args": ["mcp"]}}});
    write(&live.agent.home().join(".claude.json"), servers.to_string().as_bytes()).unwrap();
    let call = tool("mcp__parhelia__create_checkpoint", json!({"message": "by the agent", "tags": ["mine"]}));
    // The agent writes its transcript behind its deed: a conversation's first turn may not be in it yet.
    live.api.then([Reply::text("Ready.")]);
    assert!(live.start("get ready").wait_with_output().unwrap().status.success());
    let made = told(&live, call, |live| live.resume(&live.session(), "make one"));
    let made: Value = serde_json::from_str(&made).unwrap_or_else(|e| panic!("{e}: {made}"));
    let id = made["checkpoint"]["id"].as_str().unwrap();
    let checkpoints = live.checkpoints(&live.session());
    let own = checkpoints.iter().find(|checkpoint| checkpoint["id"] == id).unwrap_or_else(|| panic!("{checkpoints:?}"));
    assert_eq!((&own["message"], &own["tags"]), (&json!("by the agent"), &json!(["mine"])), "{own}");
    assert!(own["run"].is_string() || own["run_id"].is_string(), "it belongs to the run: {own}");
    let said = live.state(id, "conversation/transcript.jsonl");
    assert!(String::from_utf8_lossy(&said).contains("get ready"), "it has the conversation");
}

/// Whoever knows an id gets no file of another folder by it; the session itself, what it went on from, and its folder are its own.
#[test]
fn checkpoints_of_other_folders_are_read_only_where_the_user_says_so() {
    let scratch = Scratch::new();
    let (own, other) = (scratch.path("own"), scratch.path("other"));
    for (folder, text) in [(&own, b"own\n"), (&other, b"key\n")] {
        write(&folder.join("file"), text).unwrap();
    }
    let (own_id, other_id) = (scratch.create("own", &own), scratch.create("other", &other));
    let ask = |calls: &[(&str, Value)]| -> Vec<(bool, String)> {
        let mut client = Client::start(scratch.command(&["mcp"]).current_dir(&own));
        client.hello();
        let answers = calls.iter().map(|(tool, arguments)| {
            let answer = client.request("tools/call", json!({"name": tool, "arguments": arguments}));
            let result = &answer["result"];
            (result["isError"] == true, result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
        });
        answers.collect()
    };
    let calls = [
        ("read_file", json!({"checkpoint": other_id, "path": "file"})),
        ("show_checkpoint", json!({"checkpoint": "other@latest"})),
        ("diff_checkpoints", json!({"old": own_id, "new": other_id, "path": "file"})),
        ("list_checkpoints", json!({"session": "other"})),
    ];
    for (call, (is_error, text)) in calls.iter().zip(ask(&calls)) {
        assert!(is_error && text.contains("mcp.read_others") && !text.contains("key\n"), "{call:?}: {text}");
    }
    let own_file = [("read_file", json!({"checkpoint": own_id, "path": "file"}))];
    assert_eq!(ask(&own_file), [(false, "own\n".to_owned())]);
    let found = ask(&[("search_checkpoints", json!({"query": "other"}))]);
    assert!(!found[0].0 && !found[0].1.contains(&other_id), "{found:?}");
    write(&scratch.path("home/.config/parhelia/parhelia.toml"), b"[mcp]\nread_others = true\n").unwrap();
    assert_eq!(ask(&calls[..1]), [(false, "key\n".to_owned())]);
}
