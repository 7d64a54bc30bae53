//! The agent's hooks, event by event and under the real agent; and that nothing of ours ever stops it.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use parhelia_tests::{
    Scratch,
    agent::{Agent, Reply, tool},
    binary,
    live::{Live, kill, shown, wait},
    scripted, write, write_program,
};
use serde_json::{Value, json};

const CONVERSATION: &str = "3a9d1f6e-57c0-4f0e-9a55-6f8f1f8c0b11";

/// Gives an event to `parhelia hook`.
fn hook(scratch: &Scratch, event: &str) -> (Output, Duration) {
    let mut command = scratch.command(&["hook"]);
    let began = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(event.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output, began.elapsed())
}

fn event(name: &str, workspace: &Path, more: Value) -> String {
    let mut event = json!({ "hook_event_name": name, "session_id": CONVERSATION, "cwd": workspace });
    event.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    event.to_string()
}

/// A shell that looks like the agent.
fn shell(scratch: &Scratch) -> PathBuf {
    let agent = scratch.path("claude");
    // By another process: what is forked here meanwhile would hold it open for writing, so that it could not be run.
    assert!(Command::new("cp").args([&fs::canonicalize("/bin/sh").unwrap(), &agent]).status().unwrap().success());
    agent
}

/// Runs that shell with a script, and with the environment of our commands.
fn scripted(scratch: &Scratch, agent: &Path, script: &str) -> Command {
    let ours = scratch.command(&["hook"]);
    let mut command = Command::new(agent);
    command.args(["-c", script]).env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// The words by which a script gives an event to `parhelia hook`.
fn hook_words(scratch: &Scratch, file: &str, event: &str) -> String {
    fs::write(scratch.path(file), event).unwrap();
    format!("{} hook < {}", scratch.command(&["hook"]).get_program().display(), scratch.path(file).display())
}

fn checkpoints(scratch: &Scratch) -> Vec<Value> {
    let output = scratch.run(&["checkpoint", "list", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["type"] == "checkpoint").collect()
}

fn log(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.path("home/.local/state/parhelia/hook.log")).unwrap_or_default()
}

#[test]
fn each_event_leaves_what_it_should() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    write(&workspace.join("a"), b"1").unwrap();
    let (output, _) = hook(&scratch, &event("SessionStart", &workspace, json!({ "source": "startup" })));
    assert!(output.status.success() && output.stdout.is_empty(), "{}", shown(&output));
    let cases = [
        ("UserPromptSubmit", json!({ "prompt": "do it" }), "periodic", "prompt"),
        ("Stop", json!({}), "periodic", "turn_end"),
        ("StopFailure", json!({ "error": "overloaded" }), "error", "api_error: overloaded"),
        ("PreCompact", json!({ "trigger": "auto" }), "periodic", "pre_compact"),
        ("SubagentStop", json!({ "agent_id": "a1" }), "periodic", "subagent"),
        ("SessionEnd", json!({ "reason": "prompt_input_exit" }), "shutdown", "session_end: prompt_input_exit"),
    ];
    for (number, (name, more, trigger, detail)) in cases.into_iter().enumerate() {
        fs::write(workspace.join("a"), format!("change {number}")).unwrap();
        let (output, _) = hook(&scratch, &event(name, &workspace, more));
        assert!(output.status.success() && output.stdout.is_empty(), "{name}: {}", shown(&output));
        let all = wait(|| Some(checkpoints(&scratch)).filter(|all| all.len() == number + 1));
        assert_eq!((all[0]["trigger"].as_str(), all[0]["trigger_detail"].as_str()), (Some(trigger), Some(detail)));
        wait(|| (checkpoints(&scratch)[0]["verification"]["ok"] == true).then_some(()));
    }
    let sessions: std::collections::BTreeSet<_> = checkpoints(&scratch).iter().map(|c| c["session"].to_string()).collect();
    assert_eq!(sessions.len(), 1, "one conversation is one session");
    fs::write(workspace.join("a"), "more").unwrap();
    hook(&scratch, &event("Stop", &workspace, json!({})));
    wait(|| Some(checkpoints(&scratch)).filter(|all| all.len() == 7));
    hook(&scratch, &event("Stop", &workspace, json!({})));
    wait(|| log(&scratch).contains("nothing has changed since").then_some(()));
    assert_eq!(checkpoints(&scratch).len(), 7);
    // A turn whose reply its prompt's checkpoint has already has ended as well.
    fs::write(workspace.join("a"), "of the last turn").unwrap();
    hook(&scratch, &event("UserPromptSubmit", &workspace, json!({ "prompt": "and that" })));
    wait(|| Some(checkpoints(&scratch)).filter(|all| all.len() == 8));
    hook(&scratch, &event("Stop", &workspace, json!({})));
    wait(|| (log(&scratch).matches("nothing has changed since").count() == 2).then_some(()));
    fs::write(workspace.join("a"), "by its user").unwrap();
    hook(&scratch, &event("SessionEnd", &workspace, json!({ "reason": "prompt_input_exit" })));
    let all = wait(|| Some(checkpoints(&scratch)).filter(|all| all.len() == 9));
    assert_eq!(all[0]["trigger"], "complete", "{}", all[0]);
}

