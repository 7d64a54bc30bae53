//! What a headless agent prints: it reaches whoever reads it as it was printed, and its cost reaches the session.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Output, Stdio},
};

use parhelia_tests::{
    Scratch,
    agent::Reply,
    live::{Live, kill, kill_noted, lives, shown, wait},
    noise, write, write_program,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A program that is called like the agent, keeps a conversation as it does, and then does what the test says.
const SCRIPT: &str = r#"#!/bin/sh
case "$*" in --version) echo "2.1.197 (Claude Code)"; exit;; esac
id=
while [ $# -gt 0 ]; do
    case $1 in --session-id|--resume) id=$2; shift;; esac
    shift
done
project=$HOME/.claude/projects/$(pwd -P | sed 's/[^a-zA-Z0-9]/-/g')
mkdir -p "$project"
transcript=$project/$id.jsonl
printf '{"type":"user","uuid":"u-%s","sessionId":"%s","message":{"role":"user","content":"a prompt"}}\n' $$ "$id" >> "$transcript"
printf '{"type":"assistant","uuid":"a-%s","sessionId":"%s","message":{"role":"assistant","id":"m-%s","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":5,"output_tokens":5}}}\n' $$ "$id" $$ >> "$transcript"
cd "$HOME/.."
. ./behaviour
"#;

const STREAM: [&str; 3] = ["--output-format", "stream-json", "--verbose"];

struct Work(Scratch);

impl Work {
    fn new(behaviour: &str) -> Self {
        let work = Work(Scratch::new());
        write(&work.0.path("work/file"), b"as it was\n").unwrap();
        fs::create_dir_all(work.0.path("home")).unwrap();
        write_program(&work.0.path("claude"), SCRIPT);
        work.behaves(behaviour);
        work
    }

    fn behaves(&self, behaviour: &str) {
        write(&self.0.path("behaviour"), behaviour.as_bytes()).unwrap();
    }

