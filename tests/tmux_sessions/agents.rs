//! Agents in tmux: the real one, with its conversation.

use super::*;

/// A command line of ours with the agent's environment, for a private server.
fn live_ours(live: &Live, tmux: &Tmux, verb: &str, arguments: &[&str]) -> Command {
    let mut all = vec!["session", verb];
    let socket = tmux.socket().to_string_lossy().into_owned();
    all.extend(["--tmux-socket", &socket, "--detach"]);
    all.extend(arguments);
    live.command(&all)
}

/// The command that starts the agent in tmux, with these arguments.
fn start_command(live: &Live, tmux: &Tmux, arguments: &[&str]) -> Command {
    let (workspace, program) = (live.agent.workspace(), live.agent.program().to_string_lossy().into_owned());
    let workspace = workspace.to_string_lossy().into_owned();
    let mut all = vec!["--tmux", "--workspace", &workspace, "--", &program];
    all.extend(arguments);
    live_ours(live, tmux, "run", &all)
}

fn start_agent(live: &Live, tmux: &Tmux, arguments: &[&str]) -> Output {
    start_command(live, tmux, arguments).output().unwrap()
}

fn resume(live: &Live, tmux: &Tmux, id: &str) -> Output {
    live_ours(live, tmux, "resume", &[id]).output().unwrap()
}

/// Types something to the agent.
fn type_in(tmux: &Tmux, pane: &str, text: &str) {
    tmux.ask(&["send-keys", "-t", pane, "-l", text]);
    // What is typed too fast is taken for pasted text.
    tmux.wait_for(pane, text);
    tmux.ask(&["send-keys", "-t", pane, "Enter"]);
}

/// The agent's pane: the one that its newest run is in.
fn run_of(live: &Live) -> Value {
    let id = live_session(live);
    let runs = live.objects(&["session", "show", &id], "run");
    runs.last().cloned().unwrap()
}

fn live_session(live: &Live) -> String {
    live.objects(&["session", "list"], "session")[0]["id"].as_str().unwrap().to_owned()
}

fn pane_of(live: &Live) -> String {
    run_of(live)["tmux"]["pane"].as_str().unwrap().to_owned()
}

/// An agent on a terminal in tmux that has had one turn, with more panes beside it; its session.
fn talked(live: &Live, tmux: &Tmux) -> String {
    live.agent.prepare_interactive();
    let output = start_agent(live, tmux, &["--permission-mode", "bypassPermissions"]);
    assert!(output.status.success(), "{}", shown(&output));
    let (session, pane) = (tmux.session(), pane_of(live));
    furnish(tmux, &session, &live.agent.workspace());
    live.api.then([
        Reply::of([tool("Bash", json!({ "command": "echo by the agent > made.txt" }))]),
        Reply::text("The file is made, as you said."),
    ]);
    type_in(tmux, &pane, "make a file, please");
    tmux.wait_for(&pane, "The file is made, as you said.");
    let id = live_session(live);
    wait(|| live.objects(&["checkpoint", "list", &id], "checkpoint").iter().find(|c| c["trigger_detail"] == "turn_end").cloned());
    id
}

fn conversation_of(live: &Live) -> String {
    run_of(live)["conversation"].as_str().unwrap().to_owned()
}

/// Waits until the transcript has a text: the agent writes it a moment after it has begun to do what it says.
fn wait_until_written(live: &Live, text: &str) {
    let transcript = live.agent.transcript(&conversation_of(live));
    wait(|| fs::read_to_string(&transcript).ok().filter(|said| said.contains(text)));
}

fn goes_on(live: &Live) -> bool {
    let run = run_of(live);
    let process = run["pid"].as_i64().and_then(|process| i32::try_from(process).ok());
    run["ended_at"].is_null() && process.is_some_and(lives)
}

