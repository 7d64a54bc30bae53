//! Summaries of realistic conversations.

use std::{fs, path::Path};

use parhelia_agent::transcript::{Conversation, Format, Index, prefix::Check};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn indexed(text: &[u8]) -> Conversation {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    fs::write(&path, text).unwrap();
    let end = parhelia_agent::transcript::cut(&path).unwrap().bytes;
    let found = parhelia_agent::transcript::update(None, &path, end, Format::Transcript, Check::Seam).unwrap();
    Conversation { main: found.index, ..Conversation::default() }
}

fn summary_of(conversation: &Conversation) -> Summary {
    of(Sources { session: "work", workspace: Path::new("/w"), conversation, git: None })
}

fn prompt(text: &str) -> Value {
    json!({"type": "user", "uuid": "u", "cwd": "/w", "message": {"role": "user", "content": text}})
}

fn did(id: &str, tool: &str, input: Value, output: &str, is_error: bool) -> [Value; 2] {
    let call = json!([{"type": "tool_use", "id": id, "name": tool, "input": input}]);
    let result = json!([{"type": "tool_result", "tool_use_id": id, "content": output, "is_error": is_error}]);
    [
        json!({"type": "assistant", "uuid": "a", "message": {"id": "m", "model": "m", "content": call, "stop_reason": "tool_use"}}),
        json!({"type": "user", "uuid": "r", "message": {"role": "user", "content": result}}),
    ]
}

fn says(text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    json!({"type": "assistant", "uuid": "e", "message": {"id": "e", "model": "m", "stop_reason": "end_turn", "content": content}})
}

fn worked() -> Vec<Value> {
    let todos =
        json!({"todos": [{"content": "write it", "status": "completed"}, {"content": "ship it", "status": "in_progress"}]});
    let edit = |old: &str, new: &str| json!({"file_path": "/w/src/auth.py", "old_string": old, "new_string": new});
    let mut lines = vec![prompt("Fix the login\n\n### Blockers\n- none <!--")];
    lines.extend(did("1", "TodoWrite", todos, "ok", false));
    lines.extend(did("2", "Edit", edit("import jwt", "import authlib\nimport os"), "ok", false));
    lines.extend(did("3", "Bash", json!({"command": "pytest -q"}), "Exit code 1\nauthlib: incompatible with async", true));
    lines.extend(did("4", "Edit", edit("import authlib\nimport os", "import jwt"), "ok", false));
    lines.extend(did("5", "Bash", json!({"command": "pytest -q"}), "15 passed", false));
    lines.extend(did("6", "Bash", json!({"command": "git commit -m x"}), "[main 1a2b3c4] Add login", false));
    lines.extend(did(
        "7",
        "Bash",
        json!({"command": "make deploy"}),
        "Exit code 2\nkey ghp_0123456789abcdefghijklmnopqrstuvwxyz missing",
        true,
    ));
    lines.extend(did("8", "Bash", json!({"command": "pip install PyJWT"}), "ok", false));
    lines.push(says("The tests pass.\n\n## Decisions\nShall I deploy it?"));
    lines
}

fn text(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

#[test]
fn a_summary_has_its_five_sections() {
    let summary = summary_of(&indexed(&text(&worked())));
    let expected = "\
## Session Summary: work

### Progress
- Done: write it
- Committed: Add login (1a2b3c4)
- Changed 1 file: src/auth.py (+3 -3)
- Last reply: The tests pass. ## Decisions Shall I deploy it?

### Decisions
None are recorded.

### Failed Approaches
- Edit of src/auth.py (`import authlib` and 0 more), reverted: `pytest -q` failed: authlib: incompatible with async
- `pytest -q`: authlib: incompatible with async (passed after: edits of src/auth.py)

### Blockers
- `make deploy` fails: key [redacted] missing

### Context for Resume
- Task: Fix the login ### Blockers - none \\<!--
- Next step: ship it
- Open question: Shall I deploy it?
- Working directory: /w
- Files changed: src/auth.py
- Packages installed: PyJWT (pip)
- Last commands, newest first: `pip install PyJWT`, `make deploy` (failed), `git commit -m x`, `pytest -q`, `pytest -q` (failed)
";
    assert_eq!(markdown(&summary), expected.replace(" and 0 more", ""));
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!((&json["generated_by"], &json["schema"]), (&json!("rules"), &json!(1)));
    assert_eq!(
        json["files"][0],
        json!({"path": "src/auth.py", "change": "edited 2 times", "lines_added": 3, "lines_removed": 3})
    );
    assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), summary);
}

#[test]
fn an_empty_summary_says_so() {
    let page = markdown(&summary_of(&Conversation { main: Index::default(), ..Conversation::default() }));
    let sections: Vec<_> = page.lines().filter(|line| line.starts_with('#')).collect();
    let titles =
        ["Progress", "Decisions", "Failed Approaches", "Blockers", "Context for Resume"].map(|title| format!("### {title}"));
    assert_eq!(sections[0], "## Session Summary: work");
    assert_eq!(sections[1..], titles);
    assert_eq!(page.lines().filter(|line| line.starts_with("None") || line.starts_with("Nothing")).count(), 5, "{page}");
}

#[test]
fn a_summary_of_a_later_release_can_be_read() {
    let later: Summary = serde_json::from_value(json!({"schema": 9, "generated_by": "model", "task": "x", "new": [1]})).unwrap();
    assert_eq!((later.generated_by, later.task.as_deref()), (GeneratedBy::Unknown, Some("x")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_transcript_that_is_cut_anywhere_has_a_summary(from in 0.0f64..1.0, length in 0usize..60, put in prop::collection::vec(any::<u8>(), 0..4)) {
        let mut bytes = text(&worked());
        let start = (bytes.len() as f64 * from) as usize;
        let torn = summary_of(&indexed(&bytes[..start]));
        prop_assert_eq!(&torn, &summary_of(&indexed(&bytes[..start])));
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, put);
        let page = markdown(&summary_of(&indexed(&bytes)));
        prop_assert_eq!(page.lines().filter(|line| line.starts_with('#')).count(), 6);
    }

    #[test]
    fn no_text_breaks_the_sections(said in "\\PC{0,60}|(#|-|>|`|<|\\*|\n|\r|\t|\u{1b}|[a-z]| ){0,60}") {
        let command = json!({"command": said});
        let lines = [vec![prompt(&said)], did("1", "Bash", command, &said, true).to_vec(), vec![says(&said)]].concat();
        let summary = summary_of(&indexed(&text(&lines)));
        let page = markdown(&summary);
        prop_assert_eq!(page.lines().filter(|line| line.starts_with("### ")).count(), 5, "{}", page);
        prop_assert!(page.lines().all(|line| line.is_empty() || line.starts_with(['#', '-', 'N'])), "{}", page);
        prop_assert!(!page.contains(|c: char| c.is_control() && c != '\n'));
    }
}
