//! `checkpoint search` by the real binary: conversations and everything else that is searched, bad input, an index that is damaged or gone, a
//! store that cannot be written, two searches at once, one that is killed.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::PathBuf,
    process::{Child, Stdio},
    time::Duration,
};

use parhelia_tests::{
    Scratch,
    filesystems::{Mountpoint, system},
};
use serde_json::{Value, json};

const AGENT_SESSION: &str = "0a1b2c3d-0000-4000-8000-000000000001";

/// A workspace, and a conversation in the agent's own folder.
struct Talk {
    s: Scratch,
    transcript: PathBuf,
}

impl Talk {
    fn new() -> Self {
        let s = Scratch::new();
        fs::create_dir_all(s.path("work")).unwrap();
        let project = s.path("home/.claude/projects/-work");
        fs::create_dir_all(&project).unwrap();
        Talk { transcript: project.join(format!("{AGENT_SESSION}.jsonl")), s }
    }

    fn say(&self, n: u32, prompt: &str, reply: &str) {
        let mut file = File::options().create(true).append(true).open(&self.transcript).unwrap();
        for (kind, text) in [("user", prompt), ("assistant", reply)] {
            let content = json!([{ "type": "text", "text": text }]);
            let message =
                json!({ "role": kind, "id": format!("m{n}"), "content": content, "model": "x", "stop_reason": "end_turn" });
            let record = json!({ "type": kind, "uuid": format!("{kind}{n}"), "sessionId": AGENT_SESSION, "message": message });
            writeln!(file, "{record}").unwrap();
        }
    }

    fn create(&self, more: &[&str]) -> String {
        let workspace = self.s.path("work").to_string_lossy().into_owned();
        let create = ["checkpoint", "create", "fix", "-w", &workspace, "--agent-session", AGENT_SESSION];
        self.s.summary(&[&create, more].concat())["id"].as_str().unwrap().to_owned()
    }

    /// Two checkpoints: of a first turn, and of a second one with another file.
    fn two() -> (Self, [String; 2]) {
        let talk = Talk::new();
        fs::write(talk.s.path("work/lexer.rs"), "one").unwrap();
        talk.say(1, "Repair the tokenizer, please", "The tokenizer loses the last comma.");
        let first = talk.create(&["-m", "before the great cleanup"]);
        fs::write(talk.s.path("work/parser.rs"), "two").unwrap();
        talk.say(2, "go on", "It is repaired \u{1b}[31mnow\u{1b}[0m \u{1b}]0;title\u{7}\u{202e}.");
        let second = talk.create(&[]);
        (talk, [first, second])
    }

    fn index(&self) -> PathBuf {
        self.s.store().join("cache/search.sqlite")
    }
}

/// The objects of a search before its summary.
fn hits(s: &Scratch, arguments: &[&str]) -> Vec<Value> {
    let text = s.expect(0, &[&["checkpoint", "search"], arguments, &["--json"]].concat());
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.filter(|line: &Value| line["type"] == "found").collect()
}

