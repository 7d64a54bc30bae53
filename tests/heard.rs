//! Agents that wait for a person, as their hooks tell it: what becomes of that, and what takes it back.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use parhelia_tests::{
    Scratch,
    live::{kill, wait},
    scripted, write, write_program,
};
use serde_json::{Value, json};

const CONVERSATION: &str = "3a9d1f6e-57c0-4f0e-9a55-6f8f1f8c0b13";

/// A shell that looks like the agent, and does one step after the other as it is told.
struct Agent {
    scratch: Scratch,
    process: Child,
    steps: usize,
}

impl Agent {
    fn new() -> Self {
        let scratch = Scratch::new();
        write(&scratch.path("work/a"), b"1").unwrap();
        fs::create_dir_all(scratch.path("home/.claude/sessions")).unwrap();
        let program = scratch.path("claude");
        // By another process: what is forked here meanwhile would hold it open for writing, so that it could not be run.
        assert!(Command::new("cp").args([&fs::canonicalize("/bin/sh").unwrap(), &program]).status().unwrap().success());
        let ours = scratch.command(&["hook"]);
        let mut command = Command::new(program);
        let script = "while read -r line; do eval \"$line\"; done";
        command.args(["-c", script]).env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(scratch.path("work")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = command.spawn().unwrap();
        let mut agent = Agent { scratch, process, steps: 0 };
        agent.event("SessionStart", json!({ "source": "startup" }));
        wait(|| agent.session());
        agent
    }

    fn does(&mut self, line: &str) {
        self.steps += 1;
        let done = self.scratch.path(&format!("done{}", self.steps));
        let input = self.process.stdin.as_mut().unwrap();
        writeln!(input, "{line}; touch {}", done.display()).unwrap();
        wait(|| done.exists().then_some(()));
    }

    /// An event of its hooks, which is over for the agent when this returns.
    fn event(&mut self, name: &str, more: Value) {
        let transcript = self.scratch.path(&format!("home/.claude/projects/-work/{CONVERSATION}.jsonl"));
        let mut event = json!({ "hook_event_name": name, "session_id": CONVERSATION, "cwd": self.scratch.path("work"),
                                "transcript_path": transcript });
        event.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let file = self.scratch.path("event");
        fs::write(&file, event.to_string()).unwrap();
        let program = self.scratch.command(&["hook"]).get_program().to_owned();
        self.does(&format!("{} hook < {} >> {} 2>&1", program.to_string_lossy(), file.display(), self.said().display()));
    }

    /// An event, and all that it asks for.
    fn heard(&mut self, name: &str, more: Value) {
        let is_end = |line: &&str| line.contains(&format!("{name}: ")) && line.ends_with(" ms");
        let before = self.log().lines().filter(is_end).count();
        self.event(name, more);
        wait(|| (self.log().lines().filter(is_end).count() > before).then_some(()));
    }

    /// Everything that its hooks have said to it.
    fn said(&self) -> PathBuf {
        self.scratch.path("said")
    }

    /// The word that it leaves of itself; none takes that away.
    fn says(&mut self, word: Option<&str>) {
        let file = self.scratch.path(&format!("home/.claude/sessions/{}.json", self.process.id()));
        match word {
            None => fs::remove_file(file).unwrap(),
            Some(word) => {
                let said = json!({ "pid": self.process.id(), "sessionId": CONVERSATION, "status": word, "waitingFor": "permission prompt" });
                fs::write(file, said.to_string()).unwrap();
            }
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.path("home/.local/state/parhelia/hook.log")).unwrap_or_default()
    }

    fn session(&self) -> Option<Value> {
        let text = String::from_utf8(self.scratch.run(&["session", "list", "--json"]).stdout).unwrap();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["type"] == "session")
    }

    /// State and words of the verdict that holds.
    fn verdict(&self) -> (Value, Value) {
        let session = self.session().unwrap();
        (session["attention"]["state"].clone(), session["attention"]["why"].clone())
    }

