//! The story of conversations of each kind of agent, and that no damage of a transcript makes it fail.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Approach, NO_STEP, Story};
use crate::transcript::{Conversation, Format, Index};

fn of(format: Format, lines: &[Value]) -> Index {
    let mut index = Index { format, ..Index::default() };
    let mut offset = 0;
    for line in lines {
        let text = line.to_string();
        index.apply(text.as_bytes(), offset);
        offset += text.len() as u64 + 1;
    }
    index
}

fn claude(lines: &[Vec<Value>]) -> Index {
    of(Format::Transcript, &lines.concat())
}

/// A call of Claude Code with its result.
fn did(tool: &str, input: &Value, output: &str, is_error: bool, result: &Value) -> Vec<Value> {
    let id = format!("t{}", blake3::hash(format!("{tool}{input}{output}").as_bytes()).to_hex());
    let call = json!([{"type": "tool_use", "id": id, "name": tool, "input": input}]);
    let block = json!([{"type": "tool_result", "tool_use_id": id, "content": output, "is_error": is_error}]);
    vec![
        json!({"type": "assistant", "uuid": "a", "cwd": "/w", "message": {"id": "m", "model": "m", "content": call, "stop_reason": "tool_use"}}),
        json!({"type": "user", "uuid": "r", "message": {"role": "user", "content": block}, "toolUseResult": result}),
    ]
}

fn ran(command: &str, output: &str) -> Vec<Value> {
    did("Bash", &json!({"command": command}), output, false, &Value::Null)
}

fn failed(command: &str, output: &str) -> Vec<Value> {
    did("Bash", &json!({"command": command}), output, true, &Value::Null)
}

fn edited(path: &str, old: &str, new: &str) -> Vec<Value> {
    did("Edit", &json!({"file_path": path, "old_string": old, "new_string": new}), "updated", false, &Value::Null)
}

fn wrote(path: &str, content: &str, before: Option<&str>) -> Vec<Value> {
    did("Write", &json!({"file_path": path, "content": content}), "ok", false, &json!({"originalFile": before}))
}

