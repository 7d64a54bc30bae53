//! The state that is shown behind a rollback: the one that is there, not the one that was left.

use std::fs;

use parhelia_tests::{Scratch, scripted, write, write_program};
use serde_json::Value;

fn lines(scratch: &Scratch, arguments: &[&str]) -> Vec<Value> {
    let text = scratch.expect(0, &[arguments, &["--json"]].concat());
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_session_and_its_folder_are_shown_as_they_are_behind_a_rollback() {
    let scratch = Scratch::new();
    let (work, program) = (scratch.path("work"), scratch.path("bin/claude"));
    write(&work.join("file"), b"one\n").unwrap();
    write_program(&program, scripted::AGENT);
    let place = work.to_string_lossy().into_owned();
    let turn = |prompt: &str, arguments: &[&str]| {
        let output = scratch.command(arguments).env("PROMPT", prompt).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    turn("the first prompt", &["session", "run", "--name", "s", "--workspace", &place, "--", &program.to_string_lossy(), "-p"]);
    let newest = || lines(&scratch, &["list", "s"])[0]["id"].as_str().unwrap().to_owned();
    let first = newest();
    write(&work.join("file"), b"two\n").unwrap();
    turn("the second prompt", &["session", "resume", "s", "--prompt", "go on", "--yes"]);
    let second = newest();
    assert_ne!(first, second);
    let shown = |name: &str| lines(&scratch, &["session", "show", "s"])[0][name].clone();
    assert_eq!((shown("last_prompt"), shown("conversations")[0]["turn_count"].clone()), ("the second prompt".into(), 2.into()));

    scratch.expect(0, &["rollback", &first, "--yes"]);
    assert_eq!(fs::read(work.join("file")).unwrap(), b"one\n");
    assert_eq!(shown("head"), first.as_str());
    assert_eq!((shown("last_prompt"), shown("conversations")[0]["turn_count"].clone()), ("the first prompt".into(), 1.into()));
    let text = scratch.expect(0, &["session", "show", "s"]);
    assert!(text.contains("1 turn") && !text.contains("second prompt"), "{text}");
    let status = lines(&scratch, &["status", "--workspace", &place]).pop().unwrap();
    assert_eq!((&status["checkpoint"]["id"], &status["newer"]), (&first.as_str().into(), &second.as_str().into()));
    assert_eq!(status["modified"], 0, "{status}");
    let text = scratch.expect(0, &["status", "--workspace", &place]);
    assert!(text.contains(&format!("went back to {first}")) && text.contains("Nothing has changed since."), "{text}");

    scratch.expect(0, &["undo", "s", "--yes"]);
    assert_eq!((shown("last_prompt"), shown("conversations")[0]["turn_count"].clone()), ("the second prompt".into(), 2.into()));
    let text = scratch.expect(0, &["status", "--workspace", &place]);
    assert!(text.contains("Nothing has changed since."), "{text}");
    // What is captured from here on is the last one again.
    write(&work.join("file"), b"three\n").unwrap();
    let third = scratch.create("s", &work);
    let status = lines(&scratch, &["status", "--workspace", &place]).pop().unwrap();
    assert_eq!((&status["checkpoint"]["id"], &status["newer"]), (&third.as_str().into(), &Value::Null));
}
