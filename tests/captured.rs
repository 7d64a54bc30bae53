//! Conversations of the real agent in checkpoints, compared with its own files and with what the API saw, record by record.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc,
    time::Duration,
};

use parhelia_store::record::Consistency;
use parhelia_tests::{
    agent::{Agent, Exchange, Reply, text, tool},
    live::{Live, shown, wait},
};
use serde_json::{Value, json};

const SESSION: &str = "0c9d2d5e-7f4b-4d0e-8a56-3b1f9a6e2c77";

fn records(bytes: &[u8]) -> Vec<Value> {
    assert!(bytes.ends_with(b"\n"), "it ends in the middle of a record");
    let lines = bytes.strip_suffix(b"\n").unwrap_or_default().split(|&b| b == b'\n');
    lines.map(|line| serde_json::from_slice(line).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(line)))).collect()
}

/// The blocks of a type in the messages of a kind of record, in their order.
fn blocks(records: &[Value], record: &str, block: &str) -> Vec<Value> {
    let messages = records.iter().filter(|found| found["type"] == record).map(|found| &found["message"]["content"]);
    let all = messages.flat_map(|content| content.as_array().cloned().unwrap_or_default());
    all.filter(|found| found["type"] == block).collect()
}

/// Every record of the conversation is what the API answered, or was sent.
fn compare(records: &[Value], api: &[Exchange]) {
    let called: Vec<_> = blocks(records, "assistant", "tool_use")
        .into_iter()
        .map(|block| {
            let text = |name: &str| block[name].as_str().unwrap().to_owned();
            (text("id"), text("name"), block["input"].clone())
        })
        .collect();
    assert_eq!(called, api.iter().flat_map(Exchange::calls).collect::<Vec<_>>());
    let mut messages: Vec<&str> =
        records.iter().filter(|r| r["type"] == "assistant").filter_map(|r| r["message"]["id"].as_str()).collect();
    messages.dedup();
    assert_eq!(messages, api.iter().map(|exchange| exchange.message.as_str()).collect::<Vec<_>>());
    // A request repeats all results before it, so that the last one has all that there are.
    let results = |blocks: Vec<Value>| -> Vec<(Value, Value, bool)> {
        blocks.into_iter().map(|b| (b["tool_use_id"].clone(), b["content"].clone(), b["is_error"] == true)).collect()
    };
    let sent = api.last().unwrap().blocks("tool_result").into_iter().map(|(_, block)| block).collect();
    assert_eq!(results(blocks(records, "user", "tool_result")), results(sent));
}

/// The index says the same as the records.
fn compare_index(index: &Value, stored: &[u8], api: &[Exchange]) {
    let summary = &index["summary"];
    let names = |list: &mut dyn Iterator<Item = String>| list.collect::<BTreeSet<_>>();
    let invoked = summary["tools_invoked"].as_array().unwrap();
    assert_eq!(
        names(&mut invoked.iter().map(|name| name.as_str().unwrap().to_owned())),
        names(&mut api.iter().flat_map(Exchange::calls).map(|(_, name, _)| name))
    );
    assert_eq!(summary["transcript_bytes"], stored.len());
    assert_eq!(summary["last_message_id"], api.last().unwrap().message.as_str());
    assert_eq!((&summary["agent_session_id"], &summary["damaged_lines"]), (&json!(api[0].session), &json!(0)));
}

/// The tokens that the API said so many requests took, by kind.
fn used(api: &[Exchange]) -> Value {
    let mut usage: BTreeMap<String, u64> = BTreeMap::new();
    for (kind, count) in api.iter().flat_map(|exchange| exchange.usage.as_object().unwrap()) {
        *usage.entry(kind.clone()).or_default() += count.as_u64().unwrap();
    }
    json!(usage)
}