    fn has(&self, name: &str) -> bool {
        self.0.path(name).exists()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path(name)).unwrap_or_default()
    }

    /// A command line that starts the agent with a format of its output.
    fn command(&self, ours: &[&str], format: &[&str]) -> Command {
        let (folder, program) = (self.0.path("work"), self.0.path("claude"));
        let (folder, program) = (folder.to_string_lossy(), program.to_string_lossy());
        let start = ["session", "run", "--name", "it", "--workspace", &*folder, "--", &*program, "-p", "a prompt"];
        let mut command = self.0.command(&[ours, &start, format].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, format: &[&str]) -> Child {
        self.command(&[], format).spawn().unwrap()
    }

    fn run(&self, format: &[&str]) -> Output {
        self.start(format).wait_with_output().unwrap()
    }

    fn resume(&self) -> Output {
        self.0.run(&["session", "resume", "it", "--prompt", "go on"])
    }

    fn objects(&self, arguments: &[&str], kind: &str) -> Vec<Value> {
        let output = self.0.run(&[arguments, &["--json"]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(|line| line["type"] == kind).collect()
    }

    /// The session's cost, by its view and by the list.
    fn cost(&self) -> Value {
        let shown = self.objects(&["session", "show", "it"], "session").remove(0);
        let listed = self.objects(&["session", "list"], "session").remove(0);
        assert_eq!(shown["totals"]["cost_usd"], listed["totals"]["cost_usd"]);
        shown["totals"]["cost_usd"].clone()
    }

    /// The cost in the newest checkpoint, and its source.
    fn captured(&self) -> (Value, Value) {
        let newest = self.objects(&["checkpoint", "list", "it"], "checkpoint").remove(0);
        (newest["usage"]["cost_estimate_usd"].clone(), newest["usage"]["cost_source"].clone())
    }
}

fn result(cost: f64) -> String {
    json!({ "type": "result", "subtype": "success", "total_cost_usd": cost, "usage": { "input_tokens": 5 } }).to_string()
}

/// A stream with everything that no reader of lines likes.
fn stream(cost: f64) -> Vec<u8> {
    let mut stream = b"{\"type\":\"system\",\"subtype\":\"init\",\"model\":\"m\",\"tools\":[\"Read\"]}\r\n".to_vec();
    stream.extend((0..=255).chain([b'\n', b'{', b'\n', b'\n']));
    stream.extend(noise(300_000, 1));
    stream.push(b'\n');
    stream.extend(result(cost).bytes());
    stream.extend(b"\r\n");
    stream.extend(noise(5 << 20, 2).into_iter().map(|byte| if byte == b'\n' { b'x' } else { byte }));
    stream
}

#[test]
fn what_is_printed_is_passed_on_and_its_cost_is_known() {
    let work = Work::new("cat stream");
    fs::write(work.0.path("stream"), stream(0.25)).unwrap();
    let output = work.run(&STREAM);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == stream(0.25), "{} bytes", output.stdout.len());
    assert_eq!(work.cost(), 0.25);
    assert_eq!(work.captured(), (json!(0.25), json!("stream_json")));
    // What is made afterwards, by whomever, has it as well.
    write(&work.0.path("work/file"), b"by hand\n").unwrap();
    work.0.expect(0, &["checkpoint", "create", "it", "--workspace", &work.0.path("work").to_string_lossy()]);
    assert_eq!(work.captured(), (json!(0.25), json!("stream_json")));

    // Another process tells of itself alone, be it more or less than the one before.
    for (cost, sum) in [(0.5, 0.75), (0.125, 0.875)] {
        fs::write(work.0.path("stream"), stream(cost)).unwrap();
        let output = work.resume();
        assert!(output.status.success() && output.stdout == stream(cost), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!((work.cost(), work.captured().0), (json!(sum), json!(sum)));
    }
}

#[test]
fn an_agent_that_keeps_its_cost_is_not_counted_twice() {
    let told = |cost: f64| {
        let state = json!({ "type": "cost-state", "totalCostUSD": cost });
        format!("echo '{}'\necho '{state}' >> \"$transcript\"\n", result(cost))
    };
    let work = Work::new(&told(0.25));
    assert!(work.run(&STREAM).status.success());
    assert_eq!((work.cost(), work.captured()), (json!(0.25), (json!(0.25), json!("transcript"))));
    // It has found the first cost in its conversation.
    work.behaves(&told(0.75));
    assert!(work.resume().status.success());
    assert_eq!((work.cost(), work.captured()), (json!(0.75), (json!(0.75), json!("transcript"))));
}

#[test]
fn one_list_at_the_end_is_as_good_and_text_is_not_read() {
    for (format, printed, cost) in [
        (&["--output-format", "json"][..], result(0.25), json!(0.25)),
        (&["--output-format=json", "--verbose"][..], format!("[{{\"type\":\"system\"}},{}]", result(0.25)), json!(0.25)),
        (&["--output-format", "text"][..], result(0.25), Value::Null),
        (&[][..], result(0.25), Value::Null),
    ] {
        let work = Work::new(&format!("printf %s '{printed}'"));
        let output = work.run(format);
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{format:?}");
        assert_eq!(work.cost(), cost, "{format:?}");
    }
}

#[test]
fn objects_of_ours_keep_standard_output_to_themselves() {
    let work = Work::new(&format!("echo '{}'", result(0.25)));
    let output = work.command(&["--json"], &STREAM).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(err.contains("total_cost_usd") && !out.contains("total_cost_usd"), "{out} {err}");
    assert_eq!(work.cost(), 0.25);
}

#[test]
fn a_cost_is_known_while_the_agent_works() {
    let work = Work::new(&format!("echo '{}'\nuntil test -e go; do sleep 0.05; done\necho '{}'\n", result(0.25), result(0.5)));
    let mut child = work.start(&STREAM);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("0.25"), "it comes at once");
    wait(|| (work.cost() == 0.25).then_some(()));
    let folder = work.0.path("work");
    work.0.expect(0, &["checkpoint", "create", "it", "--workspace", &folder.to_string_lossy()]);
    assert_eq!(work.captured(), (json!(0.25), json!("stream_json")));
    write(&work.0.path("go"), b"").unwrap();
    assert!(lines.next().unwrap().unwrap().contains("0.5") && lines.next().is_none());
    assert!(child.wait().unwrap().success());
    assert_eq!((work.cost(), work.captured().0), (json!(0.5), json!(0.5)), "one process");
}

#[test]
fn a_limit_of_costs_decides_about_a_headless_run() {
    let work = Work::new(&format!("echo changed >> work/file\necho '{}'", result(6.0)));
    let config = work.0.path("limits.toml");
    let policy = "[approval]\ndefault_policy = \"lax\"\n[approval.policies.lax]\nauto_approve = [\"complete\", \"shutdown\", \"periodic\", \"manual\"]\n";
    fs::write(&config, policy).unwrap();
    let output = work.command(&["--config", &config.to_string_lossy()], &STREAM).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let newest = work.objects(&["checkpoint", "list", "it"], "checkpoint").remove(0);
    assert_eq!(newest["approval"]["status"], "pending", "{newest}");
    let review = work.0.expect(0, &["session", "review", "it"]);
    assert!(review.contains("cost 6.00 USD > 5.00"), "{review}");
}

#[test]
fn a_reader_that_goes_ends_the_agent_as_it_would_without_us() {
    let mut ends = Vec::new();
    for format in [&STREAM[..], &[]] {
        let work = Work::new("echo first\nwhile :; do echo '{\"type\":\"assistant\"}'; done");
        let mut child = work.start(format);
        let mut line = String::new();
        BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "first\n");
        let output = child.wait_with_output().unwrap();
        ends.push((output.status.code(), output.status.signal()));
        let run = work.objects(&["session", "show", "it"], "session").remove(0);
        assert_eq!(run["status"], "error", "{run}");
    }
    assert_eq!(ends[0], ends[1]);
    assert_eq!(ends[0].0, Some(128 + 13), "by SIGPIPE");
}

