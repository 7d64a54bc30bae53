//! A session of Codex: the real agent, the real binary, against an API of ours.

use std::{fs, process::Stdio};

use parhelia_host::state::state_bytes;
use parhelia_tests::{
    agent::{Api, Codex, Reply, tool},
    live::{kill, shown, wait},
};
use serde_json::{Value, json};

const TRUSTED: &str = "--dangerously-bypass-hook-trust";

/// The only session in the store.
fn session(codex: &Codex) -> Value {
    let listed = codex.expect(&["session", "list", "--json"]);
    let sessions: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).filter(|v: &Value| v["type"] == "session").collect();
    assert_eq!(sessions.len(), 1, "{listed}");
    sessions[0].clone()
}

fn command(text: &str) -> Reply {
    Reply::of([tool("exec_command", json!({ "cmd": text, "yield_time_ms": 600_000 }))])
}

/// Everything that the agent sent with a request.
fn asked(api: &Api, number: usize) -> String {
    api.wait_for(number)[number - 1].request["input"].to_string()
}

#[test]
fn without_hooks_its_conversation_is_found_and_captured() {
    let api = Api::start([command("echo made > made.txt"), Reply::text("It is made.")]);
    let Some(codex) = Codex::new(&api) else { return };
    let output = codex.run(&[], "make it, please").output().unwrap();
    assert!(output.status.success() && shown(&output).contains("It is made."), "{}", shown(&output));
    let id = session(&codex)["id"].as_str().unwrap().to_owned();
    let head = format!("{id}@latest");
    assert_eq!(codex.expect(&["checkpoint", "cat", &format!("{head}:made.txt")]), "made\n");
    let rollouts = codex.rollouts();
    assert_eq!(rollouts.len(), 1);
    let store = parhelia_ledger::open(&codex.store(), &Default::default()).unwrap();
    let head = store.view().head(&id).unwrap().unwrap();
    let kept = state_bytes(&store, &head, "conversation/transcript.jsonl").unwrap().unwrap();
    assert_eq!(kept, fs::read(&rollouts[0]).unwrap());
    let conversation = head.record.conversation.unwrap();
    assert_eq!(
        (&conversation["agent"], &conversation["turn_count"], &conversation["tokens_used"]),
        (&json!("codex"), &json!(1), &json!(26)),
        "{conversation}"
    );
    let environment = head.record.environment.unwrap();
    assert_eq!(
        (&environment["agent"]["kind"], &environment["agent"]["version"]),
        (&json!("codex"), &json!("0.169.0")),
        "{environment}"
    );
}

#[test]
fn killed_in_a_tool_it_goes_on_by_its_conversation_and_is_told() {
    let api = Api::start([command("echo begun > begun.txt; while :; do sleep 0.1; done")]);
    let Some(codex) = Codex::new(&api) else { return };
    let child = codex.run(&[], "begin it").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait(|| fs::read_to_string(codex.workspace().join("begun.txt")).ok().filter(|text| !text.is_empty()));
    let agent = wait(|| {
        let all = parhelia_agent::process::all();
        let below = |process: &i32| parhelia_agent::process::parent(*process) == Some(child.id() as i32);
        all.into_iter().map(|one| one.process).find(below)
    });
    kill(agent);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", shown(&output));
    let id = session(&codex)["id"].as_str().unwrap().to_owned();

    // Its own folder and the workspace are lost with the machine.
    let config = fs::read(codex.config().join("config.toml")).unwrap();
    fs::remove_dir_all(codex.config()).unwrap();
    while codex.workspace().exists() {
        let _ = fs::remove_dir_all(codex.workspace());
    }
    fs::create_dir_all(codex.config()).unwrap();
    fs::write(codex.config().join("config.toml"), config).unwrap();
    api.then([Reply::text("I go on.")]);
    let output = codex.command(&["session", "resume", &id, "--prompt", "finish it"]).current_dir("/").output().unwrap();
    assert!(output.status.success() && shown(&output).contains("I go on."), "{}", shown(&output));
    assert_eq!(fs::read_to_string(codex.workspace().join("begun.txt")).unwrap(), "begun\n");
    let asked = asked(&api, 2);
    for part in ["begin it", "was interrupted and is resumed", "finish it"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let rollouts = codex.rollouts();
    assert_eq!(rollouts.len(), 1, "{rollouts:?}");
    let listed = codex.expect(&["session", "show", &id, "--json"]);
    assert!(listed.contains("\"finish it\"") || !listed.contains("last_prompt"), "{listed}");
}

#[test]
fn its_hooks_make_checkpoints_and_tell_it_once_what_happened() {
    let api = Api::start([Reply::text("One.")]);
    let Some(codex) = Codex::new(&api) else { return };
    let output = codex.run(&[TRUSTED], "first").output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let id = session(&codex)["id"].as_str().unwrap().to_owned();
    let details = || codex.expect(&["checkpoint", "list", &id, "--json"]);
    wait(|| details().contains("\"prompt\"").then_some(()));
    api.then([Reply::text("Two.")]);
    let output = codex.command(&["session", "resume", &id, "--prompt", "second"]).output().unwrap();
    assert!(output.status.success() && shown(&output).contains("Two."), "{}", shown(&output));
    let asked = asked(&api, 2);
    assert_eq!(asked.matches("is resumed").count(), 1, "{asked}");
    assert!(asked.contains("first") && asked.contains("One."), "{asked}");
}

#[test]
fn its_hooks_can_be_installed_and_its_keys_stay_out() {
    let api = Api::start([]);
    let Some(codex) = Codex::new(&api) else { return };
    codex.expect(&["hooks", "install", "--agent", "codex"]);
    let settings: Value = serde_json::from_slice(&fs::read(codex.config().join("hooks.json")).unwrap()).unwrap();
    for event in ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"] {
        let command = settings["hooks"][event][0]["hooks"][0]["command"].as_str().unwrap();
        assert!(command.ends_with(" hook"), "{command}");
    }
    assert!(codex.expect(&["hooks", "status", "--agent", "codex"]).contains("All hooks are in"));
    codex.expect(&["hooks", "uninstall", "--agent", "codex"]);
    fs::write(codex.config().join("auth.json"), "a secret").unwrap();
    let home = codex.config().parent().unwrap().to_string_lossy().into_owned();
    codex.expect(&["checkpoint", "create", "--workspace", &home]);
    let listed = codex.expect(&["checkpoint", "ls", "latest", "--recursive"]);
    assert!(listed.contains("config.toml") && !listed.contains("auth.json"), "{listed}");
}
