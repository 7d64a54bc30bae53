//! Phase checkpoints, by the real program: its verbs, and what the agent's hooks say of them.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
    time::Instant,
};

use parhelia_tests::{Scratch, live};
use serde_json::{Value, json};

fn phase(scratch: &Scratch, words: &[&str]) -> Command {
    let mut command = scratch.command(&[&["phase"], words].concat());
    command.env("PARHELIA_PHASES", scratch.path("home/.pai")).env_remove("PAI_SESSION_ID");
    command
}

fn lines(mut command: Command, code: i32) -> Vec<Value> {
    let output = command.arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a program says that gets some input.
fn fed(mut command: Command, input: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_phase_is_created_offered_and_completed() {
    let scratch = Scratch::without_store();
    assert_eq!(lines(phase(&scratch, &["detect"]), 0)[0]["id"], Value::Null);
    let words =
        ["create", "Plan", "--number", "3", "--task", "Fix the parser", "--criterion", "1:in_progress:It parses: all of it"];
    let mut create = phase(&scratch, &words);
    create.args(["--metadata", r#"{"port": 8080}"#]).env("PAI_SESSION_ID", "of-pai");
    let created = lines(create, 0);
    let (id, file) = (created[0]["id"].as_str().unwrap(), created[0]["file"].as_str().unwrap());
    assert_eq!(created[1], json!({"type": "summary", "verb": "phase create", "id": id}));
    let written: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!((&written["id"], &written["sessionId"], &written["phaseNumber"]), (&json!(id), &json!("of-pai"), &json!(3)));
    assert_eq!(written["iscCriteria"], json!([{"id": "1", "subject": "It parses: all of it", "status": "in_progress"}]));
    assert_eq!(written["metadata"], json!({"port": 8080}));
    let output = phase(&scratch, &["detect"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "[Resume from Phase 3? (Fix the parser)]\n");
    assert_eq!(lines(phase(&scratch, &["load", id]), 0)[0], created[0]);
    assert_eq!(lines(phase(&scratch, &["list", "--incomplete"]), 0).len(), 2);
    assert_eq!(lines(phase(&scratch, &["complete", id]), 0)[0]["completed"], true);
    assert_eq!(lines(phase(&scratch, &["list", "--incomplete"]), 0).len(), 1);
    let output = phase(&scratch, &["detect"]).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    assert!(lines(phase(&scratch, &["cleanup"]), 0).iter().all(|line| line["type"] == "summary"), "it is of today");
    assert!(!scratch.store().exists(), "no store is needed");
}

#[test]
fn bad_input_is_refused_and_leaves_nothing() {
    let scratch = Scratch::new();
    let good = ["create", "Plan", "--number", "3", "--task", "t"];
    for (words, code) in [
        (&["create", "Plan", "--number", "0", "--task", "t"][..], 2),
        (&["create", "Plan", "--number", "8", "--task", "t"], 2),
        (&["create", "Plan", "--task", "t"], 2),
        (&["create", "", "--number", "1", "--task", "t"], 2),
        (&["create", "Plan", "--number", "1", "--task", " "], 2),
        (&[&good[..], &["--criterion", "1:done:x"]].concat(), 2),
        (&[&good[..], &["--criterion", "1"]].concat(), 2),
        (&[&good[..], &["--metadata", "[]"]].concat(), 2),
        (&[&good[..], &["--metadata", "@none"]].concat(), 10),
        (&["load", "none"], 10),
        (&["complete", "../../etc"], 10),
        (&["cleanup", "--older-than", "-1"], 2),
    ] {
        let output = phase(&scratch, words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
    }
    assert!(lines(phase(&scratch, &["list"]), 0).iter().all(|line| line["type"] == "summary"));
}

#[test]
fn the_agent_is_asked_as_a_conversation_begins_and_old_ones_go_as_it_ends() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("w")).unwrap();
    let hook = |event: &str, more: Value| {
        let mut event = json!({"hook_event_name": event, "session_id": "c1", "cwd": scratch.path("w"), "transcript_path": scratch.path("t.jsonl")});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut command = scratch.command(&["hook"]);
        // A project's settings set variables of hooks.
        command.env("PARHELIA_PHASES", scratch.path("planted"));
        fed(command, &event.to_string())
    };
    assert_eq!(hook("SessionStart", json!({"source": "startup"})), "", "there is nothing to say");
    lines(phase(&scratch, &["create", "Build", "--number", "5", "--task", "Fix \u{1b}[31mthe parser"]), 0);
    let said: Value = serde_json::from_str(&hook("SessionStart", json!({"source": "startup"}))).unwrap();
    let said = said["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(said.ends_with("[Resume from Phase 5? (Fix \\x1b[31mthe parser)]"), "{said}");
    assert_eq!(hook("SessionStart", json!({"source": "clear"})), "");
    let old = scratch.path("home/.pai/checkpoints/ckpt-2020-01-01T00-00-00Z-plan.json");
    let text = json!({"id": "old", "sessionId": "s", "phase": "Plan", "phaseNumber": 1, "createdAt": "2020-01-01T00:00:00Z", "completed": false,
        "taskSummary": "t", "iscCriteria": [], "metadata": {}});
    fs::write(&old, text.to_string()).unwrap();
    hook("PreCompact", json!({"trigger": "auto"}));
    live::wait(|| (!old.exists()).then_some(()));
    assert_eq!(lines(phase(&scratch, &["list"]), 0).len(), 2, "the new one stays");
}

#[test]
fn among_ten_thousand_files_it_takes_no_longer_than_a_hook_has() {
    let scratch = Scratch::new();
    let folder = scratch.path("home/.pai/checkpoints");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..10_000 {
        let text = json!({"id": format!("id{number}"), "sessionId": "s", "phase": "Plan", "phaseNumber": 1, "completed": number != 77,
            "createdAt": "2026-01-01T00:00:00Z", "taskSummary": "the one", "iscCriteria": [], "metadata": {"n": number}});
        fs::write(folder.join(format!("ckpt-2026-01-01T00-00-00Z-plan-id{number}.json")), text.to_string()).unwrap();
    }
    let began = Instant::now();
    let found = lines(phase(&scratch, &["detect"]), 0);
    assert_eq!(found[0]["id"], "id77");
    // The bar is 0.1 s on a machine with nothing else to do.
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}