/// Makes a checkpoint by hand, and returns its id.
fn create(live: &Live, session: &str, more: &[&str]) -> String {
    let workspace = live.agent.workspace().to_string_lossy().into_owned();
    let arguments = [&["checkpoint", "create", session, "--workspace", &workspace], more].concat();
    let made = live.objects(&arguments, "summary").pop().unwrap_or_else(|| panic!("no checkpoint was made"));
    assert_eq!(made["complete"], true, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

/// Content of a checkpoint's conversation, once it was compared with everything else.
struct Held {
    transcript: Vec<u8>,
    index: Value,
    consistency: Consistency,
}

impl Held {
    /// `source` is the file that the conversation was taken from.
    fn compared(live: &Live, checkpoint: &str, source: &Path, api: &[Exchange]) -> Self {
        let transcript = live.state(checkpoint, "conversation/transcript.jsonl");
        let now = fs::read(source).unwrap();
        assert!(now.starts_with(&transcript), "what is kept is the beginning of {}", source.display());
        compare(&records(&transcript), api);
        let index: Value = serde_json::from_slice(&live.state(checkpoint, "conversation.json")).unwrap();
        compare_index(&index, &transcript, api);
        let manifest = live.objects(&["checkpoint", "show", checkpoint], "manifest").remove(0);
        let consistency = live.record(checkpoint).record.consistency;
        assert_eq!(manifest["consistency"], json!(consistency));
        Held { transcript, index, consistency }
    }

    fn pending(&self) -> &[Value] {
        self.index["summary"]["pending_tool_calls"].as_array().unwrap()
    }

    fn prompts(&self) -> Vec<&str> {
        self.index["turns"].as_array().unwrap().iter().filter_map(|turn| turn["prompt"].as_str()).collect()
    }

    fn usage(&self) -> &Value {
        &self.index["summary"]["usage"]
    }

    /// It is at the end of a turn, and all of `source`.
    fn assert_at_boundary(&self, source: &Path) {
        assert_eq!((self.consistency, self.pending().len()), (Consistency::TurnBoundary, 0));
        assert_eq!(self.transcript, fs::read(source).unwrap());
    }

    /// It is in the middle of this call.
    fn assert_in(&self, call: &(String, String, Value)) {
        assert_eq!(self.consistency, Consistency::MidTool);
        let [pending] = self.pending() else { panic!("{:?}", self.pending()) };
        assert_eq!((pending["id"].as_str(), pending["name"].as_str()), (Some(call.0.as_str()), Some(call.1.as_str())));
        let input: Value = serde_json::from_str(pending["input"].as_str().unwrap()).unwrap();
        assert_eq!(input, call.2);
    }
}

/// A tool that says when it has begun, and ends when it is told to.
struct Gate {
    begun: PathBuf,
    release: PathBuf,
}

impl Gate {
    fn new(live: &Live) -> Self {
        let gate = Gate { begun: live.agent.folder().join("begun"), release: live.agent.folder().join("release") };
        for path in [&gate.begun, &gate.release] {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }
        gate
    }

    fn command(&self, more: &str) -> String {
        format!("echo > '{}'; cat '{}'; {more}", self.begun.display(), self.release.display())
    }

    /// Waits until the tool has begun, and the call stands in a file: the agent writes that a moment later.
    fn wait(&self, call: &str, source: impl Fn() -> PathBuf) {
        let (sender, receiver) = mpsc::channel();
        let begun = self.begun.clone();
        std::thread::spawn(move || sender.send(File::open(begun).unwrap().read_to_end(&mut Vec::new()).unwrap()));
        receiver.recv_timeout(Duration::from_secs(60)).expect("the tool did not begin");
        wait(|| fs::read_to_string(source()).ok().filter(|text| text.contains(call)));
    }

    fn open(&self) {
        File::options().write(true).open(&self.release).unwrap().write_all(b"released\n").unwrap();
    }
}

/// Checkpoints that the run made by itself are compared in the same way, as far as the API had seen the conversation by then.
fn compare_those_of_the_run(live: &Live, session: &str, transcript: &Path) {
    let api = live.api.exchanges();
    for checkpoint in live.checkpoints(session).iter().filter(|checkpoint| checkpoint["trigger"] == "complete") {
        let id = checkpoint["id"].as_str().unwrap();
        let seen = if checkpoint["epoch"] == 1 { 2 } else { api.len() };
        assert!(Held::compared(live, id, transcript, &api[..seen]).pending().is_empty());
    }
}

#[test]
fn checkpoints_hold_the_conversation_as_the_agent_wrote_it_and_the_api_saw_it() {
    let Some(live) = Live::new() else { return };
    let path = |name: &str| live.agent.workspace().join(name);
    live.api.then([
        Reply::of([
            text("I begin."),
            tool("Bash", json!({ "command": "printf 'hello\\n' > greeting.txt; seq 1 300" })),
            tool("Write", json!({ "file_path": path("notes.md"), "content": "# Notes \u{1f600}\n" })),
        ]),
        Reply::text("The first turn is over."),
    ]);
    let output = live.start("the first prompt").wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let session = live.session();
    let conversation = live.api.exchanges()[0].session.clone().unwrap();
    let transcript = || live.agent.transcript(&conversation);

    let first = Held::compared(&live, &create(&live, &session, &[]), &transcript(), &live.api.exchanges());
    first.assert_at_boundary(&transcript());
    assert_eq!(first.prompts(), ["the first prompt"]);

    let gate = Gate::new(&live);
    live.api.then([
        Reply::of([
            tool("Bash", json!({ "command": "echo failed; exit 3" })),
            tool("Write", json!({ "file_path": path("more.txt"), "content": "more\n" })),
        ]),
        Reply::of([tool("Bash", json!({ "command": gate.command("echo after > after.txt") }))]),
        Reply::text("The second turn is over."),
    ]);
    let child = live.resume(&session, "the second prompt");
    let asked = live.api.wait_for(4);
    let call = asked[3].calls().remove(0);
    gate.wait(&call.0, transcript);
    let middle = create(&live, &session, &[]);
    let held = Held::compared(&live, &middle, &transcript(), &asked);
    held.assert_in(&call);
    assert_eq!(held.usage(), &used(&asked));
    assert_eq!(held.prompts(), ["the first prompt", "the second prompt"]);
    assert!(held.transcript.starts_with(&first.transcript));
    assert_eq!(live.run(&["checkpoint", "cat", &format!("{middle}:more.txt")]).stdout, b"more\n");

    gate.open();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let second = Held::compared(&live, &create(&live, &session, &[]), &transcript(), &live.api.exchanges());
    second.assert_at_boundary(&transcript());
    assert_eq!(second.usage(), &used(&live.api.exchanges()));
    assert!(second.transcript.starts_with(&held.transcript));
    let modified: Vec<&str> =
        second.index["summary"]["files_modified"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(modified, [path("more.txt"), path("notes.md")].map(|path| path.to_string_lossy().into_owned()));

    compare_those_of_the_run(&live, &session, &transcript());
}

#[test]
fn what_a_headless_agent_prints_is_held_as_it_was_printed() {
    let Some(live) = Live::new() else { return };
    let log = live.agent.folder().join("printed.jsonl");
    let from = log.to_string_lossy().into_owned();
    let start = |prompt: &str, how: [&str; 2]| {
        let mut arguments = Agent::headless(prompt);
        arguments.extend(how.map(str::to_owned));
        let file = File::options().append(true).create(true).open(&log).unwrap();
        live.agent.command(&arguments).stdout(file).stderr(Stdio::null()).spawn().unwrap()
    };
    live.api.then([
        Reply::of([text("I begin."), tool("Bash", json!({ "command": "echo hello; echo hello > greeting.txt" }))]),
        Reply::text("The first turn is over."),
    ]);
    assert!(start("the first prompt", ["--session-id", SESSION]).wait().unwrap().success());
    let first = Held::compared(&live, &create(&live, "printed", &["--stream-json", &from]), &log, &live.api.exchanges());
    first.assert_at_boundary(&log);

    let gate = Gate::new(&live);
    live.api.then([
        Reply::of([tool("Bash", json!({ "command": "exit 3" }))]),
        Reply::of([tool("Bash", json!({ "command": gate.command("echo after") }))]),
        Reply::text("The second turn is over."),
    ]);
    let mut child = start("the second prompt", ["--resume", SESSION]);
    let asked = live.api.wait_for(4);
    let call = asked[3].calls().remove(0);
    gate.wait(&call.0, || log.clone());
    let held = Held::compared(&live, &create(&live, "printed", &["--stream-json", &from]), &log, &asked);
    held.assert_in(&call);
    // How much the model wrote is printed at the end of a turn alone.
    assert_eq!(held.usage()["input_tokens"], used(&asked)["input_tokens"]);
    assert!(held.transcript.starts_with(&first.transcript));
    gate.open();
    assert!(child.wait().unwrap().success());
    let second = Held::compared(&live, &create(&live, "printed", &["--stream-json", &from]), &log, &live.api.exchanges());
    second.assert_at_boundary(&log);
    assert_eq!(second.usage(), &used(&live.api.exchanges()));

    // A record that is half printed is not held, and standard input is as good as a file.
    let whole = fs::read(&log).unwrap();
    File::options().append(true).open(&log).unwrap().write_all(b"{\"type\":\"assistant\",\"mess").unwrap();
    let torn = Held::compared(&live, &create(&live, "printed", &["--stream-json", &from]), &log, &live.api.exchanges());
    assert_eq!(torn.transcript, whole);
    let workspace = live.agent.workspace().to_string_lossy().into_owned();
    let mut piped = live.command(&["checkpoint", "create", "piped", "--workspace", &workspace, "--stream-json", "-"]);
    let output = piped.stdin(File::open(&log).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let piped = Held::compared(&live, "piped@latest", &log, &live.api.exchanges());
    assert_eq!(piped.transcript, whole);
}

#[test]
fn the_environment_is_the_same_whether_a_hook_or_the_runner_looks() {
    let Some(live) = Live::new() else { return };
    let made = live.agent.workspace().join("made.txt");
    live.api.then([Reply::of([tool("Write", json!({ "file_path": made, "content": "made\n" }))]), Reply::text("It is made.")]);
    assert!(live.start("make it").wait_with_output().unwrap().status.success());
    let session = live.session();
    let made = live.checkpoints(&session);
    let by = |detail: fn(&str) -> bool| {
        let found = made.iter().find(|checkpoint| detail(checkpoint["trigger_detail"].as_str().unwrap_or_default()));
        found.unwrap_or_else(|| panic!("{made:?}"))["id"].as_str().unwrap().to_owned()
    };
    let (hook, runner) = (by(|detail| detail == "turn_end"), by(|detail| detail.starts_with("ended with exit code")));
    let said = live.expect(&["env", "diff", &hook, &runner]);
    assert_eq!(said, "No changes.\n");
}