fn told(story: &Story) -> Vec<(String, Option<String>, Option<String>)> {
    let told = story.failed_approaches(Some("/w"));
    told.into_iter().map(|Approach { what, error, resolved_by, .. }| (what, error, resolved_by)).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_command_that_fails_and_what_makes_it_pass() {
    let test = "cd /w && cargo test -p a";
    let index = claude(&[
        failed(test, "Exit code 101\nerror[E0308]: mismatched types\n --> src/a.rs:3"),
        edited("/w/src/a.rs", "1", "2"),
        failed(test, "Exit code 101\nthread 't' panicked at src/a.rs:9:1:"),
        edited("/w/src/b.rs", "x", "y"),
        edited("/w/src/b.rs", "y", "z"),
        ran(test, "test result: ok. 3 passed; 0 failed"),
        failed("python run.py", "Exit code 1\nTraceback (most recent call last):\nModuleNotFoundError: No module named 'jwt'"),
        ran("pip install PyJWT==2.8.0", "done"),
        ran("python run.py", "fine"),
        failed("npm run build", "Exit code 2\nno config"),
        ran("npm run build", "built"),
        failed("pytest tests/a.py", "Exit code 1\nE  assert 1 == 2"),
        ran("pytest", "20 passed"),
        failed("make deploy", "Exit code 2\nmake: *** [deploy] Error 1"),
        failed("grep nothing src", "Exit code 1"),
        failed("ls missing", "Exit code 2\nls: cannot access 'missing'"),
    ]);
    assert_eq!(
        told(&index.story),
        [
            ("`make deploy`".into(), some("make: *** [deploy] Error 1"), None),
            ("`pytest tests/a.py`".into(), some("E assert 1 == 2"), some("`pytest` passed")),
            ("`npm run build`".into(), some("no config"), some(NO_STEP)),
            ("`python run.py`".into(), some("ModuleNotFoundError: No module named 'jwt'"), some("`pip install PyJWT==2.8.0`")),
            (
                "`cd /w && cargo test -p a` (2 times)".into(),
                some("thread 't' panicked at src/a.rs:9:1:"),
                some("edits of src/a.rs, src/b.rs")
            ),
        ]
    );
    assert_eq!(index.story.blockers(), ["`make deploy` fails: make: *** [deploy] Error 1"]);
    let packages: Vec<_> = index.story.packages().map(|package| package.name.as_str()).collect();
    assert_eq!(packages, ["PyJWT==2.8.0"]);
    let last: Vec<_> = index.story.commands().take(2).map(|ran| (ran.command.as_str(), ran.failed)).collect();
    assert_eq!(last, [("ls missing", true), ("grep nothing src", true)]);
    let many: Vec<_> = (0..25).map(|n| ran(&format!("cargo run -- {n}"), "")).collect();
    assert!(claude(&[vec![failed("make deploy", "Exit code 2")], many].concat()).story.blockers().is_empty());
}

#[test]
fn a_failure_that_a_pipe_hides_is_one_and_what_did_not_run_is_none() {
    let index = claude(&[
        ran("cargo test 2>&1 | tail -5", "error: could not compile `a`"),
        ran("cat notes.md | head", "error: could not compile `a`"),
        failed("rm -rf /", "The user doesn't want to proceed with this tool use."),
        failed("curl x", "Permission to use Bash with command curl x has been denied."),
        did("Bash", &json!({"command": "cargo test", "run_in_background": true}), "running", false, &Value::Null),
    ]);
    assert_eq!(told(&index.story), [("`cargo test 2>&1 | tail -5`".into(), some("error: could not compile `a`"), None)]);
    let documents: Vec<_> = index.story.documents().collect();
    assert_eq!(documents, ["notes.md"]);
}

#[test]
fn edits_that_are_undone() {
    let index = claude(&[
        edited("/w/auth.py", "import jwt", "import authlib"),
        failed("pytest", "Exit code 1\nauthlib is incompatible with async"),
        edited("/w/auth.py", "import authlib", "import jwt"),
    ]);
    let reverted = || told(&index.story)[0].clone();
    assert_eq!(
        reverted(),
        (
            "Edit of auth.py (`import authlib`), reverted".into(),
            some("`pytest` failed: authlib is incompatible with async"),
            None
        )
    );
    assert_eq!(index.files.get("/w/auth.py").map(|used| (used.edits, used.lines_added, used.lines_removed)), Some((2, 2, 2)));

    let written = claude(&[
        wrote("/w/a", "one\n", None),
        wrote("/w/a", "two\nof them\n", Some("one\n")),
        edited("/w/a", "two", "three"),
        wrote("/w/a", "one\n", Some("three\nof them\n")),
    ]);
    assert_eq!(told(&written.story), [("Edit of a (`three` and 1 more), reverted".into(), None, None)]);
    let restored = |command: &str, before: Vec<Value>| {
        let index = claude(&[edited("/w/src/a.rs", "aaa", "bbb"), edited("/w/b.rs", "ccc", "ddd"), before, ran(command, "")]);
        told(&index.story).into_iter().map(|(what, ..)| what).collect::<Vec<_>>()
    };
    let a = "Edit of src/a.rs (`bbb`), undone by `git checkout -- src/a.rs`";
    assert_eq!(restored("git checkout -- src/a.rs", vec![]), [a]);
    assert_eq!(restored("git restore src/", vec![]), ["Edit of src/a.rs (`bbb`), undone by `git restore src/`"]);
    assert_eq!(restored("cd /w; git reset --hard", vec![]).len(), 2);
    for other in ["git checkout src", "git checkout -b b.rs", "git restore --staged b.rs", "git reset b.rs", "git checkout main"]
    {
        assert!(restored(other, vec![]).is_empty(), "{other}");
    }
    let committed = ran("git commit -am x", "[main 1a2b3c4] Say more\n 1 file changed");
    assert!(restored("git reset --hard", committed).is_empty());
}

#[test]
fn what_is_done_again_was_no_mistake() {
    let (there, back) = (edited("/w/a", "x", "y"), edited("/w/a", "y", "x"));
    assert_eq!(told(&claude(&[there.clone(), back.clone()]).story).len(), 1);
    assert!(told(&claude(&[there.clone(), back, there]).story).is_empty());
}

#[test]
fn plans_commits_pages_and_documents() {
    let plan = json!({"plan": "# Rewrite it\n\nAll of it."});
    let index = claude(&[
        did("ExitPlanMode", &plan, "The user doesn't want to proceed", true, &Value::Null),
        did("ExitPlanMode", &json!({"plan": "# Mend it"}), "approved", false, &Value::Null),
        ran("git add -A && git commit -m 'Say more'", "[main (root-commit) 1a2b3c4d] Say more\n 1 file changed"),
        did("WebFetch", &json!({"url": "https://docs.rs/serde?token=secret", "prompt": "p"}), "page", false, &Value::Null),
        did("Read", &json!({"file_path": "/w/README.md"}), "text", false, &Value::Null),
        did("Read", &json!({"file_path": "/w/src/a.rs"}), "text", false, &Value::Null),
        ran("sed -n '1,20p' docs/usage.txt", "text"),
    ]);
    let summary = Conversation { main: index, ..Conversation::default() }.summary();
    let approaches: Vec<_> = summary.approaches.iter().map(|approach| (approach.what.as_str(), approach.failed)).collect();
    assert_eq!(approaches, [("Plan: Rewrite it", true), ("Plan: Mend it", false)]);
    assert_eq!(summary.commits, ["Say more (1a2b3c4d)"]);
    assert_eq!(summary.relevant_docs, ["/w/README.md", "docs/usage.txt", "https://docs.rs/serde"]);
}

#[test]
fn credentials_are_left_out() {
    let index = claude(&[failed("API_TOKEN=abcdef curl https://u:p@h/x", "Exit code 7\nBearer abcdefghijkl: refused")]);
    let shown = serde_json::to_string(&index.story).unwrap();
    assert!(!shown.contains("abcdef") && !shown.contains("u:p@"), "{shown}");
}

fn codex(tool: &str, kind: &str, input: &str, output: &Value) -> Vec<Value> {
    let id = blake3::hash(format!("{input}{output}").as_bytes()).to_hex().to_string();
    let (call, result, field) = match kind {
        "custom" => ("custom_tool_call", "custom_tool_call_output", "input"),
        _ => ("function_call", "function_call_output", "arguments"),
    };
    vec![
        json!({"type": "response_item", "payload": {"type": call, "call_id": id, "name": tool, field: input}}),
        json!({"type": "response_item", "payload": {"type": result, "call_id": id, "output": output}}),
    ]
}

fn codex_story() -> Vec<Value> {
    let patch =
        |old: &str, new: &str| format!("*** Begin Patch\n*** Update File: src/a.rs\n@@ fn a\n-{old}\n+{new}\n*** End Patch\n");
    let exec = |cmd: &str| json!({"cmd": cmd, "yield_time_ms": 1000}).to_string();
    let shell = json!({"command": ["bash", "-lc", "npm test"]}).to_string();
    let code = |code: u8, text: &str| {
        json!(format!("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code {code}\nOutput:\n{text}"))
    };
    [
        vec![json!({"type": "session_meta", "payload": {"id": "c", "cwd": "/w"}})],
        codex("exec_command", "function", &exec("cargo test"), &code(101, "error: could not compile `a`")),
        codex("apply_patch", "custom", &patch("let a = 1;", "let a = b;"), &json!("Done")),
        codex("exec_command", "function", &exec("cargo test"), &code(0, "ok")),
        codex("apply_patch", "custom", &patch("let a = b;", "let a = 1;"), &json!("Success")),
        codex("shell", "function", &shell, &json!("{\"output\":\"npm ERR! missing script\",\"metadata\":{\"exit_code\":1}}")),
        codex("shell_command", "function", &json!({"command": "go vet"}).to_string(), &json!("exec command rejected by user")),
        codex("exec_command", "function", &exec("sleep 99"), &json!("Process running with session ID 5")),
    ]
    .concat()
}

#[test]
fn codex_tells_the_same() {
    let index = of(Format::Rollout, &codex_story());
    assert_eq!(
        told(&index.story),
        [
            ("`npm test`".into(), some("npm ERR! missing script"), None),
            ("Edit of src/a.rs (`let a = b;`), reverted".into(), None, None),
            ("`cargo test`".into(), some("error: could not compile `a`"), some("edits of src/a.rs")),
        ]
    );
    assert_eq!(index.story.commands().count(), 4);
    assert_eq!(index.files.get("src/a.rs").map(|used| (used.lines_added, used.lines_removed)), Some((2, 2)));
}

fn gemini_story() -> Vec<Value> {
    let call = |n: usize, name: &str, args: Value, status: &str, output: &str| {
        json!({"id": format!("g{n}"), "type": "gemini", "content": "", "toolCalls": [{"id": format!("k{n}"), "name": name, "args": args,
            "status": status, "result": [{"functionResponse": {"response": {"output": output}}}]}]})
    };
    let shell = |n, command: &str, output: &str| call(n, "run_shell_command", json!({"command": command}), "success", output);
    let edit = |n, old: &str, new: &str| {
        call(n, "replace", json!({"file_path": "/w/a.py", "old_string": old, "new_string": new}), "success", "ok")
    };
    vec![
        json!({"sessionId": "c", "projectHash": "x"}),
        shell(
            1,
            "pytest",
            "Command: pytest\nDirectory: (root)\nOutput: E  ImportError: no x\nError: (none)\nExit Code: 1\nSignal: (none)",
        ),
        edit(2, "import y", "import x"),
        shell(3, "pytest", "Command: pytest\nDirectory: (root)\nOutput: 3 passed\nError: (none)\nExit Code: 0"),
        edit(4, "import x", "import y"),
        call(5, "run_shell_command", json!({"command": "rm -rf /"}), "cancelled", ""),
        call(6, "run_shell_command", json!({"command": "make all"}), "error", "Command rejected: make"),
    ]
}

#[test]
fn gemini_tells_the_same() {
    let index = of(Format::Chat, &gemini_story());
    assert_eq!(
        told(&index.story),
        [
            ("`make all`".into(), some("Command rejected: make"), None),
            ("Edit of a.py (`import x`), reverted".into(), None, None),
            ("`pytest`".into(), some("E ImportError: no x"), some("edits of a.py")),
        ]
    );
}

#[test]
fn what_the_user_has_withdrawn_was_not_tried() {
    let mut lines = gemini_story();
    lines.insert(5, json!({"id": "u9", "type": "user", "content": [{"text": "make it"}]}));
    assert_eq!(of(Format::Chat, &lines).story.blockers().len(), 1);
    lines.push(json!({"$rewindTo": "u9"}));
    let index = of(Format::Chat, &lines);
    assert_eq!((index.story.blockers().len(), told(&index.story).len(), index.story.commands().count()), (0, 2, 3));
}

#[test]
fn lists_are_bounded() {
    let mut index = Index { format: Format::Transcript, ..Index::default() };
    for n in 0..3_000u64 {
        let lines = [
            failed(&format!("cargo run {n}"), "Exit code 1"),
            edited(&format!("/w/f{n}"), &format!("a{n}"), &format!("b{n}")),
            edited(&format!("/w/f{n}"), &format!("b{n}"), &format!("a{n}")),
            wrote(&format!("/w/g{n}"), &n.to_string(), None),
            ran(&format!("pip install p{n}; cat d{n}.md"), &"x".repeat(300)),
        ];
        for (i, line) in lines.concat().iter().enumerate() {
            index.apply(line.to_string().as_bytes(), n * 100 + i as u64);
        }
    }
    let bytes = serde_json::to_vec(&index.story).unwrap().len();
    assert!(bytes < 150_000, "{bytes}");
    assert!(index.story.failed_approaches(None).len() <= 80);
}

fn bytes(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

fn indexed(format: Format, text: &[u8]) -> Index {
    let mut index = Index { format, ..Index::default() };
    let mut offset = 0;
    for line in text.split(|byte| *byte == b'\n') {
        index.apply(line, offset);
        offset += line.len() as u64 + 1;
    }
    index
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn damage_is_passed_over(which in 0usize..3, from in 0.0f64..1.0, length in 0usize..400, put in prop::collection::vec(any::<u8>(), 0..8)) {
        let claude = [
            failed("cargo test | tail", "Exit code 101\nerror: x"), edited("/w/a", "x", "y"), ran("cargo test | tail", "ok"),
            edited("/w/a", "y", "x"), wrote("/w/b", "é\n", Some("o")), ran("git restore .", ""), ran("pip install 'a", "done"),
        ];
        let (format, lines) = match which {
            0 => (Format::Transcript, claude.concat()),
            1 => (Format::Rollout, codex_story()),
            _ => (Format::Chat, gemini_story()),
        };
        let mut text = bytes(&lines);
        let start = (text.len() as f64 * from) as usize;
        let end = (start + length).min(text.len());
        text.splice(start..end, put);
        let index = indexed(format, &text);
        prop_assert_eq!(&indexed(format, &text), &index);
        let again: Story = serde_json::from_str(&serde_json::to_string(&index.story).unwrap()).unwrap();
        prop_assert_eq!(again, index.story.clone());
        let _ = Conversation { main: index, ..Conversation::default() }.summary();
        // A torn end.
        let _ = indexed(format, &bytes(&lines)[..start]);
    }

    #[test]
    fn any_line_is_a_line(line in "\\PC{0,80}", output in "(?s).{0,200}", is_error: bool) {
        let _ = claude(&[did("Bash", &json!({"command": line}), &output, is_error, &Value::Null)]).story.blockers();
    }
}
