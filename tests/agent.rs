//! Conversations as they are captured, compared record by record with what the API saw of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::mpsc,
    time::{Duration, Instant},
};

use parhelia_agent::transcript::{
    Activity, Conversation, Format, Phase, TranscriptLocation,
    conversation::Capture,
    files::TRANSCRIPT,
    index::Origin,
    messages::{self, Role},
    prefix::Check,
    update,
};
use parhelia_tests::agent::{
    Agent, Api, Reply,
    recorded::{Run, SESSION},
    text, tool,
};
use serde_json::{Value, json};

fn capture(config: &Path, previous: Option<Conversation>) -> Capture {
    Conversation::capture(previous, &TranscriptLocation::by_session(config, SESSION).unwrap(), Check::Seam).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Two turns: tools of every kind, one that prints a lot, one that fails, a task list, and a subagent that writes a file.
fn script(workspace: &Path) -> [Vec<Reply>; 2] {
    let path = |name: &str| workspace.join(name).to_string_lossy().into_owned();
    let first = vec![
        Reply::of([
            text("I will make the greeting."),
            tool("Bash", json!({"command": "printf 'hello\\n' > greeting.txt; seq 1 12000"})),
            tool("Write", json!({"file_path": path("notes.md"), "content": "# Notes\n"})),
        ]),
        Reply::of([tool("Read", json!({"file_path": path("greeting.txt")}))]),
        Reply::of([
            tool("Edit", json!({"file_path": path("greeting.txt"), "old_string": "hello", "new_string": "hello, world"})),
            tool("TaskCreate", json!({"subject": "Check the greeting", "description": "Look whether it is friendly"})),
        ]),
        Reply::of([tool("Task", json!({"description": "write", "prompt": "Write sub.txt", "subagent_type": "general-purpose"}))]),
        Reply::of([tool("Write", json!({"file_path": path("sub.txt"), "content": "by a subagent\n"}))]),
        Reply::text("It is written."),
        Reply::text("The greeting is made."),
    ];
    let second = vec![
        Reply::of([
            tool("Bash", json!({"command": "exit 3"})),
            tool("TaskUpdate", json!({"taskId": "1", "status": "completed"})),
        ]),
        Reply::text("Checked: \u{1f600} \"fine\"."),
    ];
    [first, second]
}

/// Runs both turns; looks after the first what capture finds then.
fn live() -> Option<(Run, Agent, Capture)> {
    let api = Api::start([]);
    let agent = Agent::new(&api)?;
    let [first, second] = script(&agent.workspace());
    api.then(first);
    let mut stream = agent.prompt("Make a greeting", &["--session-id", SESSION]);
    assert!(stream.status.success(), "{}", String::from_utf8_lossy(&stream.stderr));
    let between = capture(&agent.config(), None);
    api.then(second);
    let output = agent.prompt("Check \"it\"", &["--resume", SESSION]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    stream.stdout.extend(output.stdout);
    Some((Run::of(&agent, &api.exchanges(), &stream.stdout), agent, between))
}

fn usage(seen: &[&Value]) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for (kind, count) in seen.iter().flat_map(|seen| seen["usage"].as_object().unwrap()) {
        *sum.entry(kind.clone()).or_default() += count.as_u64().unwrap();
    }
    sum
}

fn names(seen: &[&Value]) -> BTreeSet<String> {
    let calls = seen.iter().flat_map(|seen| seen["calls"].as_array().unwrap());
    calls.map(|call| call[1].as_str().unwrap().to_owned()).collect()
}

/// The results that the API saw of the agent's own calls of a tool; not every release has every tool.
fn results_of<'a>(run: &'a Run, tool: &str) -> Vec<&'a Value> {
    let own = || run.seen.iter().filter(|seen| seen["subagent"].is_null());
    let calls = own().flat_map(|seen| seen["calls"].as_array().unwrap());
    let ids: BTreeSet<&str> =
        calls.filter(|call| tool.is_empty() || call[1] == tool).filter_map(|call| call[0].as_str()).collect();
    let sent = own().next_back().unwrap()["results"].as_array().unwrap();
    sent.iter().filter(|result| ids.contains(result["tool_use_id"].as_str().unwrap())).collect()
}