#[test]
fn the_checkpoint_of_a_turns_end_has_what_was_said_last() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    write(&workspace.join("a"), b"1").unwrap();
    let transcript = scratch.path(&format!("home/.claude/projects/-work/{CONVERSATION}.jsonl"));
    let record = |kind: &str, content: Value| {
        let id = format!("{kind}-{}", fs::metadata(&transcript).map_or(0, |meta| meta.len()));
        json!({ "type": kind, "uuid": id, "sessionId": CONVERSATION, "timestamp": "2026-01-01T00:00:00Z",
                "message": { "role": kind, "id": id, "content": content } })
    };
    let say = |record: Value| {
        let before = fs::read_to_string(&transcript).unwrap_or_default();
        write(&transcript, format!("{before}{record}\n").as_bytes()).unwrap();
    };
    say(record("user", json!("do it")));
    hook(&scratch, &event("SessionStart", &workspace, json!({ "source": "startup", "transcript_path": transcript })));
    let stop = json!({ "transcript_path": transcript, "last_assistant_message": "It is done." });
    hook(&scratch, &event("Stop", &workspace, stop));
    // The agent writes down what it has said once its hooks are done.
    std::thread::sleep(Duration::from_millis(300));
    say(record("assistant", json!([{ "type": "text", "text": "It is done." }])));
    let made = wait(|| checkpoints(&scratch).pop());
    let held = &made["conversation"];
    assert_eq!(
        (&made["trigger_detail"], &held["message_count"], &held["turn_count"]),
        (&json!("turn_end"), &json!(2), &json!(1)),
        "{made}"
    );
}

