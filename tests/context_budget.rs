//! The model's context window: a report that adds up, a compressed conversation that fits, and what an agent is told once its conversation
//! was compacted or replaced.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use parhelia_tests::{Scratch, live::wait, write};
use serde_json::{Value, json};

const CONVERSATION: &str = "3a9d1f6e-57c0-4f0e-9a55-6f8f1f8c0b22";
const LIMIT: u64 = 20_000;
const ERROR: &str = "error[E0499]: planted, cannot borrow `parser` as mutable more than once";
const RESOLUTION: &str = "test result: ok. 17 passed; planted resolution";
const ANSWER: &str = "User has answered your questions: \"Tabs or spaces?\"=\"planted decision: tabs\". You can now continue.";

/// A session with a transcript, whose agent is its hooks alone.
struct Work {
    scratch: Scratch,
    workspace: PathBuf,
    transcript: PathBuf,
    said: String,
    calls: usize,
}

impl Work {
    fn new() -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.path("work");
        write(&workspace.join("src/parser.rs"), b"fn parse() {}\n").unwrap();
        write(&scratch.path("home/.config/parhelia/parhelia.toml"), format!("[context]\nwindow_tokens = {LIMIT}\n").as_bytes())
            .unwrap();
        let transcript = scratch.path(&format!("home/.claude/projects/-work/{CONVERSATION}.jsonl"));
        Work { scratch, workspace, transcript, said: String::new(), calls: 0 }
    }

    fn record(&mut self, kind: &str, more: Value) {
        let mut record = json!({ "type": kind, "uuid": format!("{kind}-{}", self.said.len()), "sessionId": CONVERSATION });
        record.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        self.said.push_str(&format!("{record}\n"));
        write(&self.transcript, self.said.as_bytes()).unwrap();
    }

    fn prompt(&mut self, text: &str) {
        self.record("user", json!({ "message": { "role": "user", "content": text } }));
    }

    fn assistant(&mut self, block: Value, used: u64) {
        let usage = json!({ "input_tokens": used, "output_tokens": 0 });
        let message =
            json!({ "id": format!("m{}", self.said.len()), "model": "claude-opus-4-5", "content": [block], "usage": usage });
        self.record("assistant", json!({ "message": message }));
    }

    fn reply(&mut self, text: &str, used: u64) {
        self.assistant(json!({ "type": "text", "text": text }), used);
    }

    fn tool(&mut self, name: &str, input: Value, result: &str, is_error: bool) {
        self.calls += 1;
        let id = format!("toolu_{}", self.calls);
        self.assistant(json!({ "type": "tool_use", "id": id, "name": name, "input": input }), 1_000);
        let block = json!({ "type": "tool_result", "tool_use_id": id, "content": result, "is_error": is_error });
        let answers = json!({ "answers": { "Tabs or spaces?": "planted decision: tabs" } });
        let answers = if name == "AskUserQuestion" { answers } else { Value::Null };
        self.record("user", json!({ "message": { "role": "user", "content": [block] }, "toolUseResult": answers }));
    }

    /// A conversation of which the agent says that it fills the window.
    fn converse(&mut self, used: u64) {
        let system = json!({ "type": "prompt_snapshot", "systemPrompt": ["You are an agent.", "Be brief."] });
        self.record("attachment", json!({ "attachment": system }));
        self.prompt("Make the parser faster.");
        let test = json!({ "command": "cargo test --lib" });
        self.tool("Bash", test.clone(), &format!("{}{ERROR}\nexit code 101", compiling(200)), true);
        self.tool("Edit", json!({ "file_path": "/work/src/parser.rs", "old_string": "a", "new_string": "b" }), "edited", false);
        self.tool("Bash", test, RESOLUTION, false);
        self.tool("AskUserQuestion", json!({ "questions": [{ "question": "Tabs or spaces?" }] }), ANSWER, false);
        self.reply("The parser is faster.", 5_000);
        for n in 0..16 {
            self.prompt(&format!("step {n}"));
            self.tool("Read", json!({ "file_path": "/work/src/lib.rs" }), &compiling(70), false);
            self.reply(&format!("Step {n} is done."), 10_000);
        }
        self.prompt("the last prompt");
        self.tool("Bash", json!({ "command": "make" }), "made", false);
        self.reply("All of it is done.", used);
    }

    fn hook(&self, name: &str, more: Value) -> (String, Duration) {
        let event = json!({ "hook_event_name": name, "session_id": CONVERSATION, "cwd": self.workspace, "transcript_path": self.transcript });
        let mut event = event.as_object().cloned().unwrap();
        event.extend(more.as_object().cloned().unwrap());
        let began = Instant::now();
        let mut command = self.scratch.command(&["hook"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(json!(event).to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        (String::from_utf8(output.stdout).unwrap(), began.elapsed())
    }

    fn told(&self, source: &str) -> String {
        let (output, _) = self.hook("SessionStart", json!({ "source": source }));
        let answer: Value = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}"));
        answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.path("home/.local/state/parhelia/hook.log")).unwrap_or_default()
    }

    /// Begins the session, and makes a checkpoint of what was said. Returns the session.
    fn begin(&mut self, used: u64) -> String {
        self.hook("SessionStart", json!({ "source": "startup" }));
        self.converse(used);
        self.hook("Stop", json!({}));
        wait(|| self.log().contains("made checkpoint").then_some(()));
        let listed = self.objects(&["session", "list"]);
        listed.iter().find(|line| line["type"] == "session").unwrap()["id"].as_str().unwrap().to_owned()
    }

    fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        let text = self.scratch.expect(0, &[arguments, &["--json"]].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn report(&self, arguments: &[&str]) -> Value {
        self.objects(&[&["session", "context"], arguments].concat()).pop().unwrap()
    }
}

fn compiling(lines: usize) -> String {
    (0..lines).map(|n| format!("   Compiling dependency-{n} v1.{n}.0\n")).collect()
}

#[test]
fn the_report_adds_up_and_the_compressed_conversation_fits() {
    let mut work = Work::new();
    let session = work.begin(17_000);
    let report = work.report(&[&session, "--compressed"]);
    assert_eq!((&report["verb"], &report["id"]), (&json!("session context"), &json!(session)));
    assert_eq!((&report["limit_tokens"], &report["limit_source"]), (&json!(LIMIT), &json!("configured")));
    assert_eq!((&report["context_tokens_used"], &report["context_tokens_source"]), (&json!(17_000), &json!("reported")));
    assert_eq!((&report["context_budget_percent"], &report["compression_applied"]), (&json!(85.0), &json!(true)));
    assert_eq!(report["measured_with"], "estimate");
    let shares = report["shares"].as_array().unwrap();
    let sum = |name: &str| shares.iter().map(|share| share[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("tokens"), sum("budget_percent")), (report["measured_tokens"].as_u64().unwrap(), 100));
    let share = |name: &str| shares.iter().find(|share| share["name"] == name).unwrap();
    assert!(share("system_prompt")["tokens"].as_u64().unwrap() > 0 && share("tool_results")["over"] == true, "{report}");
    let (density, after) = (report["information_density"].as_f64().unwrap(), report["compressed_density"].as_f64().unwrap());
    // The last turns stay whole, also where they repeat each other.
    assert!([density, after].iter().all(|share| (0.05..1.0).contains(share)), "{density} {after}");

    assert!(report["compressed_tokens"].as_u64().unwrap() <= LIMIT * 80 / 100, "{report}");
    let text = report["markdown"].as_str().unwrap();
    for kept in [
        "You are an agent.",
        "Make the parser faster.",
        ERROR,
        RESOLUTION,
        "planted decision: tabs",
        "the last prompt",
        "All of it is done.",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    assert!(!text.contains("dependency-150 "), "{text}");

    // The checkpoint has the same conversation.
    let of_checkpoint = work.report(&["--checkpoint", &format!("{session}@latest")]);
    assert_eq!(of_checkpoint["measured_tokens"], report["measured_tokens"]);
    assert!(of_checkpoint["checkpoint"].is_string() && of_checkpoint["markdown"].is_null(), "{of_checkpoint}");
    let table = work.scratch.expect(0, &["session", "context", &session]);
    for part in ["Recent conversation", "over its budget", "17000 tokens, 85.0 %; reported by the agent", "yes: from "] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn after_a_compaction_the_agent_is_told_what_its_briefing_lacks() {
    let mut work = Work::new();
    work.begin(17_000);
    wait(|| work.log().contains("the context window is 85 % full: 17000 of 20000 tokens, reported by the agent").then_some(()));
    // The agent writes down the compaction and its summary.
    let boundary = json!({ "subtype": "compact_boundary", "compactMetadata": { "trigger": "auto", "preTokens": 17_100 } });
    work.record("system", boundary);
    work.record(
        "user",
        json!({ "isCompactSummary": true, "message": { "role": "user", "content": "This session is being continued." } }),
    );
    let (output, took) = work.hook("SessionStart", json!({ "source": "compact" }));
    println!("the hook took {} ms", took.as_millis());
    let answer: Value = serde_json::from_str(&output).unwrap();
    let told = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(told.encode_utf16().count() <= 10_000, "{told}");
    let (briefing, kept) = told.split_once("## Kept of the earlier conversation").unwrap_or_else(|| panic!("{told}"));
    assert!(briefing.starts_with("Context of this session ("), "{briefing}");
    let place = |text: &str| kept.find(text).unwrap_or_else(|| panic!("{text}: {kept}"));
    assert!(place(ERROR) < place("/work/src/parser.rs") && place("/work/src/parser.rs") < place(RESOLUTION));
    assert!(place(RESOLUTION) < place("### Results of tools"), "{kept}");
    assert!(briefing.contains("planted decision: tabs") && !kept.contains("planted decision"), "{told}");
    assert!(!kept.contains("dependency-60 "), "{kept}");
    assert!(work.log().contains(" of them of the earlier conversation"), "{}", work.log());
}

#[test]
fn a_window_with_room_is_left_alone() {
    let mut work = Work::new();
    let session = work.begin(9_000);
    let report = work.report(&[&session]);
    assert_eq!((&report["compression_applied"], &report["compressed_tokens"]), (&json!(false), &Value::Null));
    let boundary = json!({ "subtype": "compact_boundary", "compactMetadata": { "trigger": "manual", "preTokens": 9_000 } });
    work.record("system", boundary);
    let told = work.told("compact");
    assert!(told.starts_with("Context of this session (") && !told.contains("## Kept of"), "{told}");
    assert!(!work.log().contains("the context window is"), "{}", work.log());
}
