use std::{fs, io::Write, path::Path};

use parhelia_ledger::LedgerView as _;
use parhelia_store::{
    OpenOptions, Store,
    create::{self, FullWalk, Options, Outcome},
    tree::Kind,
};
use serde_json::json;

use super::*;
use parhelia_agent::transcript::TranscriptLocation;
use parhelia_host::job::JobOutput;

struct Fixture {
    dir: tempfile::TempDir,
    store: Store,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("work")).unwrap();
    fs::create_dir_all(dir.path().join("agent/projects/-work/11111111-2222-4333-8444-555555555555/subagents")).unwrap();
    fs::write(dir.path().join("work/file"), "content").unwrap();
    let store = parhelia_ledger::open(&dir.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
    Fixture { dir, store }
}

const ID: &str = "11111111-2222-4333-8444-555555555555";

impl Fixture {
    fn transcript(&self) -> std::path::PathBuf {
        self.dir.path().join(format!("agent/projects/-work/{ID}.jsonl"))
    }

    fn say(&self, path: &Path, record: Value) {
        let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
        writeln!(file, "{record}").unwrap();
    }

    fn capture(&self) -> CaptureParts {
        CaptureParts {
            conversation: Some(Ok(Source::Transcript(TranscriptLocation::from_hook(&self.transcript()).unwrap()))),
            session_state: Some(json!({ "session": "s" })),
            cache: self.store.layout().cache(),
            ..CaptureParts::default()
        }
    }

    fn create(&self, wanted: CaptureParts) -> Outcome {
        let options = Options { workspace: self.dir.path().join("work"), session: "s".into(), ..Options::default() };
        create::run_with(&self.store, &options, &FullWalk, &mut Capture::new(wanted), &()).unwrap()
    }

    fn state(&self, outcome: &Outcome, path: &str) -> Vec<u8> {
        let mut node = self.store.entry(outcome.checkpoint.record.root, b"state").unwrap().unwrap();
        for part in path.split('/') {
            let (tree, _) = node.as_folder().unwrap();
            node = self.store.entry(tree, part.as_bytes()).unwrap().unwrap_or_else(|| panic!("{path} is missing"));
        }
        let Kind::File { size, blob, .. } = node.kind else { panic!("{path} is no file") };
        self.store.blob(blob, size).unwrap().read_all().unwrap()
    }
}

fn prompt(n: u32) -> Value {
    json!({ "type": "user", "uuid": format!("u{n}"), "sessionId": ID, "timestamp": "2026-01-01T00:00:00Z", "cwd": "/work",
            "message": { "role": "user", "content": format!("do {n}") } })
}

fn answer(n: u32, content: Value) -> Value {
    json!({ "type": "assistant", "uuid": format!("a{n}"), "sessionId": ID, "timestamp": "2026-01-01T00:00:01Z",
            "message": { "role": "assistant", "id": format!("msg_{n}"), "model": "m", "stop_reason": "end_turn",
                         "usage": { "input_tokens": 10, "output_tokens": 5 }, "content": content } })
}

#[test]
fn a_conversation_is_kept_byte_for_byte_up_to_its_last_whole_record() {
    let f = fixture();
    f.say(&f.transcript(), prompt(1));
    f.say(&f.transcript(), answer(1, json!([{ "type": "text", "text": "done" }])));
    let subagent = f.transcript().with_extension("").join("subagents/agent-x.jsonl");
    f.say(&subagent, prompt(1));
    let whole = fs::read(f.transcript()).unwrap();
    fs::File::options().append(true).open(f.transcript()).unwrap().write_all(b"{\"type\":\"us").unwrap();
    let outcome = f.create(f.capture());
    let record = &outcome.checkpoint.record;
    assert!(f.state(&outcome, "conversation/transcript.jsonl") == whole);
    assert_eq!(f.state(&outcome, "conversation/session/subagents/agent-x.jsonl"), fs::read(&subagent).unwrap());
    let index: Value = serde_json::from_slice(&f.state(&outcome, "conversation.json")).unwrap();
    assert_eq!((&index["summary"]["last_message_id"], &index["files"][0]["torn_bytes"]), (&json!("msg_1"), &json!(11)));
    assert_eq!(record.parts[CONVERSATION], Part::Captured);
    assert_eq!(record.conversation.as_ref().unwrap()["agent_session_id"], ID);
    let session = f.store.view().session("s").unwrap().unwrap();
    assert_eq!(session.conversations[0].id, ID);
    assert_eq!(session.conversations[0].transcript.as_deref(), f.transcript().to_str());
    let state: Value = serde_json::from_slice(&f.state(&outcome, "session_state.json")).unwrap();
    assert_eq!(state["session"], "s");
}