    /// The number of verdicts that were recorded, each of which is told to somebody.
    fn told(&self) -> usize {
        let log = self.scratch.expect(0, &["log", "--json"]);
        log.lines().filter(|line| line.contains("session.attention") && line.contains("\"state\":")).count()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        kill(self.process.id() as i32);
        let _ = self.process.wait();
    }
}

fn waiting(why: &str) -> (Value, Value) {
    (json!("waiting"), json!(why))
}

const NONE: (Value, Value) = (Value::Null, Value::Null);

fn bash(command: &str) -> Value {
    json!({ "tool_name": "Bash", "tool_input": { "command": command, "description": "x" } })
}

fn notified(kind: &str, message: &str) -> Value {
    json!({ "notification_type": kind, "message": message })
}

#[test]
fn an_agent_that_asks_waits_until_it_goes_on() {
    let mut agent = Agent::new();
    agent.says(Some("waiting"));
    let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2");
    agent.heard("PermissionRequest", bash(&format!("curl -H 'Authorization: Bearer {token}'\n https://example.com/x")));
    let (state, why) = agent.verdict();
    let why = why.as_str().unwrap().to_owned();
    assert!(state == "waiting" && why.starts_with("Bash: curl") && why.contains("example.com") && !why.contains("aB3d"), "{why}");
    let session = agent.session().unwrap();
    assert_eq!((&session["needs"], &session["observed"], &session["why"]), (&json!("waiting"), &json!("waiting"), &json!(why)));
    // The same is told once.
    agent.heard("Notification", notified("permission_prompt", "Claude needs your permission"));
    assert_eq!((agent.verdict(), agent.told()), (waiting(&why), 1));
    // Another question is another one.
    agent.heard("PermissionRequest", json!({ "tool_name": "Write", "tool_input": { "file_path": "/x/y", "content": "z" } }));
    assert_eq!((agent.verdict(), agent.told()), (waiting("Write: /x/y"), 2));
    // It says itself that it goes on, before any event does.
    agent.says(Some("busy"));
    assert_eq!(agent.verdict(), NONE);
    agent.says(Some("waiting"));
    agent.heard("Stop", json!({}));
    assert_eq!(agent.verdict(), NONE);
    agent.says(Some("idle"));
    agent.heard("Notification", notified("idle_prompt", "Claude is waiting for your input"));
    assert_eq!(agent.verdict().0, "idle");
    agent.heard("UserPromptSubmit", json!({ "prompt": "go on" }));
    assert_eq!(agent.verdict(), NONE);
    assert_eq!(fs::read_to_string(agent.said()).unwrap(), "", "nothing is decided for a person");
}

#[test]
fn a_permission_that_another_hook_gives_is_nobodys_business() {
    let mut agent = Agent::new();
    agent.says(Some("busy"));
    agent.heard("PermissionRequest", bash("make"));
    agent.event("Notification", notified("auth_success", "welcome"));
    assert_eq!((agent.verdict(), agent.told()), (NONE, 0));
}

#[test]
fn an_agent_that_says_nothing_of_itself_is_as_its_last_event_tells() {
    let mut agent = Agent::new();
    agent.heard("PermissionRequest", bash("make"));
    assert_eq!(agent.verdict(), NONE, "another hook may answer it");
    agent.heard("Notification", notified("permission_prompt", "Claude needs your permission to use Bash"));
    assert_eq!(agent.verdict(), waiting("Claude needs your permission to use Bash"));
    agent.heard("UserPromptSubmit", json!({ "prompt": "go on" }));
    assert_eq!(agent.verdict(), NONE);
    agent.heard("Notification", notified("elicitation_dialog", "A server asks"));
    assert_eq!(agent.verdict(), waiting("A server asks"));
    // What follows in the conversation shows that it was answered.
    let transcript = agent.scratch.path(&format!("home/.claude/projects/-work/{CONVERSATION}.jsonl"));
    write(&transcript, b"{}\n").unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    fs::File::options().write(true).open(&transcript).unwrap().set_modified(later).unwrap();
    assert_eq!(agent.verdict(), NONE);
}