fn has_failed(result: &Value) -> bool {
    result["is_error"] == true
}

/// The index says what the API saw.
fn compare(run: &Run, captured: &Capture) {
    let (conversation, summary) = (&captured.conversation, captured.conversation.summary());
    let all: Vec<&Value> = run.seen.iter().collect();
    let own: Vec<&Value> = run.seen.iter().filter(|seen| seen["subagent"].is_null()).collect();
    assert!(own.len() < all.len(), "a subagent should have asked, too");
    let calls = |seen: &[&Value]| seen.iter().map(|seen| seen["calls"].as_array().unwrap().len() as u64).sum::<u64>();
    assert_eq!(conversation.main.counts.tool_calls, calls(&own));
    assert_eq!(conversation.subagents.values().map(|index| index.counts.tool_calls).sum::<u64>(), calls(&all) - calls(&own));
    assert_eq!(summary.tools_invoked.iter().cloned().collect::<BTreeSet<_>>(), names(&all));
    assert_eq!(json!(summary.usage), json!(usage(&all)));
    assert_eq!(summary.last_message_id.as_deref(), own.last().unwrap()["message"].as_str());
    assert_eq!(json!(summary.context_tokens), json!(usage(&own[own.len() - 1..]).values().sum::<u64>()));
    assert_eq!((summary.turn_count, summary.phase), (2, Phase::Idle));
    assert_eq!(summary.first_prompt.as_deref(), Some("Make a greeting"));
    assert_eq!(summary.last_prompt.as_deref(), Some("Check \"it\""));
    assert_eq!((summary.pending_tool_calls.len(), summary.damaged_lines, summary.truncated), (0, 0, false));
    let errors = results_of(run, "").into_iter().filter(|result| has_failed(result)).count() as u64;
    assert!(errors >= 1 && conversation.main.counts.tool_errors == errors, "{errors}");
    let path = |name: &str| format!("{}/{name}", run.workspace);
    assert_eq!(summary.files_modified, [path("greeting.txt"), path("notes.md"), path("sub.txt")]);
    assert_eq!(summary.files_read, [path("greeting.txt")]);
    let todos: Vec<_> = summary.todos.iter().map(|todo| (todo.content.as_str(), todo.status.as_str())).collect();
    let has_tasks = !results_of(run, "TaskCreate").into_iter().any(has_failed);
    assert_eq!(todos, if has_tasks { vec![("Check the greeting", "completed")] } else { vec![] });
    assert_eq!(summary.cwd.as_deref(), Some(run.workspace.as_str()));
    assert_eq!(summary.agent_session_id.as_deref(), Some(SESSION));
    assert!(summary.has_resume_token && summary.agent_version.is_some());
}

/// Every record of the raw transcript is in the index, every result and prompt that the API saw is in the raw transcript, and each
/// turn's bytes begin with its prompt.
fn compare_raw(run: &Run, captured: &Capture) {
    let raw = &captured.files.files[0];
    assert_eq!((raw.name.as_path(), raw.torn_bytes), (Path::new(TRANSCRIPT), 0));
    let records = lines(&raw.source);
    assert_eq!(captured.conversation.main.counts.records, records.len() as u64);
    let blocks = |record: &Value| record["message"]["content"].as_array().cloned().unwrap_or_default();
    let results: BTreeMap<String, Value> = records
        .iter()
        .flat_map(blocks)
        .filter(|block| block["type"] == "tool_result")
        .map(|block| (block["tool_use_id"].as_str().unwrap().to_owned(), block["content"].clone()))
        .collect();
    let last = run.seen.iter().rfind(|seen| seen["subagent"].is_null()).unwrap();
    let sent = last["results"].as_array().unwrap();
    assert_eq!(sent.len(), results.len());
    for result in sent {
        assert_eq!(results.get(result["tool_use_id"].as_str().unwrap()), Some(&result["content"]), "{result}");
    }
    let mut said = Vec::new();
    messages::read(&fs::read(&raw.source).unwrap()[..], 1 << 20, |message| said.push(message)).unwrap();
    let prompts: Vec<Value> = said.iter().filter(|m| m.role == Role::User).map(|m| json!(m.text)).collect();
    assert_eq!(json!(prompts), last["prompts"]);
    let called: Vec<String> = said.iter().flat_map(|m| &m.calls).map(|call| call.tool.clone()).collect();
    assert_eq!(called.len() as u64, captured.conversation.main.counts.tool_calls);
    let bytes = fs::read(&raw.source).unwrap();
    for turn in &captured.conversation.main.turns {
        let line = bytes[turn.offset as usize..].split(|&b| b == b'\n').next().unwrap();
        let record: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(
            (record["uuid"].as_str(), record["message"]["content"].as_str()),
            (turn.record.as_deref(), Some(turn.prompt.as_str()))
        );
    }
}

