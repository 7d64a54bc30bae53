//! Conversation that a session goes on with when its agent has begun another one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use parhelia_host::state::state_bytes;
use parhelia_ledger::selector::find;
use parhelia_tests::{
    Scratch, binary,
    live::{shown, wait},
    write, write_program,
};
use serde_json::Value;

/// The agent's id of its conversation after `/clear`.
const CLEARED: &str = "6b1f0a52-93c4-4a1e-8d27-0f5e9c3b7a14";
/// The same after another `/clear`.
const EMPTY: &str = "6b1f0a52-93c4-4a1e-8d27-0f5e9c3b7a15";

/// An agent in name: at its first start it has a conversation, clears it, and goes on with another; on its way it waits for files
/// `prompted`, `clear`, `more` and `go`. Later starts do nothing. Each notes what it was started with.
fn agent(scratch: &Scratch, project: &Path) -> PathBuf {
    let program = scratch.path("bin/claude");
    let script = r#"#!/bin/sh
test "$1" = --version && { echo "2.1.197 (Claude Code)"; exit; }
first= id=
while test $# -gt 0; do
    case $1 in --session-id) first=yes; id=$2;; --resume) id=$2;; esac
    shift
done
echo "${first:+new }$id" >> '@starts'
say() { echo '{"type":"user","uuid":"'$2'","sessionId":"'$1'","cwd":"@work","message":{"role":"user","content":"'$3'"}}' >> '@project'/$1.jsonl; }
event() { echo '{"hook_event_name":"'$1'","session_id":"'$2'","transcript_path":"@project/'$2'.jsonl","cwd":"@work","'$3'":"'$4'"}' | '@parhelia' hook; }
wait_for() { for i in $(seq 2000); do test -e "$1" && return; sleep 0.05; done; }
test "$first" || exit 0
say $id u1 before
event SessionStart $id source startup
echo before > '@work/file'
event UserPromptSubmit $id prompt before
wait_for '@prompted'
event SessionEnd $id reason clear
wait_for '@clear'
say @cleared u2 after
event SessionStart @cleared source clear
echo after > '@work/file'
event UserPromptSubmit @cleared prompt after
wait_for '@more'
say @cleared u3 later
echo later > '@work/file'
wait_for '@go'
test -e '@again' || exit 0
event SessionEnd @cleared reason clear
event SessionStart @empty source clear
"#;
    let at = |name: &str| scratch.path(name).to_string_lossy().into_owned();
    let script = script.replace("@starts", &at("starts")).replace("@work", &at("work"));
    let script = script
        .replace("@cleared", CLEARED)
        .replace("@empty", EMPTY)
        .replace("@again", &at("again"))
        .replace("@clear", &at("clear"))
        .replace("@prompted", &at("prompted"))
        .replace("@more", &at("more"))
        .replace("@go", &at("go"));
    let script = script.replace("@project", &project.to_string_lossy()).replace("@parhelia", &binary().to_string_lossy());
    write_program(&program, &script);
    program
}

/// A session whose agent has cleared its conversation.
struct Cleared {
    scratch: Scratch,
    project: PathBuf,
    child: Option<Child>,
    first: String,
}