#[test]
fn a_conversation_is_known_by_the_name_of_its_file_whatever_its_records_say() {
    for said in [json!({}), json!({ "sessionId": "the one that it was copied from" })] {
        let f = fixture();
        let mut first = json!({ "type": "file-history-snapshot", "messageId": "m" });
        first.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
        f.say(&f.transcript(), first);
        let outcome = f.create(f.capture());
        assert_eq!(outcome.checkpoint.record.conversation.as_ref().unwrap()["agent_session_id"], ID, "{said}");
        assert_eq!(parhelia_host::conversation::held(&outcome.checkpoint).as_deref(), Some(ID));
        assert_eq!(f.store.view().session("s").unwrap().unwrap().conversations[0].id, ID);
    }
}

#[test]
fn a_second_capture_goes_on_where_the_first_one_ended() {
    let f = fixture();
    for n in 0..2000 {
        f.say(&f.transcript(), prompt(n));
        f.say(&f.transcript(), answer(n, json!([{ "type": "text", "text": "x".repeat(500) }])));
    }
    let first = f.create(f.capture());
    f.say(&f.transcript(), prompt(2000));
    let second = f.create(f.capture());
    assert!(f.state(&second, "conversation/transcript.jsonl") == fs::read(f.transcript()).unwrap());
    assert!(first.bytes_read > 1 << 20 && second.bytes_read < 600 << 10, "{} {}", first.bytes_read, second.bytes_read);
    let turns = |outcome: &Outcome| outcome.checkpoint.record.conversation.as_ref().unwrap()["turn_count"].as_u64().unwrap();
    assert_eq!(turns(&second), turns(&first) + 1);
}