#[test]
fn checkpoints_of_hooks_are_made_and_kept_as_configured() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    let settings = "[capture]\nexclude = [\"secret\"]\n[retention]\nkeep_last = 2\nall_hours = 0\nhourly_hours = 0\n";
    write(&scratch.path("home/.config/parhelia/parhelia.toml"), settings.as_bytes()).unwrap();
    write(&workspace.join("secret"), b"not this").unwrap();
    hook(&scratch, &event("SessionStart", &workspace, json!({ "source": "startup" })));
    for number in 0..5 {
        fs::write(workspace.join("a"), format!("change {number}")).unwrap();
        let before = log(&scratch).matches("made checkpoint").count();
        hook(&scratch, &event("Stop", &workspace, json!({})));
        wait(|| (log(&scratch).matches("made checkpoint").count() > before).then_some(()));
    }
    // The two newest, and one of the day.
    let left = checkpoints(&scratch);
    assert!((2..=3).contains(&left.len()), "{left:?}");
    let newest = left[0]["id"].as_str().unwrap();
    let listed = scratch.expect(0, &["checkpoint", "ls", newest]);
    assert_eq!(listed.lines().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn nothing_that_comes_in_makes_it_fail() {
    let scratch = Scratch::new();
    for text in [
        "",
        "{",
        "[]",
        "null",
        "\u{0}\u{0}",
        "{\"hook_event_name\":\"Stop\"}",
        "{\"hook_event_name\":7}",
        "{\"hook_event_name\":\"Unheard\"}",
    ] {
        let (output, took) = hook(&scratch, text);
        assert!(output.status.success() && output.stdout.is_empty(), "{text}: {}", shown(&output));
        assert!(took < Duration::from_secs(20));
    }
    let gone = event("Stop", Path::new("/no/such/folder"), json!({}));
    assert!(hook(&scratch, &gone).0.status.success());
    let mut command = scratch.command(&["hook", "--no-such-flag"]);
    assert!(command.stdin(Stdio::null()).output().unwrap().status.success());
    let mut command = scratch.command(&["--store", "/proc/nothing", "hook"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let start = event("SessionStart", Path::new("/"), json!({ "source": "startup" }));
    child.stdin.take().unwrap().write_all(start.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(log(&scratch).contains("SessionStart"), "{}", log(&scratch));
}

#[test]
fn a_store_that_is_locked_holds_nobody_up() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    write(&workspace.join("a"), b"1").unwrap();
    scratch.create("other", &workspace);
    let lock = fs::File::options().write(true).create(true).truncate(false).open(scratch.store().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for name in ["SessionStart", "Stop"] {
        let (output, took) = hook(&scratch, &event(name, &workspace, json!({ "source": "startup" })));
        assert!(output.status.success() && output.stdout.is_empty(), "{}", shown(&output));
        assert!(took < Duration::from_secs(10), "{name} took {took:?}");
    }
    drop(lock);
    wait(|| Some(checkpoints(&scratch)).filter(|all| all.len() == 2));
}

#[test]
fn an_agent_is_answered_though_the_named_configuration_is_not_there() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    write(&workspace.join("a"), b"1").unwrap();
    scratch.expect(1, &["session", "run", "--workspace", &workspace.to_string_lossy(), "--", "false"]);
    let mut command = scratch.command(&["hook"]);
    command.env("PARHELIA_CONFIG", "gone.toml").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let started = event("SessionStart", &workspace, json!({ "source": "startup" }));
    child.stdin.take().unwrap().write_all(started.as_bytes()).unwrap();
    let answer = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(answer.contains("additionalContext"), "{answer}: {}", log(&scratch));
}

#[test]
fn a_full_disk_holds_nobody_up() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    write(&workspace.join("a"), &vec![7; 300_000]).unwrap();
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&disk).status().unwrap();
    assert!(mounted.success(), "this test needs root");
    // As far as it gets on this disk.
    let _ = scratch.run(&["init", "--store", &disk.join("store").to_string_lossy()]);
    let mut outputs = Vec::new();
    for name in ["SessionStart", "Stop"] {
        let mut command = scratch.command(&["hook"]);
        command.env("PARHELIA_STORE", disk.join("store")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(event(name, &workspace, json!({ "source": "startup" })).as_bytes()).unwrap();
        outputs.push(child.wait_with_output().unwrap());
    }
    wait(|| log(&scratch).contains("Stop: ").then_some(()));
    let unmounted = Command::new("umount").arg("-l").arg(&disk).status().unwrap();
    assert!(unmounted.success());
    assert!(outputs.iter().all(|output| output.status.success() && output.stdout.is_empty()), "{outputs:?}");
}

#[test]
fn what_an_agent_says_that_another_one_started_is_not_said_of_that_ones_conversation() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    write(&workspace.join("a"), b"1").unwrap();
    const INNER: &str = "77777777-57c0-4f0e-9a55-6f8f1f8c0b11";
    let agent = shell(&scratch);
    let inner = event("SessionStart", &workspace, json!({ "source": "startup", "session_id": INNER }));
    let outer = event("SessionStart", &workspace, json!({ "source": "startup" }));
    let nested = format!("CLAUDECODE=1 {} -c '{}; true'", agent.display(), hook_words(&scratch, "inner", &inner));
    let script = format!("{}; {nested}; true", hook_words(&scratch, "outer", &outer));
    let output = scripted(&scratch, &agent, &script).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let sessions = scratch.expect(0, &["session", "list", "--json"]);
    assert_eq!(sessions.matches("\"type\":\"session\"").count(), 1, "{sessions}");
    let events = scratch.expect(0, &["log", "--json"]);
    assert!(events.contains(CONVERSATION) && !events.contains(INNER), "{events}");
    assert!(log(&scratch).contains("left to the agent that has started this one"), "{}", log(&scratch));
}

#[test]
fn an_agent_that_goes_on_by_hand_after_one_was_killed_is_told_so() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    write(&workspace.join("a"), b"1").unwrap();
    let agent = shell(&scratch);
    let [marked, ready, left] = ["marked", "ready", "left"].map(|name| scratch.path(name));
    // An agent whose hook says where its conversation is from, and which then does this.
    let start = |source: &str, then: &str| {
        let begins = hook_words(&scratch, source, &event("SessionStart", &workspace, json!({ "source": source })));
        let mut command = scripted(&scratch, &agent, &format!("{begins}; {then}"));
        command.env("CLAUDE_ENV_FILE", &marked).current_dir(&workspace).stdout(Stdio::piped()).spawn().unwrap()
    };
    let tool = format!(". {}; sleep 100000 > /dev/null 2>&1 & echo $! > {}", marked.display(), left.display());
    let mut first = start("startup", &format!("{tool}; touch {}; wait", ready.display()));
    wait(|| ready.exists().then_some(()));
    kill(first.id() as i32);
    first.wait().unwrap();
    let left: i32 = fs::read_to_string(&left).unwrap().trim().parse().unwrap();

    let told = start("resume", "true").wait_with_output().unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("ended, nobody saw how, and is resumed"), "{text}");
    assert!(text.contains(&format!("process {left} (sleep 100000) in {} of the run before", workspace.display())), "{text}");
    kill(left);
    // One that was not killed left nothing to be told of.
    let end = event("SessionEnd", &workspace, json!({ "reason": "prompt_input_exit" }));
    assert!(start("resume", &format!("{}; true", hook_words(&scratch, "end", &end))).wait().unwrap().success());
    wait(|| log(&scratch).contains("SessionEnd").then_some(()));
    let again = start("resume", "true").wait_with_output().unwrap();
    assert!(again.stdout.is_empty(), "{}", shown(&again));
}

