//! An index that stops and goes on anywhere equals one that reads everything at once; and damage costs only the lines it hits.

use std::{fs, io::Write, path::PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    index::{Format, INDEX_VERSION, Index, IndexUpdate, Origin},
    limits,
    parts::Phase,
    prefix::{Check, PIECE_BYTES},
    update,
};

mod queue;

struct File {
    folder: tempfile::TempDir,
}

impl File {
    fn new(bytes: &[u8]) -> Self {
        let file = File { folder: tempfile::tempdir().unwrap() };
        fs::write(file.path(), bytes).unwrap();
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("t.jsonl")
    }

    fn update(&self, previous: Option<Index>) -> IndexUpdate {
        self.update_as(previous, Format::Transcript)
    }

    fn update_as(&self, previous: Option<Index>, format: Format) -> IndexUpdate {
        let end = super::cut(&self.path()).unwrap().bytes;
        update(previous, &self.path(), end, format, Check::Seam).unwrap()
    }
}

fn of(lines: &[Value]) -> Index {
    of_stream(lines, Format::Transcript)
}

fn of_stream(lines: &[Value], format: Format) -> Index {
    File::new(&text(lines)).update_as(None, format).index
}

fn text(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

fn prompt(text: &str) -> Value {
    json!({"type": "user", "uuid": "u-p", "sessionId": "s", "cwd": "/w", "message": {"role": "user", "content": text}})
}

fn calls(message: &str, blocks: Value) -> Value {
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100});
    json!({"type": "assistant", "uuid": format!("u-{message}"), "sessionId": "s", "message": {
        "id": message, "model": "m", "content": blocks, "stop_reason": "tool_use", "usage": usage}})
}

fn call(id: &str, tool: &str, input: Value) -> Value {
    calls(&format!("msg-{id}"), json!([{"type": "tool_use", "id": id, "name": tool, "input": input}]))
}

fn result(id: &str, is_error: bool) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": id, "content": "x", "is_error": is_error});
    json!({"type": "user", "uuid": format!("u-r{id}"), "message": {"role": "user", "content": [block]}})
}

