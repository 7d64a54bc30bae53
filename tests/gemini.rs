//! A session of Gemini CLI: the real agent, the real binary, against an API of ours.

use std::{fs, process::Stdio};

use parhelia_host::state::state_bytes;
use parhelia_tests::{
    agent::{Api, Gemini, Reply, tool},
    live::{kill, shown, wait},
};
use serde_json::{Value, json};

/// The only session in the store.
fn session(gemini: &Gemini) -> Value {
    let listed = gemini.expect(&["session", "list", "--json"]);
    let sessions: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).filter(|v: &Value| v["type"] == "session").collect();
    assert_eq!(sessions.len(), 1, "{listed}");
    sessions[0].clone()
}

fn command(text: &str) -> Reply {
    Reply::of([tool("run_shell_command", json!({ "command": text }))])
}

/// Everything that the agent sent with a request.
fn asked(api: &Api, number: usize) -> String {
    api.wait_for(number)[number - 1].request["contents"].to_string()
}

/// The id of the conversation in a chat.
fn id_in(chat: &[u8]) -> String {
    let first: Value = serde_json::from_slice(chat.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    first["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn its_conversation_is_pinned_and_captured() {
    let api = Api::start([command("echo made > made.txt"), Reply::text("It is made.")]);
    let Some(gemini) = Gemini::new(&api) else { return };
    let output = gemini.run("make it, please").output().unwrap();
    let said = shown(&output);
    assert!(output.status.success() && said.contains("It is made."), "{said}");
    assert!(said.contains("`parhelia hooks install --agent gemini` installs them"), "{said}");
    let id = session(&gemini)["id"].as_str().unwrap().to_owned();
    assert_eq!(gemini.expect(&["checkpoint", "cat", &format!("{id}@latest:made.txt")]), "made\n");
    let chats = gemini.chats();
    assert_eq!(chats.len(), 1);
    let store = parhelia_ledger::open(&gemini.store(), &Default::default()).unwrap();
    let head = store.view().head(&id).unwrap().unwrap();
    let kept = state_bytes(&store, &head, "conversation/transcript.jsonl").unwrap().unwrap();
    let chat = fs::read(&chats[0]).unwrap();
    assert_eq!(kept, chat);
    let conversation = head.record.conversation.unwrap();
    assert_eq!(
        (&conversation["agent"], &conversation["turn_count"], &conversation["tokens_used"]),
        (&json!("gemini"), &json!(1), &json!(26)),
        "{conversation}"
    );
    assert_eq!(conversation["agent_session_id"], id_in(&chat));
    let environment = head.record.environment.unwrap();
    assert_eq!(
        (&environment["agent"]["kind"], &environment["agent"]["version"]),
        (&json!("gemini"), &json!("0.61.0")),
        "{environment}"
    );
    // A checkpoint that a person makes holds it as well.
    gemini.expect(&["checkpoint", "create", &id, "--message", "by hand"]);
    let head = store.refresh().unwrap().head(&id).unwrap().unwrap();
    assert_eq!(state_bytes(&store, &head, "conversation/transcript.jsonl").unwrap().unwrap(), chat);
}

#[test]
fn killed_in_a_tool_it_goes_on_by_its_conversation_and_is_told() {
    let api = Api::start([command("echo begun > begun.txt; while :; do sleep 0.1; done")]);
    let Some(gemini) = Gemini::new(&api) else { return };
    let child = gemini.run("begin it").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait(|| fs::read_to_string(gemini.workspace().join("begun.txt")).ok().filter(|text| !text.is_empty()));
    let below = |above: i32| {
        let all = parhelia_agent::process::all();
        all.into_iter().map(|one| one.process).find(|process| parhelia_agent::process::parent(*process) == Some(above))
    };
    // It starts itself once more, and works there.
    let agent = wait(|| below(child.id() as i32));
    let worker = wait(|| below(agent));
    for process in [worker, agent] {
        kill(process);
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", shown(&output));
    let id = session(&gemini)["id"].as_str().unwrap().to_owned();
    let conversation = id_in(&fs::read(&gemini.chats()[0]).unwrap());

    // Its own folder and the workspace are lost with the machine.
    fs::remove_dir_all(gemini.config()).unwrap();
    while gemini.workspace().exists() {
        let _ = fs::remove_dir_all(gemini.workspace());
    }
    gemini.configure();
    api.then([Reply::text("I go on.")]);
    let output = gemini.command(&["session", "resume", &id, "--prompt", "finish it"]).current_dir("/").output().unwrap();
    assert!(output.status.success() && shown(&output).contains("I go on."), "{}", shown(&output));
    assert_eq!(fs::read_to_string(gemini.workspace().join("begun.txt")).unwrap(), "begun\n");
    let asked = asked(&api, 2);
    for part in ["begin it", "was interrupted and is resumed", "finish it"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let store = parhelia_ledger::open(&gemini.store(), &Default::default()).unwrap();
    let head = store.view().head(&id).unwrap().unwrap();
    let record = head.record.conversation.clone().unwrap();
    assert_eq!((&record["agent_session_id"], &record["turn_count"]), (&json!(conversation), &json!(2)), "{record}");
    let kept = state_bytes(&store, &head, "conversation/transcript.jsonl").unwrap().unwrap();
    assert!(gemini.chats().iter().any(|chat| fs::read(chat).unwrap() == kept));
}

#[test]
fn its_hooks_make_checkpoints_and_it_is_told_once_what_happened() {
    let api = Api::start([Reply::text("One.")]);
    let Some(gemini) = Gemini::new(&api) else { return };
    gemini.expect(&["hooks", "install", "--agent", "gemini"]);
    let output = gemini.run("first").output().unwrap();
    assert!(output.status.success() && !shown(&output).contains("not installed"), "{}", shown(&output));
    let id = session(&gemini)["id"].as_str().unwrap().to_owned();
    let details = || gemini.expect(&["checkpoint", "list", &id, "--json"]);
    wait(|| details().contains("\"prompt\"").then_some(()));
    api.then([Reply::text("Two.")]);
    let output = gemini.command(&["session", "resume", &id, "--prompt", "second"]).output().unwrap();
    assert!(output.status.success() && shown(&output).contains("Two."), "{}", shown(&output));
    let told = asked(&api, 2);
    assert_eq!(told.matches("is resumed").count(), 1, "{told}");
    assert!(told.contains("first") && told.contains("One."), "{told}");
    // Nothing that it was told is lost when it is resumed again.
    api.then([Reply::text("Three.")]);
    let output = gemini.command(&["session", "resume", &id, "--prompt", "third"]).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let told = asked(&api, 3);
    for part in ["first", "One.", "second", "Two.", "third"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn its_hooks_can_be_installed_and_its_keys_stay_out() {
    let api = Api::start([]);
    let Some(gemini) = Gemini::new(&api) else { return };
    gemini.expect(&["hooks", "install", "--agent", "gemini"]);
    let settings: Value = serde_json::from_slice(&fs::read(gemini.config().join("settings.json")).unwrap()).unwrap();
    for event in ["SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd"] {
        let hook = &settings["hooks"][event][0]["hooks"][0];
        assert!(hook["command"].as_str().unwrap().ends_with(" hook") && hook["timeout"].as_u64().unwrap() >= 10_000, "{hook}");
    }
    assert!(gemini.expect(&["hooks", "status", "--agent", "gemini"]).contains("All hooks are in"));
    gemini.expect(&["hooks", "uninstall", "--agent", "gemini"]);
    fs::create_dir_all(gemini.config().join("extensions/one")).unwrap();
    let tokens = ["mcp-oauth-tokens.json", "mcp-oauth-tokens-v2.json"];
    for name in ["oauth_creds.json", "gemini-credentials.json", ".env", ".env.bak", "extensions/one/.env"].iter().chain(&tokens) {
        fs::write(gemini.config().join(name), "a secret").unwrap();
    }
    let home = gemini.config().parent().unwrap().to_string_lossy().into_owned();
    gemini.expect(&["checkpoint", "create", "--workspace", &home]);
    let listed = gemini.expect(&["checkpoint", "ls", "latest", "--recursive"]);
    assert!(listed.contains("settings.json"), "{listed}");
    for name in ["oauth_creds", "credentials", "tokens", ".env"] {
        assert!(!listed.contains(name), "{listed}");
    }
}

#[test]
fn a_prompt_without_a_terminal_is_answered_and_its_conversation_goes_on() {
    let api = Api::start([Reply::text("It is fixed.")]);
    let Some(gemini) = Gemini::new(&api) else { return };
    gemini.expect(&["hooks", "install", "--agent", "gemini"]);
    let program = gemini.program().to_string_lossy().into_owned();
    let flags = ["--model", "gemini-2.5-pro", "--skip-trust", "--yolo", "fix it now"];
    let output = gemini.command(&[&["session", "run", "--interval", "0", "--", &program][..], &flags].concat()).output().unwrap();
    assert!(output.status.success() && shown(&output).contains("It is fixed."), "{}", shown(&output));
    let id = session(&gemini)["id"].as_str().unwrap().to_owned();
    let store = parhelia_ledger::open(&gemini.store(), &Default::default()).unwrap();
    assert_eq!(store.view().head(&id).unwrap().unwrap().record.trigger.name(), "complete");
    let output = gemini.command(&["session", "resume", &id]).output().unwrap();
    assert!(!output.status.success() && api.exchanges().len() == 1, "nobody has asked for anything: {}", shown(&output));
    api.then([Reply::text("I go on.")]);
    let output = gemini.command(&["session", "resume", &id, "--prompt", "go on", "--no-tmux"]).output().unwrap();
    assert!(output.status.success() && shown(&output).contains("I go on."), "{}", shown(&output));
    let told = asked(&api, 2);
    for part in ["fix it now", "It is fixed.", "go on"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(told.matches("is resumed").count(), 1, "{told}");
}