#[test]
fn a_tool_that_was_active_meanwhile_is_told() {
    let f = fixture();
    f.say(&f.transcript(), prompt(1));
    f.say(&f.transcript(), answer(1, json!([{ "type": "text", "text": "done" }])));
    let outcome = f.create(f.capture());
    assert_eq!(outcome.checkpoint.record.consistency, Consistency::TurnBoundary);
    let call = json!([{ "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "make" } }]);
    let mut begun = answer(2, call);
    begun["message"]["stop_reason"] = json!("tool_use");
    f.say(&f.transcript(), begun);
    let outcome = f.create(f.capture());
    assert_eq!(outcome.checkpoint.record.consistency, Consistency::MidTool);
}

/// A capture, and what the agent does between the two looks at the conversation.
struct Between<F>(Capture, F);

impl<F: Fn()> State for Between<F> {
    fn begin(&mut self) {
        self.0.begin();
    }

    fn finish(&mut self, seen: &CapturedWorkspace<'_>) -> CapturedState {
        (self.1)();
        self.0.finish(seen)
    }
}

#[test]
fn what_the_agent_does_between_the_looks_is_told_and_kept_whole_or_not() {
    let f = fixture();
    let while_walking = |act: &dyn Fn()| {
        let options = Options { workspace: f.dir.path().join("work"), session: "s".into(), ..Options::default() };
        create::run_with(&f.store, &options, &FullWalk, &mut Between(Capture::new(f.capture()), act), &()).unwrap()
    };
    let folder = f.transcript().with_extension("").join("tool-results");
    fs::create_dir_all(&folder).unwrap();
    let side = |name: &str| folder.join(name);
    for name in ["longer", "shorter", "gone"] {
        fs::write(side(name), "0123456789").unwrap();
    }
    f.say(&f.transcript(), prompt(1));
    f.say(&f.transcript(), answer(1, json!([{ "type": "text", "text": "done" }])));
    let before = fs::read(f.transcript()).unwrap();
    let outcome = while_walking(&|| {
        fs::write(side("longer"), "0123456789 and more").unwrap();
        fs::write(side("shorter"), "0123").unwrap();
        fs::remove_file(side("gone")).unwrap();
        fs::write(side("new"), "later").unwrap();
        f.say(&f.transcript(), prompt(2));
    });
    let record = &outcome.checkpoint.record;
    assert_eq!((&record.parts[CONVERSATION], record.consistency), (&Part::Captured, Consistency::Unknown));
    assert!(f.state(&outcome, "conversation/transcript.jsonl") == before);
    let kept = |name: &str| f.state(&outcome, &format!("conversation/session/tool-results/{name}"));
    assert_eq!((kept("longer"), kept("shorter")), (b"0123456789 and more".to_vec(), b"0123".to_vec()));
    let index: Value = serde_json::from_slice(&f.state(&outcome, "conversation.json")).unwrap();
    let listed: Vec<&str> = index["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    let expected = ["transcript.jsonl", "session/tool-results/longer", "session/tool-results/shorter"];
    assert_eq!(listed, expected.map(|name| format!("conversation/{name}")));
    assert_eq!((&index["files"][1]["bytes"], &index["files"][2]["bytes"]), (&json!(19), &json!(4)));

    // A tool that began and ended while the workspace was walked: at both looks none is active.
    f.say(&f.transcript(), answer(2, json!([{ "type": "text", "text": "done" }])));
    let outcome = while_walking(&|| {
        f.say(&f.transcript(), prompt(3));
        let mut call = answer(3, json!([{ "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "make" } }]));
        call["message"]["stop_reason"] = json!("tool_use");
        f.say(&f.transcript(), call);
        let result = json!([{ "type": "tool_result", "tool_use_id": "t1", "content": "made" }]);
        f.say(
            &f.transcript(),
            json!({ "type": "user", "uuid": "u4", "sessionId": ID, "message": { "role": "user", "content": result } }),
        );
        f.say(&f.transcript(), answer(4, json!([{ "type": "text", "text": "done" }])));
    });
    assert_eq!(outcome.checkpoint.record.consistency, Consistency::MidTool);
    assert_eq!(while_walking(&|| ()).checkpoint.record.consistency, Consistency::TurnBoundary);
}

#[test]
fn parts_that_fail_are_named_and_absent_ones_are_absent() {
    let f = fixture();
    let mut capture = f.capture();
    let nowhere = f.transcript().with_file_name("none.jsonl");
    capture.conversation = Some(Ok(Source::Transcript(TranscriptLocation::from_hook(&nowhere).unwrap())));
    capture.jobs = vec![
        Job::new("tmux", || Ok(None)),
        Job::new("environment", || Err("no time".into())),
        Job::new("git", || {
            let files = vec![("git.json".to_owned(), b"{}".to_vec())];
            Ok(Some(JobOutput {
                files,
                environment: Some(json!({ "python_version": "3" })),
                error: Some("half".into()),
                ..JobOutput::default()
            }))
        }),
    ];
    let outcome = f.create(capture);
    let record = &outcome.checkpoint.record;
    assert!(!outcome.checkpoint.is_complete());
    assert!(matches!(&record.parts["conversation"], Part::Failed { error } if error.contains("none.jsonl")));
    assert_eq!(record.parts["environment"], Part::Failed { error: "no time".into() });
    assert_eq!((&record.parts["tmux"], &record.parts["git"]), (&Part::Absent, &Part::Failed { error: "half".into() }));
    assert_eq!(record.environment.as_ref().unwrap()["python_version"], "3");
    assert_eq!(f.state(&outcome, "git.json"), b"{}");
}

#[test]
fn files_that_the_session_worked_on_are_named_by_their_blobs() {
    let f = fixture();
    let path = f.dir.path().join("work/file");
    f.say(&f.transcript(), prompt(1));
    let call = json!([{ "type": "tool_use", "id": "t1", "name": "Read", "input": { "file_path": path } }]);
    f.say(&f.transcript(), answer(1, call));
    let result = json!([{ "type": "tool_result", "tool_use_id": "t1", "content": "content" }]);
    f.say(
        &f.transcript(),
        json!({ "type": "user", "uuid": "u2", "sessionId": ID, "message": { "role": "user", "content": result } }),
    );
    let settings = config::load(&config::ConfigFiles::default(), &|_| None).unwrap().config.context;
    let mut wanted = f.capture();
    wanted.context = Some((f.dir.path().join("work"), settings.clone()));
    let outcome = f.create(wanted);
    let listed: Value = serde_json::from_slice(&f.state(&outcome, "context.json")).unwrap();
    assert_eq!((&listed["files"][0]["path"], &listed["files"][0]["reasons"]), (&json!("file"), &json!(["read"])));
    assert_eq!(listed["files"][0]["blob"], parhelia_store::keys::Ids::default().blob(b"content").to_string());
    assert!(listed["files"][0]["sha256"].is_string());
    assert_eq!(outcome.checkpoint.record.parts[CONTEXT], Part::Captured);
    // What is too large is not read for the list, but the checkpoint holds it.
    for caps in [(3, 1000), (1000, 3)] {
        let settings = config::Context { max_file_bytes: caps.0, max_total_bytes: caps.1, ..settings.clone() };
        let mut capture = Capture::new(CaptureParts { context: Some((f.dir.path().join("work"), settings)), ..f.capture() });
        let options = Options { workspace: f.dir.path().join("work"), session: "s".into(), ..Options::default() };
        let outcome = create::run_with(&f.store, &options, &FullWalk, &mut capture, &()).unwrap();
        let listed: Value = serde_json::from_slice(&f.state(&outcome, "context.json")).unwrap();
        assert_eq!(listed["files"][0]["blob"], parhelia_store::keys::Ids::default().blob(b"content").to_string());
        assert_eq!((&listed["files"][0]["sha256"], &listed["files"][0]["size_bytes"]), (&Value::Null, &json!(7)));
        assert_eq!(json!(capture.warnings()), listed["warnings"]);
        assert!(capture.warnings()[0].contains("1 file is too large"), "{:?}", capture.warnings());
    }
}