#[test]
fn a_question_has_a_checkpoint_of_what_was_done_before_it() {
    let mut agent = Agent::new();
    write(&agent.scratch.path("work/done"), b"before the question").unwrap();
    agent.heard("PreToolUse", json!({ "tool_name": "AskUserQuestion", "tool_input": { "questions": [] } }));
    let listed = agent.scratch.expect(0, &["checkpoint", "list", "--json"]);
    let newest: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(newest["cause"], "question", "{newest}");
    let files = agent.scratch.expect(0, &["checkpoint", "ls", newest["id"].as_str().unwrap()]);
    assert!(files.contains("done"), "{files}");
}

#[test]
fn a_stop_without_a_last_checkpoint_says_so() {
    let agent = Agent::new();
    fs::rename(agent.scratch.path("work"), agent.scratch.path("moved")).unwrap();
    let id = agent.session().unwrap()["id"].as_str().unwrap().to_owned();
    let text = agent.scratch.expect(3, &["session", "stop", &id]);
    assert!(text.contains("no last checkpoint could be made"), "{text}");
    assert!(!agent.session().unwrap()["failing"].is_null());
}

#[test]
fn an_agent_by_hand_whose_hooks_are_switched_off_is_said_to_be_without_checkpoints() {
    let mut agent = Agent::new();
    agent.heard("UserPromptSubmit", json!({ "prompt": "do it" }));
    let listed = |agent: &Agent| agent.scratch.expect(0, &["session", "list"]);
    assert!(!listed(&agent).contains("do not run any more"), "{}", listed(&agent));
    write(&agent.scratch.path("home/.claude/settings.json"), br#"{ "disableAllHooks": true }"#).unwrap();
    let said = listed(&agent);
    assert!(said.contains("its hooks do not run any more (") && said.contains("disableAllHooks"), "{said}");
    fs::remove_file(agent.scratch.path("home/.claude/settings.json")).unwrap();
    assert!(!listed(&agent).contains("do not run any more"), "{}", listed(&agent));
}

#[test]
fn an_agent_that_works_and_whose_hooks_are_silent_is_listed_as_that() {
    let scratch = Scratch::new();
    write(&scratch.path("work/stay"), b"").unwrap();
    let program = scratch.path("bin/claude");
    write_program(&program, scripted::AGENT);
    let words =
        ["session", "run", "--name", "silent", "--workspace", &scratch.path("work").to_string_lossy(), "--"].map(str::to_owned);
    let mut command = scratch.command(&[&words[..], &[program.to_string_lossy().into_owned()]].concat());
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let shown = || {
        let text = String::from_utf8(scratch.run(&["session", "list", "--json"]).stdout).unwrap();
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(|one| one["type"] == "session")
    };
    let session = wait(|| shown().filter(|session| session["hooks_silent"].is_string()));
    let listed = scratch.expect(0, &["session", "list"]);
    assert!(listed.contains("no event has come from the agent's hooks") && listed.contains("hooks status"), "{listed}");
    scratch.expect(0, &["session", "stop", "silent"]);
    run.wait().unwrap();
    assert!(shown().unwrap()["hooks_silent"].is_null(), "{session}");
}

#[test]
fn an_agent_by_hand_that_nobody_saw_end_is_not_started_again_by_itself() {
    let mut agent = Agent::new();
    agent.heard("UserPromptSubmit", json!({ "prompt": "do it" }));
    write(&agent.scratch.path("home/.claude/settings.json"), br#"{ "disableAllHooks": true }"#).unwrap();
    let mut service = agent.scratch.command(&["serve"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait(|| agent.session()?["unsupervised"]["service_interval_seconds"].is_number().then_some(()));
    kill(agent.process.id() as i32);
    let left = wait(|| agent.session().filter(|session| session["needs"] == "left_alone"));
    kill(service.id() as i32);
    service.wait().unwrap();
    assert!(left["set_aside"].as_str().is_some_and(|why| why.contains("nobody saw how it ended")), "{left}");
}