#[test]
fn a_prompt_takes_up_a_session_that_was_set_aside() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    write(&workspace.join("a"), b"1").unwrap();
    let agent = shell(&scratch);
    let hook = |name: &str, more: Value| hook_words(&scratch, name, &event(name, &workspace, more));
    let (start, prompt) =
        (hook("SessionStart", json!({ "source": "startup" })), hook("UserPromptSubmit", json!({ "prompt": "go on" })));
    let mut command = scripted(&scratch, &agent, &format!("{start}; read line; {prompt}; read line; true"));
    let mut agent = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let session = || {
        let text = String::from_utf8(scratch.run(&["session", "list", "--json"]).stdout).unwrap();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["type"] == "session")
    };
    let name = wait(|| session()?["id"].as_str().map(str::to_owned));
    // What looks like an agent says no version.
    scratch.expect(3, &["session", "pause", &name]);
    assert_eq!(session().unwrap()["wanted"], "paused");
    agent.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    wait(|| (session()?["wanted"] == "running").then_some(()));
    kill(agent.id() as i32);
    agent.wait().unwrap();
    assert!(scratch.expect(2, &["session", "recover"]).contains(&name));
}

#[test]
fn the_agents_own_settings_are_on_no_command_line() {
    let scratch = Scratch::new();
    let agent = scratch.path("bin/claude");
    let script = "#!/bin/sh\nwhile test $# -gt 0; do\ncase $1 in --settings) stat -c %a \"$2\" > mode; cat \"$2\" > merged; echo \"$2\" > place;; esac\n\
                  echo \"$1\" >> arguments; shift\ndone\n";
    write_program(&agent, script);
    let work = scratch.path("work");
    // As the agent reads it: from its own folder, a byte order mark before it or not.
    write(&work.join("own.json"), "\u{feff}{\"env\": {\"TOKEN\": \"very-secret\"}}".as_bytes()).unwrap();
    let run = |settings: &str| {
        let words =
            ["session", "run", "-w", work.to_str().unwrap(), "--", agent.to_str().unwrap(), "--settings", settings, "-p", "x"];
        scratch.run(&words)
    };
    let output = run("own.json");
    assert!(output.status.success(), "{}", shown(&output));
    let read = |name: &str| fs::read_to_string(work.join(name)).unwrap();
    assert!(!read("arguments").contains("very-secret") && read("mode") == "600\n", "{}", read("arguments"));
    let merged: Value = serde_json::from_str(&read("merged")).unwrap();
    assert_eq!(merged["env"]["TOKEN"], "very-secret");
    assert!(merged["hooks"]["Stop"].is_array() && merged["hooks"]["PreToolUse"][0]["matcher"].is_string(), "{merged}");
    assert!(!Path::new(read("place").trim()).exists(), "it goes with the agent");
    let refused = run("gone.json");
    assert!(!refused.status.success() && shown(&refused).contains("gone.json"), "{}", shown(&refused));
}