fn says(message: &str, text: &str) -> Value {
    json!({"type": "assistant", "uuid": format!("u-{message}"), "message": {"id": message, "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 2}}})
}

#[test]
fn a_turn_with_tools() {
    let index = of(&[
        prompt("build it"),
        call("t1", "Read", json!({"file_path": "/w/a"})),
        result("t1", false),
        call("t2", "Write", json!({"file_path": "/w/b", "content": "x"})),
        result("t2", false),
        call("t3", "Edit", json!({"file_path": "/w/c"})),
        result("t3", true),
        call("t4", "Bash", json!({"command": "ls"})),
        result("t4", false),
        says("end", "Done."),
    ]);
    assert_eq!((index.turn_count(), index.phase), (1, Phase::Idle));
    assert_eq!(index.first_prompt.unwrap().text, "build it");
    assert_eq!(index.files.keys().collect::<Vec<_>>(), ["/w/a", "/w/b"]);
    assert_eq!((index.files["/w/a"].reads, index.files["/w/b"].edits), (1, 1));
    assert_eq!((index.counts.tool_calls, index.counts.tool_errors, index.pending.len()), (4, 1, 0));
    assert_eq!(index.facts.last_message.as_deref(), Some("end"));
    assert_eq!(index.facts.last_record.as_deref(), Some("u-end"));
    assert_eq!(index.usage.total.input_tokens, 41);
    assert_eq!(index.context_tokens, Some(3));
    assert_eq!(index.cost, None);
}

#[test]
fn calls_without_a_result_are_pending_until_the_next_prompt() {
    let mut lines =
        vec![prompt("one"), call("t1", "Bash", json!({"command": "sleep 9"})), call("t2", "Read", json!({"file_path": "/a"}))];
    let index = of(&lines);
    assert_eq!(index.phase, Phase::InTool);
    let pending: Vec<_> = index.pending_calls().map(|call| (call.id.as_str(), call.input.as_deref().unwrap())).collect();
    assert_eq!(pending, [("t1", r#"{"command":"sleep 9"}"#), ("t2", r#"{"file_path":"/a"}"#)]);
    lines.push(prompt("two"));
    let index = of(&lines);
    assert_eq!((index.pending.len(), index.counts.tool_calls_abandoned, index.phase), (0, 2, Phase::Thinking));
    assert!(index.files.is_empty());
    assert_eq!(index.turns.len(), 2);
    assert_eq!(index.turns[1].offset, text(&lines[..3]).len() as u64);
}

#[test]
fn answers_and_approved_plans_are_decisions_and_what_is_not_answered_is_open() {
    let ask =
        |id: &str, question: &str| call(id, "AskUserQuestion", json!({"questions": [{"question": question, "header": "h"}]}));
    let answer = |id: &str, answers: Value| {
        let mut record = result(id, false);
        record["toolUseResult"] = json!({"answers": answers});
        record
    };
    let mut lines = vec![
        prompt("build it"),
        ask("t1", "Which database?"),
        answer("t1", json!({"Which database?": "RocksDB"})),
        call("t2", "ExitPlanMode", json!({"plan": "\n# One store, two readers\n\nFirst ..."})),
        result("t2", false),
        call("t3", "ExitPlanMode", json!({"plan": "# Rejected"})),
        result("t3", true),
        ask("t4", "Which port?"),
    ];
    let summary = |lines: &[Value]| super::Conversation { main: of(lines), ..Default::default() }.summary();
    let asked = summary(&lines);
    assert_eq!(asked.decisions, ["Approved plan: One store, two readers", "Which database? RocksDB"]);
    assert_eq!(asked.open_questions, ["Which port?"]);
    lines.push(answer("t4", json!({"Which port?": "80", "odd": 5})));
    lines.push(says("end", "It listens on 80. Shall I write tests?"));
    let replied = summary(&lines);
    assert_eq!(replied.decisions[0], "Which port? 80");
    assert_eq!(replied.open_questions, ["Shall I write tests?"]);
    lines.push(prompt("yes"));
    let answered = summary(&lines);
    assert_eq!((answered.open_questions.len(), answered.last_reply), (0, None));
}

#[test]
fn usage_of_a_message_over_several_lines_counts_once() {
    let line = |output: u64| json!({"type": "assistant", "message": {"id": "m1", "model": "m", "content": [], "usage": {"input_tokens": 7, "output_tokens": output}}});
    let usage = of(&[line(1), line(9), result("none", false), line(9)]).usage;
    assert_eq!((usage.total.input_tokens, usage.total.output_tokens), (7, 9));
}

#[test]
fn todos_are_written_whole_or_entry_by_entry() {
    let todos = json!([{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]);
    let mut lines = vec![call("t1", "TodoWrite", json!({"todos": todos})), result("t1", false)];
    let shown = |index: &Index| index.todos.iter().map(|t| format!("{} {}", t.content, t.status)).collect::<Vec<_>>();
    assert_eq!(shown(&of(&lines)), ["a completed", "b pending"]);
    lines.extend([call("t2", "TodoWrite", json!({"todos": []})), result("t2", true)]);
    assert_eq!(of(&lines).todos.len(), 2);
    let mut created = result("t3", false);
    created["toolUseResult"] = json!({"task": {"id": "7", "subject": "new"}});
    let create = call("t3", "TaskCreate", json!({"subject": "new", "description": "d"}));
    let start = call("t4", "TaskUpdate", json!({"taskId": "7", "status": "in_progress"}));
    let mut lines = vec![create, created, start, result("t4", false)];
    assert_eq!(shown(&of(&lines)), ["new in_progress"]);
    lines.extend([call("t5", "TaskUpdate", json!({"taskId": "7", "status": "deleted"})), result("t5", false)]);
    assert!(of(&lines).todos.is_empty());
}

#[test]
fn subagents_count_for_tokens_tools_and_files_and_for_nothing_else() {
    let mut sub = call("t9", "Write", json!({"file_path": "/w/sub"}));
    sub["isSidechain"] = json!(true);
    let mut done = result("t9", false);
    done["isSidechain"] = json!(true);
    let mut asked = prompt("subtask");
    asked["isSidechain"] = json!(true);
    let index = of(&[prompt("one"), says("a", "x"), asked, sub, done]);
    assert_eq!((index.turn_count(), index.phase, index.counts.user_messages), (1, Phase::Idle, 1));
    assert_eq!((index.files["/w/sub"].edits, index.usage.total.input_tokens), (1, 11));
    assert!(index.loaded.is_empty());
}

#[test]
fn what_the_agent_reports_of_itself() {
    let index = of(&[
        json!({"type": "attachment", "attachment": {"type": "prompt_snapshot", "systemPrompt": ["You are", "an agent"]}}),
        json!({"type": "attachment", "attachment": {"type": "nested_memory", "path": "/w/CLAUDE.md"}}),
        json!({"type": "cost-state", "totalCostUSD": 0.25}),
        json!({"type": "cost-state", "totalCostUSD": 0.5}),
        json!({"type": "cost-state", "totalCostUSD": 0.125}),
        json!({"type": "cost-state", "totalCostUSD": -1}),
    ]);
    assert_eq!(index.system_prompt.unwrap().text, "You are\n\nan agent");
    assert!(index.loaded.contains("/w/CLAUDE.md"));
    assert_eq!(index.cost.unwrap().usd(), 0.625);
}

#[test]
fn a_process_that_did_nothing_does_not_say_that_those_before_it_cost_nothing() {
    let cost = |usd: f64| json!({"type": "cost-state", "totalCostUSD": usd});
    assert_eq!(of(&[cost(0.0)]).cost.map(|cost| cost.usd()), Some(0.0));
    assert_eq!(of(&[prompt("one"), says("m1", "Done."), cost(0.0)]).cost, None);
    assert_eq!(of(&[prompt("one"), says("m1", "Done."), cost(0.0), cost(0.5)]).cost.map(|cost| cost.usd()), Some(0.5));
}

#[test]
fn a_compaction_empties_the_context() {
    let read = [call("t1", "Read", json!({"file_path": "/w/a"})), result("t1", false)];
    let boundary = json!({"type": "system", "subtype": "compact_boundary"});
    assert_eq!(of(&read).loaded.len(), 1);
    let index = of(&[read[0].clone(), read[1].clone(), boundary]);
    assert_eq!((index.loaded.len(), index.files.len(), index.counts.compactions), (0, 1, 1));
}

#[test]
fn a_stream_reports_tokens_and_cost_at_the_end_of_each_run() {
    let init =
        json!({"type": "system", "subtype": "init", "session_id": "s", "cwd": "/w", "model": "m", "claude_code_version": "2.0"});
    let done = |cost: f64| {
        json!({"type": "result", "subtype": "success", "session_id": "s", "total_cost_usd": cost,
        "usage": {"input_tokens": 40, "output_tokens": 20}})
    };
    let mut partial = says("a", "x");
    partial["message"]["stop_reason"] = Value::Null;
    let mut lines = vec![init, partial.clone()];
    let index = of_stream(&lines, Format::StreamJson);
    assert_eq!((index.phase, index.turn_count(), index.cost), (Phase::Thinking, 0, None));
    lines.extend([done(0.25), partial, done(0.5)]);
    let index = of_stream(&lines, Format::StreamJson);
    assert_eq!((index.phase, index.turn_count()), (Phase::Idle, 2));
    assert_eq!(index.usage.total.input_tokens, 80);
    assert_eq!(index.cost.unwrap().usd(), 0.5);
    assert_eq!((index.facts.version.as_deref(), index.facts.agent_session.as_deref()), (Some("2.0"), Some("s")));
}

#[test]
fn torn_and_hostile_lines_cost_only_themselves() {
    let mut bytes = text(&[prompt("one")]);
    let deep = format!("{{\"type\":\"user\",\"message\":{}{}}}\n", "[".repeat(200_000), "]".repeat(200_000));
    for bad in [
        &b"{\"type\":\"us{\"type\":\"user\"}\n"[..],
        b"\n",
        b"\0\0\0\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"null\n",
        b"{\"type\":5}\n",
        deep.as_bytes(),
    ] {
        bytes.extend_from_slice(bad);
    }
    for odd in [
        json!({"type": "user", "message": 5}),
        json!({"type": "user", "message": {"content": {"a": 1}}, "uuid": [], "timestamp": {}}),
        json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": 5, "name": {}}], "usage": "none"}}),
        json!({"type": "assistant", "message": {"model": "m", "usage": {"input_tokens": -5, "output_tokens": 1e300}}}),
        json!({"type": "system", "subtype": 7}),
        json!({"type": "attachment", "attachment": null}),
        json!({"type": "from-the-future", "message": {}}),
    ] {
        bytes.extend(text(&[odd]));
    }
    bytes.extend(text(&[says("last", "y")]));
    bytes.extend_from_slice(b"{\"type\":\"user\",\"mess");
    let index = File::new(&bytes).update(None).index;
    assert_eq!((index.turn_count(), index.counts.malformed), (1, 6));
    assert_eq!(index.facts.last_message.as_deref(), Some("last"));
    assert_eq!(index.counts.by_type["from-the-future"], 1);
}

#[test]
fn lists_are_bounded() {
    let mut lines = Vec::new();
    for i in 0..limits::PENDING_MAX + 10 {
        lines.push(call(&format!("t{i}"), &format!("Tool{i}"), json!({"x": i})));
    }
    let index = of(&lines);
    assert_eq!((index.pending.len(), index.pending[0].id.as_str()), (limits::PENDING_MAX, "t10"));
    assert_eq!((index.tools.len(), index.truncated), (limits::NAMES_MAX, true));
}

#[test]
fn a_rewritten_transcript_is_indexed_anew() {
    let lines = [prompt("one"), says("a", "x"), prompt("two"), says("b", "y")];
    let whole = text(&lines);
    let file = File::new(&whole);
    let first = file.update(None);
    assert_eq!(first.origin, Origin::Fresh);
    let again = file.update(Some(first.index.clone()));
    assert_eq!((again.origin, again.bytes_parsed), (Origin::Resumed, 0));
    // Shorter; as long but different; another file with the same bytes.
    fs::write(file.path(), text(&lines[..2])).unwrap();
    let shorter = file.update(Some(first.index.clone()));
    assert_eq!((shorter.origin, shorter.index.turn_count()), (Origin::Rebuilt, 1));
    fs::write(file.path(), String::from_utf8(whole.clone()).unwrap().replace("one", "six")).unwrap();
    let other = file.update(Some(first.index.clone()));
    assert_eq!((other.origin, other.index.turns[0].prompt.as_str()), (Origin::Rebuilt, "six"));
    let copy = File::new(&whole);
    let copied = copy.update(Some(first.index.clone()));
    assert_eq!(copied.origin, Origin::Resumed);
    let mut old = first.index;
    old.version = INDEX_VERSION + 1;
    assert_eq!(copy.update(Some(old)).origin, Origin::Rebuilt);
}

#[test]
fn a_change_far_back_is_seen_where_it_moves_bytes_or_everything_is_checked() {
    let filler = says("filler", &"x".repeat(1 << 20));
    let lines: Vec<Value> = std::iter::once(prompt("one")).chain(std::iter::repeat_n(filler, 14)).collect();
    let whole = text(&lines);
    assert!(whole.len() as u64 > 3 * PIECE_BYTES);
    let file = File::new(&whole);
    let index = file.update(None).index;
    assert_eq!(index.prefix.pieces.len() as u64, whole.len() as u64 / PIECE_BYTES);
    let change = |from: &str, to: &str| {
        let changed = String::from_utf8(whole.clone()).unwrap().replacen(from, to, 1);
        fs::OpenOptions::new().write(true).truncate(true).open(file.path()).unwrap().write_all(changed.as_bytes()).unwrap();
        changed.len() as u64
    };
    change("one", "three");
    assert_eq!(file.update(Some(index.clone())).origin, Origin::Rebuilt);
    let end = change("one", "six");
    let quick = update(Some(index.clone()), &file.path(), end, Format::Transcript, Check::Seam).unwrap();
    let thorough = update(Some(index), &file.path(), end, Format::Transcript, Check::Whole).unwrap();
    assert_eq!((quick.origin, thorough.origin), (Origin::Resumed, Origin::Rebuilt));
}

/// The cost of a long session: all of it the first time, then only each turn's own bytes, and little memory throughout.
#[test]
fn a_transcript_of_50_000_turns_costs_a_turn_its_own_bytes() {
    let filler = "some output of a tool \\n".repeat(50);
    let turn = |number: usize| {
        let id = format!("t{number}");
        let mut answer = result(&id, false);
        answer["toolUseResult"] = json!({"stdout": filler});
        text(&[
            prompt(&format!("turn {number}")),
            call(&id, "Edit", json!({"file_path": format!("/w/{}", number % 500)})),
            answer,
            says(&id, "Done."),
        ])
    };
    let file = File::new(b"");
    let mut out = std::io::BufWriter::new(fs::File::create(file.path()).unwrap());
    let (mut bytes, mut turns) = (0, 0);
    while turns < 50_000 {
        let turn = turn(turns);
        out.write_all(&turn).unwrap();
        (bytes, turns) = (bytes + turn.len(), turns + 1);
    }
    out.flush().unwrap();
    let began = std::time::Instant::now();
    let first = file.update(None);
    println!("first: {:?}", began.elapsed());
    assert_eq!(first.bytes_parsed, bytes as u64);
    let stored = serde_json::to_vec(&first.index).unwrap();
    assert!(stored.len() < 4 << 20, "{} bytes of index", stored.len());
    let more = turn(turns);
    fs::OpenOptions::new().append(true).open(file.path()).unwrap().write_all(&more).unwrap();
    let began = std::time::Instant::now();
    let again = file.update(Some(serde_json::from_slice(&stored).unwrap()));
    println!("a turn: {:?}", began.elapsed());
    assert_eq!((again.origin, again.bytes_parsed), (Origin::Resumed, more.len() as u64));
    assert_eq!(again.index.turn_count(), turns as u64 + 1);
    assert_eq!((again.index.turns.len(), again.index.files.len()), (limits::TURNS_MAX, 500));
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let id = 0..6u8;
    let tool = prop_oneof![
        Just("Read"),
        Just("Write"),
        Just("Edit"),
        Just("Bash"),
        Just("TodoWrite"),
        Just("TaskCreate"),
        Just("TaskUpdate")
    ];
    prop_oneof![
        "[a-z\\\\\"é😀 ]{0,40}".prop_map(|text| text_line(prompt(&text))),
        (id.clone(), tool, "[a-d]").prop_map(|(id, tool, path)| {
            let input =
                json!({"file_path": path, "todos": [{"content": path, "status": "pending"}], "subject": path, "taskId": path});
            text_line(call(&format!("t{id}"), tool, input))
        }),
        (id.clone(), any::<bool>()).prop_map(|(id, is_error)| text_line(result(&format!("t{id}"), is_error))),
        (id, "[a-z]{0,20}").prop_map(|(id, text)| text_line(says(&format!("m{id}"), &text))),
        (0.0..10f64).prop_map(|cost| text_line(json!({"type": "cost-state", "totalCostUSD": cost}))),
        Just(text_line(json!({"type": "system", "subtype": "compact_boundary"}))),
        "[^\n]{0,60}".prop_map(|junk| format!("{junk}\n").into_bytes()),
        proptest::collection::vec(any::<u8>().prop_filter("one line", |b| *b != b'\n'), 0..40).prop_map(|mut bytes| {
            bytes.push(b'\n');
            bytes
        }),
    ]
}

fn text_line(value: Value) -> Vec<u8> {
    text(&[value])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A transcript that grows, captured at any byte, also between records, through an index that was stored and read back.
    #[test]
    fn going_on_equals_reading_everything(
        lines in proptest::collection::vec(line(), 0..40),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        format in prop_oneof![Just(Format::Transcript), Just(Format::Subagent), Just(Format::StreamJson)],
    ) {
        let whole: Vec<u8> = lines.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
        cuts.sort_unstable();
        let file = File::new(b"");
        let mut previous = None;
        for end in cuts.into_iter().chain([whole.len()]) {
            fs::write(file.path(), &whole[..end]).unwrap();
            let updated = file.update_as(previous.take(), format);
            prop_assert!(updated.origin != Origin::Rebuilt);
            let stored = serde_json::to_vec(&updated.index).unwrap();
            let read: Index = serde_json::from_slice(&stored).unwrap();
            prop_assert_eq!(&read, &updated.index);
            previous = Some(read);
        }
        prop_assert_eq!(previous.unwrap(), file.update_as(None, format).index);
    }
}

#[test]
fn our_own_prompt_is_nobodys_task() {
    let said = of(&[prompt("fix it"), prompt(crate::briefing::GO_ON)]);
    assert_eq!((said.last_prompt.unwrap().text.as_str(), said.counts.prompts), ("fix it", 2));
}

#[test]
fn counts_of_the_record_are_not_named_as_the_lists_of_the_summary_are() {
    let summary = super::Conversation::default().summary();
    let (conversation, usage) = (summary.record_conversation(), summary.record_usage());
    assert_eq!((&conversation["pending_tool_calls_count"], &usage["files_modified_count"]), (&0.into(), &0.into()));
    let lists = serde_json::to_value(&summary).unwrap();
    let lists = lists.as_object().unwrap().iter().filter(|(_, value)| value.is_array());
    let mut named = lists.filter(|(name, _)| conversation.get(name).or(usage.get(name)).is_some_and(|value| !value.is_array()));
    assert_eq!(named.next(), None);
}