fn ids(s: &Scratch, arguments: &[&str]) -> Vec<String> {
    hits(s, arguments).iter().map(|hit| hit["checkpoint"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_checkpoint_is_found_by_what_was_said_and_changed() {
    let (talk, [first, second]) = Talk::two();
    let s = &talk.s;
    s.expect(0, &["tag", &second, "milestone/v1.0"]);
    s.expect(0, &["annotate", &second, "Ann has read this"]);
    s.expect(0, &["link", &second, "https://github.com/o/r/pull/12"]);
    for (words, field, expected) in [
        (&["comma"][..], "conversation", &first),
        (&["last", "comma"], "conversation", &first),
        (&["\"go on\""], "conversation", &second),
        (&["repair*", "parser.rs"], "files", &second),
        (&["cleanup"], "message", &first),
        (&["milestone/v1.0"], "tags", &second),
        (&["ann"], "annotations", &second),
        (&["o/r#12"], "links", &second),
        (&["lexer"], "files", &first),
    ] {
        let found = hits(s, words);
        assert_eq!((found.len(), &found[0]["checkpoint"]), (1, &Value::from(expected.as_str())), "{words:?}: {found:?}");
        let matches = found[0]["matches"].as_array().unwrap();
        assert!(matches.iter().any(|place| place["field"] == field && place["matched"] != json!([])), "{words:?}: {matches:?}");
    }
    assert!(ids(s, &["fix"]).len() == 2 && ids(s, &["comma", "go"]).is_empty());
    let summary = s.summary(&["search", "fix", "-n", "1"]);
    let numbers = ["checkpoints", "matching", "shown", "partial"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!(numbers, [2, 2, 1, 0]);
    assert_eq!(ids(s, &["fix", "--session", "fix", "--since", "1h"]).len(), 2);
    assert_eq!(ids(s, &["fix", "--since", "2999-01-01"]).len(), 0);
    s.expect(10, &["search", "fix", "--session", "nobody"]);

    let shown = s.expect(0, &["search", "comma"]);
    assert!(shown.starts_with(&first) && shown.contains("  conversation  ") && shown.contains("last comma"), "{shown}");
    assert!(s.expect(0, &["search", "fix", "-n", "1"]).ends_with("1 of 2 checkpoints that match.\n"));
    let none = s.expect(0, &["search", "whales"]);
    assert!(none.starts_with("Nothing matches in 2 checkpoints of "), "{none}");

    s.expect(0, &["untag", &second, "milestone/v1.0"]);
    s.expect(0, &["delete", &first]);
    assert!(ids(s, &["milestone"]).is_empty());
    assert_eq!(ids(s, &["comma"]), [second.as_str()], "the next one has the conversation, too");
    s.expect(0, &["gc", "-q"]);
    assert_eq!((ids(s, &["comma"]).len(), ids(s, &["cleanup"]).len()), (1, 0));
}

#[test]
fn bad_input_is_refused_or_answered_and_never_steers_the_terminal() {
    let (talk, [_, second]) = Talk::two();
    let s = &talk.s;
    let long = "x".repeat(10_000);
    for (words, why) in [
        (&[""][..], "no letter and no digit"),
        (&["..", "\"\"", "*", "-- ()"], "no letter and no digit"),
        (&[&long], "more than 4096 bytes"),
    ] {
        let refused = s.expect(2, &[&["search", "--"], words].concat());
        assert!(refused.contains(why), "{refused}");
    }
    s.expect(2, &["search"]);
    s.expect(2, &[std::ffi::OsStr::new("search"), std::ffi::OsStr::from_bytes(b"a\xff")]);
    for odd in
        ["\"not closed", "a AND OR NOT", "col:x^2", "NEAR(a b, 3)", "{a b}: c", "a\u{1b}[2Jb", "'; DROP TABLE texts --", "日本"]
    {
        s.expect(0, &["search", "--", odd]);
    }
    let shown = s.expect(0, &["search", "repaired", "now"]);
    assert!(shown.contains("repaired") && !shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown:?}");
    assert_eq!(ids(s, &["repaired"]), [second]);
}

#[test]
fn an_index_that_is_damaged_or_gone_is_made_anew_and_is_for_its_owner_alone() {
    let (talk, [first, _]) = Talk::two();
    let s = &talk.s;
    assert_eq!(ids(s, &["comma"]), [first.as_str()]);
    assert_eq!(fs::metadata(talk.index()).unwrap().permissions().mode() & 0o777, 0o600);
    let whole = fs::read(talk.index()).unwrap();
    let damaged = [&whole[..whole.len() / 3], &vec![0xa5; whole.len() / 3][..], &whole[whole.len() / 3 * 2..]].concat();
    for bytes in [&b"nonsense"[..], &damaged, &whole[..5000], b""] {
        fs::write(talk.index(), bytes).unwrap();
        assert_eq!(ids(s, &["comma"]), [first.as_str()], "{} bytes", bytes.len());
    }
    fs::remove_dir_all(s.store().join("cache")).unwrap();
    assert_eq!(ids(s, &["comma"]), [first.as_str()]);
    // One that came with another store.
    let (other, _) = Talk::two();
    other.s.expect(0, &["search", "comma"]);
    fs::copy(other.index(), talk.index()).unwrap();
    assert_eq!(ids(s, &["comma"]), [first.as_str()]);
}

#[test]
fn a_store_that_cannot_be_written_is_searched() {
    let (talk, [first, _]) = Talk::two();
    let s = &talk.s;
    let store = s.store().to_string_lossy().into_owned();
    system("mount", &["--bind", &store, &store]);
    let _mounted = Mountpoint::of(&s.store());
    system("mount", &["-o", "remount,bind,ro", &store]);
    for _ in 0..2 {
        assert_eq!(ids(s, &["comma"]), [first.as_str()]);
    }
    let kept: Vec<_> = fs::read_dir(s.path("home/.cache/parhelia/search")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(kept.iter().any(|path| path.extension().is_some_and(|ending| ending == "sqlite")), "{kept:?}");
    assert!(kept.iter().all(|path| fs::metadata(path).unwrap().permissions().mode() & 0o777 == 0o600));
    // Neither there: it is made for the one search, and that is said.
    let mut command = s.command(&["search", "comma"]);
    let output = command.env_remove("HOME").output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && out.starts_with(&first) && err.contains("for this search alone"), "{out}{err}");
}

#[test]
fn searches_at_once_and_searches_that_are_killed_find_everything() {
    let talk = Talk::new();
    let s = &talk.s;
    let made: Vec<String> = (0..12)
        .map(|i| {
            talk.say(i, &format!("turn{i} of whales"), "yes");
            talk.create(&[])
        })
        .collect();
    let start = || s.command(&["search", "whales", "-n", "100", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    for round in 0..6u64 {
        let _ = fs::remove_file(talk.index());
        let mut killed = start();
        let children: Vec<Child> = (0..3).map(|_| start()).collect();
        std::thread::sleep(Duration::from_millis(5 * round));
        killed.kill().unwrap();
        killed.wait().unwrap();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let found =
                output.stdout.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"{\"type\":\"found\"")).count();
            assert_eq!(found, made.len());
        }
    }
    assert_eq!(ids(s, &["turn7"]), [made[7].as_str()]);
}