#[test]
fn a_slow_reader_loses_nothing_and_the_run_ends_before_it_has_read() {
    let work = Work::new("cat stream");
    let mut bytes = result(0.25).into_bytes();
    bytes.push(b'\n');
    // More than one pipe takes, and less than two.
    bytes.extend(noise(100_000, 3));
    fs::write(work.0.path("stream"), &bytes).unwrap();
    let mut child = work.start(&STREAM);
    let ended =
        || work.objects(&["session", "show", "it"], "session").first().is_some_and(|session| session["status"] == "paused");
    wait(|| ended().then_some(()));
    assert_eq!(work.cost(), 0.25);
    assert!(child.try_wait().unwrap().is_none(), "it is not passed on yet");
    let mut passed = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut passed).unwrap();
    assert!(passed == bytes && child.wait().unwrap().success());

    // Who asks it to end does not wait for the reader, which still gets everything.
    let work = Work::new("cat stream");
    fs::write(work.0.path("stream"), &bytes).unwrap();
    let mut child = work.start(&STREAM);
    let ended =
        || work.objects(&["session", "show", "it"], "session").first().is_some_and(|session| session["status"] == "paused");
    wait(|| ended().then_some(()));
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
    let mut out = child.stdout.take().unwrap();
    assert!(child.wait().unwrap().success());
    let mut passed = Vec::new();
    out.read_to_end(&mut passed).unwrap();
    assert!(passed == bytes, "{} bytes", passed.len());
}

#[test]
fn an_agent_goes_on_whose_supervisor_was_killed() {
    let work = Work::new("echo $$ > agent\necho first\nuntil test -e go; do sleep 0.05; done\ncat stream\ntouch done\n");
    fs::write(work.0.path("stream"), stream(0.25)).unwrap();
    let log = work.0.path("log");
    let mut child = work.command(&[], &STREAM).stdout(fs::File::create(&log).unwrap()).spawn().unwrap();
    wait(|| (work.read("log") == "first\n").then_some(()));
    kill(child.id() as i32);
    child.wait().unwrap();
    let agent: i32 = work.read("agent").trim().parse().unwrap();
    assert!(lives(agent));
    write(&work.0.path("go"), b"").unwrap();
    wait(|| work.has("done").then_some(()));
    let expected = [b"first\n", &stream(0.25)[..]].concat();
    wait(|| (fs::read(&log).unwrap() == expected).then_some(()));
    wait(|| (!lives(agent)).then_some(()));
}

#[test]
fn what_an_agent_leaves_behind_delays_no_end() {
    let work = Work::new(&format!("sleep 1000 & echo $! > left\necho '{}'", result(0.25)));
    let mut child = work.start(&STREAM);
    let mut out = child.stdout.take().unwrap();
    let status = child.wait().unwrap();
    let left: i32 = work.read("left").trim().parse().unwrap();
    assert!(status.success() && lives(left));
    assert_eq!(work.cost(), 0.25);
    kill_noted(&work.0, &["left"]);
    let mut passed = String::new();
    out.read_to_string(&mut passed).unwrap();
    assert_eq!(passed.trim(), result(0.25));
}

/// The costs that an agent has printed.
fn reported(output: &Output) -> Vec<f64> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records.filter_map(|record| record["total_cost_usd"].as_f64()).collect()
}

#[test]
fn the_cost_of_a_real_agent_is_what_it_has_printed() {
    for (live, adds_up_itself) in [(Live::new(), false), (Live::newer(), true)] {
        let Some(live) = live else { continue };
        live.api.then([Reply::text("One."), Reply::text("Two.")]);
        let first = live.start("the first prompt").wait_with_output().unwrap();
        assert!(first.status.success(), "{}", shown(&first));
        let session = live.session();
        let second = live.resume(&session, "the second prompt").wait_with_output().unwrap();
        assert!(second.status.success(), "{}", shown(&second));
        let costs = [reported(&first), reported(&second)].concat();
        assert!(costs.len() == 2 && costs[1] > costs[0] && costs[0] > 0.0, "{costs:?}");
        let expected = if adds_up_itself { costs[1] } else { costs[0] + costs[1] };
        let cost = live.shown(&session)["totals"]["cost_usd"].as_f64().unwrap();
        assert!((cost - expected).abs() < 1e-9, "{cost}: {costs:?}");
        let captured = live.checkpoints(&session).remove(0)["usage"]["cost_estimate_usd"].as_f64().unwrap();
        assert!((captured - expected).abs() < 1e-9, "{captured}: {costs:?}");
    }
}