#[test]
fn hooks_that_keep_what_they_see_in_another_store_are_none_of_this_one() {
    let scratch = Scratch::new();
    let agent = scratch.path("bin/claude");
    write_program(&agent, "#!/bin/sh\nprintf '%s\\n' \"$@\" >> arguments\n");
    fs::create_dir_all(scratch.path("work")).unwrap();
    let given_hooks = || {
        let run = ["session", "run", "--", agent.to_str().unwrap(), "-p", "hello"];
        let output = scratch.command(&run).current_dir(scratch.path("work")).output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        let arguments = fs::read_to_string(scratch.path("work/arguments")).unwrap();
        fs::remove_file(scratch.path("work/arguments")).unwrap();
        assert!(arguments.contains("hello"), "{arguments}");
        let settings = arguments.lines().skip_while(|line| *line != "--settings").nth(1).map(str::to_owned);
        settings.unwrap_or_else(|| panic!("settings may not run: {arguments}"))
    };
    let own = given_hooks();
    assert!(own.contains("parhelia hook\"") && !own.contains("--store"), "{own}");
    // The agent runs the same line once, wherever it stands.
    scratch.expect(0, &["hooks", "install"]);
    let installed = fs::read_to_string(scratch.path("home/.claude/settings.json")).unwrap();
    let installed: Value = serde_json::from_str(&installed).unwrap();
    let command = installed["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap();
    assert!(given_hooks().contains(&json!(command).to_string()), "{command}");
    // Named from here, and meant wherever the agent works.
    let mut install = scratch.command(&["--store", "it's another", "hooks", "install"]);
    assert!(install.current_dir(scratch.path("")).status().unwrap().success());
    let settings = fs::read_to_string(scratch.path("home/.claude/settings.json")).unwrap();
    assert!(settings.contains(scratch.path("it").to_str().unwrap()), "{settings}");
    assert_eq!(given_hooks(), own, "hooks of another store keep there what they see");
}

#[test]
fn an_agent_that_was_started_by_hand_is_adopted() {
    let Some(live) = Live::new() else { return };
    let settings = live.agent.config().join("settings.json");
    let other = json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "echo other >> stopped.txt" }] }] } });
    fs::create_dir_all(live.agent.config()).unwrap();
    fs::write(&settings, serde_json::to_string_pretty(&other).unwrap()).unwrap();
    live.expect(&["hooks", "install"]);
    assert!(live.expect(&["hooks", "status"]).contains("All hooks are in"));
    live.api.then([
        Reply::of([tool("Bash", json!({ "command": "echo by-hand > made.txt; env > environment.txt" }))]),
        Reply::text("Done."),
    ]);
    let store = live.store();
    let mut command = live.agent.command(&Agent::headless("make it"));
    let output = command.env("PARHELIA_STORE", &store).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    wait(|| live.objects(&["checkpoint", "list"], "checkpoint").iter().any(|c| c["trigger"] == "complete").then_some(()));
    // Whichever of the last two comes first, the other finds that nothing has changed.
    let has_turn_end = || live.objects(&["checkpoint", "list"], "checkpoint").iter().any(|c| c["trigger_detail"] == "turn_end");
    let log = || fs::read_to_string(live.agent.home().join(".local/state/parhelia/hook.log")).unwrap_or_default();
    wait(|| (has_turn_end() || log().contains("Stop: nothing has changed since")).then_some(()));
    let workspace = live.agent.workspace();
    assert!(workspace.join("stopped.txt").exists(), "the other hook ran, too");
    let session = live.session();
    let marked = fs::read_to_string(workspace.join("environment.txt")).unwrap();
    assert!(marked.contains("PARHELIA_RUN_ID="), "commands of an adopted run carry its marker");
    fs::remove_file(workspace.join("made.txt")).unwrap();

    live.api.then([Reply::text("I go on.")]);
    let seen = live.api.exchanges().len();
    let text = live.expect(&["session", "resume", &session, "--prompt", "go on"]);
    assert!(text.contains("I go on."), "{text}");
    let said = live.api.wait_for(seen + 1).last().unwrap().request["messages"].to_string();
    assert!(said.contains("make it") && said.contains("by-hand"), "{said}");
    assert!(!workspace.join("made.txt").exists(), "a live workspace is kept as it is");
    live.expect(&["hooks", "uninstall"]);
    let left: Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    assert_eq!(left, other);
}