impl Cleared {
    fn new() -> Self {
        let scratch = Scratch::new();
        write(&scratch.path("work/file"), b"none\n").unwrap();
        let slug = scratch.path("work").to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let project = scratch.path("home/.claude/projects").join(slug);
        fs::create_dir_all(&project).unwrap();
        let program = agent(&scratch, &project).to_string_lossy().into_owned();
        let workspace = scratch.path("work").to_string_lossy().into_owned();
        let mut command = scratch.command(&["session", "run", "--name", "work", "--workspace", &workspace, "--", &program]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The hooks' own checkpoints are made behind their backs: each is waited for.
        let has_logged = |event: &str, times: usize| {
            let log = scratch.path("home/.local/state/parhelia/hook.log");
            wait(|| (fs::read_to_string(&log).ok()?.matches(&format!("{event}: ")).count() == times).then_some(()));
        };
        has_logged("UserPromptSubmit", 1);
        fs::write(scratch.path("prompted"), "").unwrap();
        has_logged("SessionEnd", 1);
        let starts = fs::read_to_string(scratch.path("starts")).unwrap();
        let first = starts.trim().strip_prefix("new ").unwrap().to_owned();
        fs::write(scratch.path("clear"), "").unwrap();
        has_logged("UserPromptSubmit", 2);
        Cleared { scratch, project, child: Some(child), first }
    }

    fn checkpoints(&self) -> Vec<Value> {
        let output = self.scratch.run(&["checkpoint", "list", "--json"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["type"] == "checkpoint").collect()
    }

    fn note(&self, name: &str) {
        fs::write(self.scratch.path(name), "").unwrap();
    }

    fn ends(&mut self) {
        self.note("more");
        self.note("go");
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
    }

    /// The conversation of a checkpoint, and what was said in it.
    fn conversation(&self, checkpoint: &str) -> (String, String) {
        let store = parhelia_ledger::open(&self.scratch.store(), &Default::default()).unwrap();
        let checkpoint = find(&store.view(), checkpoint).unwrap();
        let record = checkpoint.record.conversation.clone().unwrap_or_default();
        let said = state_bytes(&store, &checkpoint, "conversation/transcript.jsonl").unwrap().unwrap_or_default();
        (record["agent_session_id"].as_str().unwrap_or_default().to_owned(), String::from_utf8(said).unwrap())
    }

    fn written(&self, conversation: &str) -> String {
        fs::read_to_string(self.project.join(format!("{conversation}.jsonl"))).unwrap()
    }

    fn assert_has_newest(&self, checkpoint: &str) {
        assert_eq!(self.conversation(checkpoint), (CLEARED.to_owned(), self.written(CLEARED)), "checkpoint {checkpoint}");
    }

    /// With which conversations the agent was started again.
    fn resumed(&self) -> Vec<String> {
        let starts = fs::read_to_string(self.scratch.path("starts")).unwrap();
        starts.lines().skip(1).map(str::to_owned).collect()
    }
}

#[test]
fn after_a_clear_checkpoints_and_resume_have_the_new_conversation() {
    let mut cleared = Cleared::new();
    assert_ne!(cleared.first, CLEARED);
    let details: Vec<(String, String)> = cleared
        .checkpoints()
        .iter()
        .rev()
        .map(|c| (c["trigger_detail"].as_str().unwrap_or_default().to_owned(), cleared.conversation(c["id"].as_str().unwrap()).0))
        .collect();
    let first = details.iter().find(|(detail, _)| detail == "prompt").unwrap();
    assert_eq!(first.1, cleared.first, "{details:?}");
    cleared.assert_has_newest("latest");

    let workspace = cleared.scratch.path("work").to_string_lossy().into_owned();
    cleared.note("more");
    wait(|| cleared.written(CLEARED).contains("later").then_some(()));
    wait(|| (fs::read_to_string(cleared.scratch.path("work/file")).ok()? == "later\n").then_some(()));
    let by_hand = cleared.scratch.summary(&["checkpoint", "create", "work", "--workspace", &workspace]);
    cleared.assert_has_newest(by_hand["id"].as_str().unwrap());
    let paused = cleared.scratch.summary(&["session", "pause", "work"]);
    cleared.assert_has_newest(paused["checkpoint"].as_str().unwrap());

    cleared.ends();
    let last = cleared.checkpoints().remove(0);
    assert_eq!(last["trigger"], "shutdown", "{last}");
    cleared.assert_has_newest(last["id"].as_str().unwrap());

    cleared.scratch.expect(0, &["session", "resume", "work"]);
    assert_eq!(cleared.resumed(), [CLEARED]);
    let of_resumed = cleared.checkpoints().remove(0);
    assert_eq!(of_resumed["epoch"], 2);
    cleared.assert_has_newest(of_resumed["id"].as_str().unwrap());
    // Without its file it is written back, from the last checkpoint.
    let said = cleared.written(CLEARED);
    fs::remove_file(cleared.project.join(format!("{CLEARED}.jsonl"))).unwrap();
    cleared.scratch.expect(0, &["session", "resume", "work"]);
    assert_eq!(cleared.resumed(), [CLEARED, CLEARED]);
    assert_eq!(cleared.written(CLEARED), said);
}

#[test]
fn back_before_a_clear_a_session_goes_on_with_the_conversation_of_then() {
    let mut cleared = Cleared::new();
    let before = {
        let all = cleared.checkpoints();
        let is_first = |c: &&Value| cleared.conversation(c["id"].as_str().unwrap()).0 == cleared.first;
        all.iter().rev().find(is_first).unwrap()["id"].as_str().unwrap().to_owned()
    };
    cleared.ends();
    let said = cleared.written(CLEARED);
    cleared.scratch.expect(0, &["checkpoint", "rollback", &before, "--yes"]);
    assert_eq!(cleared.written(&cleared.first), cleared.conversation(&before).1);
    cleared.scratch.expect(0, &["session", "resume", "work"]);
    assert_eq!(cleared.resumed(), [cleared.first.as_str()]);
    assert_eq!(cleared.conversation("latest").0, cleared.first);

    cleared.scratch.expect(0, &["session", "resume", "work", "--from", &before, "--yes"]);
    assert_eq!(cleared.resumed()[1..], [cleared.first.as_str()]);
    assert_eq!(cleared.written(CLEARED), said, "the other one is kept");
}

#[test]
fn a_prompt_before_the_last_clear_is_the_last_one_and_none_from_long_before() {
    let mut cleared = Cleared::new();
    cleared.note("again");
    cleared.ends();
    let last = |cleared: &Cleared| {
        let shown = cleared.scratch.run(&["session", "show", "work", "--json"]);
        let shown: Value = serde_json::from_str(String::from_utf8_lossy(&shown.stdout).lines().next().unwrap()).unwrap();
        let conversations: Vec<&str> =
            shown["conversations"].as_array().unwrap().iter().map(|known| known["id"].as_str().unwrap()).collect();
        assert_eq!(conversations, [&cleared.first, CLEARED, EMPTY]);
        shown["last_prompt"].clone()
    };
    assert_eq!(last(&cleared), "later");
    fs::remove_file(cleared.project.join(format!("{CLEARED}.jsonl"))).unwrap();
    assert_ne!(last(&cleared), "before", "none is better than one of a conversation that was cleared long ago");
}