/// The raw set is whole: what lies beside the transcript, too.
fn compare_files(run: &Run, captured: &Capture) {
    let names: Vec<String> = captured.files.files.iter().map(|file| file.name.to_string_lossy().into_owned()).collect();
    let tasks = if results_of(run, "TaskCreate").into_iter().any(has_failed) { None } else { Some("tasks/1.json") };
    for part in ["session/subagents/agent-", ".meta.json", "session/tool-results/"].into_iter().chain(tasks) {
        assert!(names.iter().any(|name| name.contains(part)), "{part} in {names:?}");
    }
    assert_eq!(captured.files.subagents().count(), 1);
    assert!(captured.files.left_out.is_empty(), "{:?}", captured.files.left_out);
}

/// Compares the agent's printed stream with the rest.
fn compare_stream(run: &Run) {
    let captured = Conversation::capture_stream(None, &run.stream, Check::Seam).unwrap();
    let summary = captured.conversation.summary();
    let own: Vec<&Value> = run.seen.iter().filter(|seen| seen["subagent"].is_null()).collect();
    assert_eq!(json!(summary.usage), json!(usage(&own)));
    assert_eq!((summary.turn_count, summary.phase, summary.cost_source), (2, Phase::Idle, Some("stream_json")));
    let reported: f64 = lines(&run.stream).iter().filter_map(|record| record["total_cost_usd"].as_f64()).sum();
    assert!((summary.cost_estimate_usd.unwrap() - reported).abs() < 1e-6, "two processes, each with its own total: {reported}");
    assert_eq!(summary.last_message_id.as_deref(), own.last().unwrap()["message"].as_str());
    assert_eq!(summary.tools_invoked.into_iter().collect::<BTreeSet<_>>(), names(&run.seen.iter().collect::<Vec<_>>()));
    assert_eq!(summary.files_modified.len(), 3);
    assert_eq!(summary.agent_session_id.as_deref(), Some(SESSION));
}

#[test]
fn a_conversation_is_captured_as_the_api_saw_it() {
    let Some((run, _agent, between)) = live() else { return };
    assert_eq!((between.origin, between.conversation.summary().turn_count), (Origin::Fresh, 1));
    let before = between.conversation.main.prefix.bytes;
    let resumed = capture(&run.config, Some(between.conversation));
    assert_eq!(resumed.origin, Origin::Resumed);
    assert_eq!(resumed.bytes_parsed, resumed.conversation.main.prefix.bytes - before);
    let whole = capture(&run.config, None);
    assert_eq!(resumed.conversation, whole.conversation);
    compare(&run, &resumed);
    compare_raw(&run, &resumed);
    compare_files(&run, &resumed);
    compare_stream(&run);
    assert_eq!(Conversation::activity(&whole.conversation, &resumed.conversation), Activity::BetweenTurns);
}

#[test]
fn a_recorded_conversation_is_captured_as_the_api_saw_it() {
    let run = Run::recorded();
    assert!(run.is_recorded());
    let captured = capture(&run.config, None);
    compare(&run, &captured);
    compare_raw(&run, &captured);
    compare_files(&run, &captured);
    compare_stream(&run);
}