#[test]
fn an_agent_on_a_terminal_comes_back_with_its_conversation_and_its_windows() {
    let (Some(live), tmux) = (Live::new(), Tmux::new()) else { return };
    let id = talked(&live, &tmux);
    let (session, conversation) = (tmux.session(), conversation_of(&live));
    let before = tmux.capture(&session);
    live.expect(&["session", "pause", &id]);
    kill(i32::try_from(run_of(&live)["pid"].as_i64().unwrap()).unwrap());
    tmux.kill();
    wait(|| (!run_of(&live)["ended_at"].is_null()).then_some(()));
    fs::remove_dir_all(live.agent.workspace()).unwrap();
    fs::remove_dir_all(live.agent.home()).unwrap();
    fs::create_dir_all(live.agent.home()).unwrap();
    live.agent.prepare_interactive();

    let output = resume(&live, &tmux, &id);
    assert!(output.status.success(), "{}", shown(&output));
    assert!(!shown(&output).contains("has not said"), "{}", shown(&output));
    assert!(goes_on(&live));
    assert_eq!(conversation_of(&live), conversation);
    let again = tmux.session();
    let after = tmux.capture(&again);
    // What the agent calls its pane is its own business.
    let geometries = |state: &State| state.windows.iter().map(|window| geometry(&window.layout)).collect::<Vec<_>>();
    assert_eq!(geometries(&after.state), geometries(&before.state));
    let text = text_of(&tmux, &again);
    assert!(text.contains("words that were there") && text.contains("The file is made, as you said."), "{text}");
    assert_eq!(fs::read_to_string(live.agent.workspace().join("made.txt")).unwrap(), "by the agent\n");

    let pane = pane_of(&live);
    live.api.then([Reply::text("I know what we did.")]);
    let seen = live.api.exchanges().len();
    type_in(&tmux, &pane, "and what did we do?");
    tmux.wait_for(&pane, "I know what we did.");
    let said = live.api.wait_for(seen + 1).last().unwrap().request["messages"].to_string();
    for part in ["make a file, please", "by the agent", "was interrupted and is resumed from checkpoint", "and what did we do?"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_conversation_that_the_agent_does_not_know_is_told_anew_in_the_same_pane() {
    let (Some(live), tmux) = (Live::new(), Tmux::new()) else { return };
    let id = talked(&live, &tmux);
    let conversation = conversation_of(&live);
    live.expect(&["session", "pause", &id]);
    tmux.kill();
    wait(|| (!run_of(&live)["ended_at"].is_null()).then_some(()));
    for project in fs::read_dir(live.agent.config().join("projects")).unwrap().flatten() {
        for file in fs::read_dir(project.path()).unwrap().flatten().filter(|file| file.path().extension().is_some()) {
            fs::write(file.path(), "{\"type\":\"mode\",\"mode\":\"normal\"}\n").unwrap();
        }
    }
    live.api.then([Reply::text("I begin again.")]);
    let seen = live.api.exchanges().len();
    // The agent is told of it by its hook, though another process has brought it back.
    fs::remove_dir_all(live.agent.workspace()).unwrap();
    let output = resume(&live, &tmux, &id);
    assert!(output.status.success(), "{}", shown(&output));
    assert!(goes_on(&live));
    assert_ne!(conversation_of(&live), conversation);
    // It is idle until somebody says something.
    let pane = pane_of(&live);
    assert_eq!(live.api.exchanges().len(), seen);
    type_in(&tmux, &pane, "what is there to do?");
    tmux.wait_for(&pane, "I begin again.");
    let exchanges = live.api.wait_for(seen + 1);
    assert_eq!(exchanges.len(), seen + 1);
    let said = exchanges.last().unwrap().request["messages"].to_string();
    let gone = "the workspace was gone, and was restored";
    for part in ["You are resuming a previous session", "make a file, please", "what is there to do?", gone] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// The agent is started with other settings than those of somebody who has used it before, and asks: we say so, and it goes on asking.
fn is_left_to_ask(change: impl FnOnce(&mut Value), without: Option<&str>, said: &str, shows: &str) {
    let (Some(live), tmux) = (Live::new(), Tmux::new()) else { return };
    live.agent.prepare_interactive();
    let path = live.agent.home().join(".claude.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut settings);
    fs::write(&path, settings.to_string()).unwrap();
    let mut command = start_command(&live, &tmux, &[]);
    without.iter().for_each(|name| _ = command.env_remove(name));
    let output = command.output().unwrap();
    assert!(output.status.success() && shown(&output).contains(said), "{}", shown(&output));
    assert!(goes_on(&live));
    tmux.wait_for(&pane_of(&live), shows);
    // Nothing was answered for anybody.
    let after: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let workspace = live.agent.workspace().to_string_lossy().into_owned();
    let approved = |settings: &Value| settings["customApiKeyResponses"]["approved"].as_array().map_or(0, Vec::len);
    assert_eq!(approved(&after), approved(&settings));
    assert_eq!(after["hasCompletedOnboarding"], settings["hasCompletedOnboarding"]);
    let trust = |settings: &Value| settings["projects"][&workspace]["hasTrustDialogAccepted"].clone();
    assert_eq!(trust(&after), trust(&settings));
}

#[test]
fn an_agent_that_asks_whether_it_may_trust_the_folder_is_left_to_ask() {
    let distrust = |settings: &mut Value| {
        settings["projects"]
            .as_object_mut()
            .unwrap()
            .values_mut()
            .for_each(|project| project["hasTrustDialogAccepted"] = json!(false));
    };
    is_left_to_ask(distrust, None, "may trust the folder", "trust this folder");
}

#[test]
fn an_agent_that_asks_whether_it_may_use_the_key_is_left_to_ask() {
    let forget = |settings: &mut Value| settings["customApiKeyResponses"]["approved"] = json!([]);
    is_left_to_ask(forget, None, "may use the API key", "API key");
}

#[test]
fn an_agent_that_was_never_started_before_is_left_to_ask() {
    let first = |settings: &mut Value| settings["hasCompletedOnboarding"] = json!(false);
    is_left_to_ask(first, None, "waits for its first settings", "text style");
}

#[test]
fn an_agent_that_nobody_is_logged_in_to_is_left_to_ask() {
    is_left_to_ask(|_| {}, Some("ANTHROPIC_API_KEY"), "waits for a login", "login");
}

#[test]
fn an_agent_that_answers_one_prompt_works_in_tmux_and_goes_on_there() {
    let (Some(live), tmux) = (Live::new(), Tmux::new()) else { return };
    let endless = "echo begun > begun.txt; sleep 100000";
    live.api.then([Reply::of([tool("Bash", json!({ "command": endless, "timeout": 600_000 }))])]);
    let prompt = Agent::headless("begin, and keep at it");
    let output = start_agent(&live, &tmux, &prompt.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", shown(&output));
    wait(|| live.agent.workspace().join("begun.txt").exists().then_some(()));
    let id = live_session(&live);
    wait_until_written(&live, "begun.txt");
    kill(i32::try_from(run_of(&live)["pid"].as_i64().unwrap()).unwrap());
    wait(|| tmux.sessions().is_empty().then_some(()));
    live.api.then([Reply::text("That is all.")]);
    let seen = live.api.exchanges().len();
    let output = resume(&live, &tmux, &id);
    assert!(output.status.code() == Some(2) && shown(&output).contains("--prompt"), "{}", shown(&output));
    let output = live_ours(&live, &tmux, "resume", &[&id, "--prompt", "now finish"]).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let said = live.api.wait_for(seen + 1).last().unwrap().request["messages"].to_string();
    for part in ["begin, and keep at it", "now finish"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let done = wait(|| {
        let found = live.objects(&["checkpoint", "list", &id], "checkpoint");
        found.into_iter().find(|checkpoint| checkpoint["trigger"] == "complete")
    });
    let state = live.expect(&["checkpoint", "show", done["id"].as_str().unwrap(), "--json"]);
    assert!(state.contains("tmux"), "{state}");
    wait(|| tmux.sessions().is_empty().then_some(()));
}

#[test]
fn a_terminal_is_attached_and_a_checkpoint_is_made_when_it_detaches() {
    let (scratch, tmux) = (scratch(), Tmux::new());
    tmux.start(&[]);
    let of_the_user = "run-shell \"true of the user\"";
    tmux.ask(&["set-hook", "-g", "client-detached", of_the_user]);
    let workspace = workspace(&scratch);
    let command = ours(&scratch, &tmux, "run", &["--tmux", "--workspace", &workspace, "--", "sh", "-c", "exec sleep 100000"]);
    let mut terminal = on_a_terminal(&command).spawn().unwrap();
    let session = wait(|| tmux.sessions().first().cloned());
    let clients = |session: &str| tmux.ask(&["list-clients", "-t", session, "-F", "#{client_name}"]).lines().count();
    wait(|| (clients(&session) == 1).then_some(()));
    let made = || {
        let found = lines(&scratch.run(&["checkpoint", "list", "--json"]));
        found.into_iter().filter(|line| line["type"] == "checkpoint" && line["trigger"] == "detach").collect::<Vec<_>>()
    };
    // A client of another session is no business of this one.
    let mut other = tmux.server.command();
    other.args(["attach", "-t", "other"]).env("TERM", "xterm-256color").env("PATH", std::env::var_os("PATH").unwrap());
    let mut other = on_a_terminal(&other).spawn().unwrap();
    wait(|| (clients("other") == 1).then_some(()));
    tmux.ask(&["detach-client", "-s", "other"]);
    other.wait().unwrap();
    assert_eq!(made().len(), 0);
    tmux.ask(&["detach-client", "-s", &session]);
    assert!(terminal.wait().unwrap().success());
    let checkpoint = wait(|| made().first().cloned());
    let id = checkpoint["id"].as_str().unwrap();
    let store = parhelia_ledger::open(&scratch.store(), &Default::default()).unwrap();
    let found = parhelia_ledger::selector::find(&store.view(), id).unwrap();
    let saved = parhelia_life::tmux::saved_tmux(&store, &found, false).unwrap().unwrap();
    assert_eq!(saved.state.session, session);
    let run = newest_run(&scratch);
    kill(i32::try_from(run["pid"].as_i64().unwrap()).unwrap());
    wait(|| tmux.sessions().is_empty().then_some(()));
    let hooks = tmux.ask(&["show-hooks", "-g", "client-detached"]);
    assert!(hooks.contains("of the user") && hooks.lines().count() == 1, "{hooks}");
    assert_eq!(made().len(), 1);
}