#[test]
fn the_status_of_hooks_tells_the_last_event_and_what_they_lack() {
    let scratch = Scratch::new();
    let (work, settings) = (scratch.path("work"), scratch.path("home/.claude/settings.json"));
    fs::create_dir_all(&work).unwrap();
    scratch.expect(0, &["hooks", "install"]);
    let script = [scripted::HOOKED, "event SessionStart $how > /dev/null\nevent UserPromptSubmit > /dev/null\n"].concat();
    let script = script
        .replace("@project", &scratch.path("project").to_string_lossy())
        .replace("@work", &work.to_string_lossy())
        .replace("@parhelia", &binary().to_string_lossy());
    write_program(&scratch.path("bin/claude"), &script);
    let (place, program) = (work.to_string_lossy().into_owned(), scratch.path("bin/claude"));
    scratch.expect(0, &["session", "run", "--workspace", &place, "--", &program.to_string_lossy()]);
    let status = || scratch.summary(&["hooks", "status"]);
    assert_eq!(wait(|| Some(status()).filter(|found| found["last_heard"]["event"] == "UserPromptSubmit"))["missing"], json!([]));
    let said = scratch.expect(0, &["hooks", "status"]);
    assert!(said.contains("The last event that came of a hook: UserPromptSubmit"), "{said}");

    // A matcher that leaves something out.
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    value["hooks"]["SessionStart"][0]["matcher"] = json!("startup");
    fs::write(&settings, value.to_string()).unwrap();
    let found = status();
    assert_eq!(found["missing"], json!(["SessionStart"]), "{found}");
    assert_eq!(found["narrowed"][0]["left_out"], json!(["resume", "clear", "compact"]), "{found}");
    let said = scratch.expect(0, &["hooks", "status"]);
    assert!(said.contains("The matcher of SessionStart takes startup and not resume, clear, compact"), "{said}");
    scratch.expect(0, &["hooks", "install"]);
    assert_eq!(status()["narrowed"], json!([]));

    // A program that is there, and may not be run.
    let own = scratch.path("own/parhelia");
    write(&own, b"").unwrap();
    fs::write(&settings, fs::read_to_string(&settings).unwrap().replace(&*binary().to_string_lossy(), &own.to_string_lossy()))
        .unwrap();
    let said = scratch.expect(0, &["hooks", "status"]);
    assert!(said.contains(&format!("{} is not executable", own.display())) && !said.contains("is not there"), "{said}");
}