/// Writes the recorded run anew: run it by name after a change of the script or of the agent's release.
#[test]
#[ignore = "changes the repository"]
fn record() {
    let (run, agent, _) = live().unwrap();
    run.record(&agent);
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
}

/// Waits until something was written to a fifo.
fn wait_for(path: PathBuf) {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(File::open(path).unwrap().read_to_end(&mut Vec::new()).unwrap()));
    receiver.recv_timeout(Duration::from_secs(60)).expect("the tool did not start");
}

/// Captures until a tool call is pending: the agent makes its transcript, and writes to it, a moment after the tool has begun.
fn capture_in_tool(config: &Path) -> Capture {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let found = TranscriptLocation::by_session(config, SESSION)
            .map(|located| Conversation::capture(None, &located, Check::Seam).unwrap());
        match found {
            Ok(captured) if captured.conversation.main.phase == Phase::InTool => return captured,
            _ => assert!(Instant::now() < until, "no pending tool call: {:?}", found.map(|captured| captured.conversation.main)),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_turn_is_captured_in_its_middle_and_after_the_agent_was_killed() {
    let command = "echo started > begun; echo x > made.txt; cat release > /dev/null";
    let api = Api::start([Reply::of([text("Wait."), tool("Bash", json!({"command": command}))])]);
    let Some(agent) = Agent::new(&api) else { return };
    let (begun, release) = (agent.workspace().join("begun"), agent.workspace().join("release"));
    fifo(&begun);
    fifo(&release);
    let mut child = agent.start("Do it", &["--session-id", SESSION]);
    wait_for(begun);
    let captured = capture_in_tool(&agent.config());
    let summary = captured.conversation.summary();
    assert_eq!(summary.pending_tool_calls.len(), 1);
    let call = &summary.pending_tool_calls[0];
    assert_eq!((call.id.as_str(), call.name.as_str()), (api.exchanges()[0].calls()[0].0.as_str(), "Bash"));
    assert!(call.input.as_deref().unwrap().contains("cat release"));
    assert_eq!(Conversation::activity(&captured.conversation, &captured.conversation), Activity::InTool);
    child.kill().unwrap();
    child.wait().unwrap();
    // The tool's shell lives on.
    File::options().write(true).open(&release).unwrap().write_all(b"go\n").unwrap();
    let killed = capture(&agent.config(), Some(captured.conversation));
    assert_eq!((killed.origin, killed.conversation.main.pending.len()), (Origin::Resumed, 1));
    api.then([Reply::text("Where was I?")]);
    assert!(agent.prompt("Go on", &["--resume", SESSION]).status.success());
    let resumed = capture(&agent.config(), Some(killed.conversation));
    let main = &resumed.conversation.main;
    // Newer releases write a result for it themselves.
    assert_eq!((main.pending.len(), main.turn_count()), (0, 2));
    assert!(main.counts.tool_calls_abandoned <= 1);
    assert_eq!(main.phase, Phase::Idle);
}

#[test]
fn in_a_recorded_transcript_a_prompt_waits_until_the_agent_takes_it_up() {
    let run = Run::recorded();
    let projects = fs::read_dir(run.config.join("projects")).unwrap().flatten();
    let path = projects.map(|project| project.path().join(format!("{}.jsonl", SESSION))).find(|path| path.exists()).unwrap();
    let (mut end, mut waiting, mut seen) = (0, Vec::new(), 0);
    for line in fs::read_to_string(&path).unwrap().lines() {
        end += line.len() as u64 + 1;
        let record: Value = serde_json::from_str(line).unwrap();
        match (record["operation"].as_str(), record["message"]["content"].as_str()) {
            (Some("enqueue"), _) => waiting.push(record["content"].as_str().unwrap().to_owned()),
            (None, Some(said)) if waiting.first().is_some_and(|first| first == said) => drop(waiting.remove(0)),
            _ => continue,
        }
        let index = update(None, &path, end, Format::Transcript, Check::Whole).unwrap().index;
        assert_eq!(Vec::from(index.queued), waiting);
        seen += 1;
    }
    assert!(seen > 1 && waiting.is_empty(), "{seen}");
}
