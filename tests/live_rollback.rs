//! Rollback and undo of a session of the real agent: alive, inside itself, and where it cannot be done.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output},
};

use parhelia_tests::{
    Files,
    agent::{Reply, text, tool},
    binary, files_in,
    live::{Live, shown, wait},
    write,
};
use serde_json::{Value, json};

const FIRST: &str = "write the first file";
const SECOND: &str = "now spoil everything";
const REPLY: &str = "The first file is written.";

/// A session whose first turn is over.
struct Work {
    live: Live,
    session: String,
    /// The checkpoint that the first turn ended with.
    target: String,
    conversation: String,
}

impl Work {
    fn new() -> Option<Self> {
        let live = Live::new()?;
        let path = live.agent.workspace().join("locked/kept.txt");
        live.api.then([
            Reply::of([tool("Write", json!({ "file_path": path, "content": "of the first turn\n" }))]),
            Reply::text(REPLY),
        ]);
        let output = live.start(FIRST).wait_with_output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        let session = live.session();
        let newest = live.checkpoints(&session).remove(0);
        assert_eq!(newest["trigger"], "complete", "{newest}");
        let target = newest["id"].as_str().unwrap().to_owned();
        let conversation = live.api.exchanges()[0].session.clone().unwrap();
        Some(Work { live, session, target, conversation })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.live.agent.workspace().join(name)
    }

    fn transcript(&self) -> Vec<u8> {
        fs::read(self.live.agent.transcript(&self.conversation)).unwrap()
    }

    /// The checkpoint's copy of the conversation.
    fn transcript_of(&self, checkpoint: &str) -> Vec<u8> {
        self.live.state(checkpoint, "conversation/transcript.jsonl")
    }

    /// The workspace but for what a tool that still runs may write at any time.
    fn files(&self) -> Files {
        let mut files = files_in(&self.live.agent.workspace());
        files.remove(b"growing.txt".as_slice());
        files
    }

    /// A second turn whose tool goes on for longer than any test. Returns once that runs and stands in the transcript.
    fn in_the_second_turn(&self) -> Child {
        let command = "echo spoiled > locked/kept.txt; echo second > second.txt; \
                       for i in $(seq 6000); do echo more >> growing.txt; sleep 0.05; done";
        self.live.api.then([Reply::of([text("I spoil it."), tool("Bash", json!({ "command": command, "timeout": 600_000 }))])]);
        let child = self.live.resume(&self.session, SECOND);
        self.has_grown();
        wait(|| String::from_utf8_lossy(&self.transcript()).contains("growing.txt").then_some(()));
        child
    }

    /// Waits until the tool has written once more.
    fn has_grown(&self) {
        let length = || fs::metadata(self.at("growing.txt")).map_or(0, |metadata| metadata.len());
        let before = length();
        wait(|| (length() > before).then_some(()));
    }

    /// A second turn that comes to its end.
    fn second_turn(&self) {
        let command = "echo spoiled > locked/kept.txt; echo second > second.txt";
        self.live.api.then([Reply::of([tool("Bash", json!({ "command": command }))]), Reply::text("It is spoiled.")]);
        let output = self.live.resume(&self.session, SECOND).wait_with_output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        assert_eq!(fs::read_to_string(self.at("locked/kept.txt")).unwrap(), "spoiled\n");
    }

    fn rollback(&self, more: &[&str]) -> Output {
        self.live.run(&[&["checkpoint", "rollback", self.target.as_str()], more].concat())
    }

    /// Files and conversation are those of the first turn.
    fn assert_is_first(&self) {
        assert_eq!(
            self.files().into_iter().collect::<Vec<_>>(),
            [(b"locked/kept.txt".to_vec(), b"of the first turn\n".to_vec())]
        );
        assert_eq!(self.transcript(), self.transcript_of(&self.target));
    }

    /// Goes on, and returns what the agent then says to the API.
    fn resumed(&self) -> String {
        self.live.api.then([Reply::text("I go on.")]);
        let seen = self.live.api.exchanges().len();
        let text = self.live.expect(&["session", "resume", &self.session, "--prompt", "go on"]);
        assert!(text.contains("I go on."), "{text}");
        let exchanges = self.live.api.wait_for(seen + 1);
        assert_eq!(exchanges.len(), seen + 1);
        let last = exchanges.last().unwrap();
        assert_eq!(last.session.as_ref(), Some(&self.conversation));
        last.request["messages"].to_string()
    }
}

/// Files that lie beside the conversation and are not its own.
fn bystanders(work: &Work) -> Vec<(PathBuf, Vec<u8>)> {
    let project = work.live.agent.transcript(&work.conversation).parent().unwrap().to_owned();
    let other = "9e8d7c6b-1111-4222-8333-444455556666";
    let another = work.live.agent.config().join("projects/-another-project");
    let user = json!({ "type": "user", "sessionId": other, "message": { "role": "user", "content": "another conversation" } });
    let files = [
        (project.join(format!("{other}.jsonl")), format!("{user}\n{{\"torn")),
        (project.join(other).join("subagents/agent-1.jsonl"), format!("{user}\n")),
        (project.join("memory/MEMORY.md"), "# what to remember\n".to_owned()),
        (another.join(format!("{other}.jsonl")), "of another project\n".to_owned()),
    ];
    files
        .into_iter()
        .map(|(path, text)| {
            write(&path, text.as_bytes()).unwrap();
            (path, text.into_bytes())
        })
        .collect()
}

fn assert_untouched(bystanders: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in bystanders {
        assert_eq!(fs::read(path).ok().as_ref(), Some(bytes), "{}", path.display());
    }
}

/// The part of the conversation that the rollback has moved aside.
fn aside(work: &Work) -> Vec<u8> {
    let folder = work.live.agent.config().join("parhelia-aside").join(&work.session);
    let kept: Vec<Vec<u8>> = files_in(&folder)
        .into_iter()
        .filter(|(path, _)| String::from_utf8_lossy(path).contains(&work.conversation))
        .map(|(_, bytes)| bytes)
        .collect();
    let [kept] = <[Vec<u8>; 1]>::try_from(kept).unwrap_or_else(|kept| panic!("{} copies below {}", kept.len(), folder.display()));
    kept
}

#[test]
fn a_live_agent_is_ended_and_files_and_conversation_go_back_and_forth() {
    let Some(work) = Work::new() else { return };
    let bystanders = bystanders(&work);
    let child = work.in_the_second_turn();
    let in_tool = work.transcript();
    assert!(String::from_utf8_lossy(&in_tool).contains(SECOND));

    for (flag, code) in [("--yes", 4), ("--dry-run", 0)] {
        let output = work.rollback(&[flag]);
        let text = shown(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains("is alive") && text.contains("--stop") && text.contains("--files-only"), "{text}");
        let back =
            format!("goes back to 1 turn, the last \"{FIRST}\"; what was said since (1 turn, the last \"{SECOND}\") is kept");
        let says = text.contains(&back);
        assert_eq!(says, code == 0, "{text}");
    }
    work.has_grown();
    assert_eq!(fs::read_to_string(work.at("locked/kept.txt")).unwrap(), "spoiled\n");

    let text = work.live.expect(&["checkpoint", "rollback", &work.target, "--stop", "--yes"]);
    assert!(text.contains("Safety checkpoint") && text.contains("session resume"), "{text}");
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "{}", shown(&output));
    assert!(work.live.processes(&work.session).is_empty(), "{:?}", work.live.processes(&work.session));
    work.assert_is_first();
    assert!(!work.at("growing.txt").exists() && !work.at("second.txt").exists());
    assert_untouched(&bystanders);
    let second = aside(&work);
    assert!(second.starts_with(&in_tool), "what the agent wrote before it was ended is kept whole");

    let said = work.resumed();
    assert!(said.contains(FIRST) && said.contains(REPLY), "{said}");
    assert!(!said.contains(SECOND) && !said.contains("I spoil it."), "{said}");
    assert!(work.transcript().starts_with(&work.transcript_of(&work.target)));

    work.live.expect(&["checkpoint", "undo", &work.session, "--yes"]);
    assert_eq!(work.transcript(), second);
    assert_eq!(fs::read_to_string(work.at("locked/kept.txt")).unwrap(), "spoiled\n");
    assert_eq!(fs::read_to_string(work.at("second.txt")).unwrap(), "second\n");
    assert!(fs::read_to_string(work.at("growing.txt")).unwrap().lines().all(|line| line == "more"));
    assert_untouched(&bystanders);
    let said = work.resumed();
    assert!(said.contains(FIRST) && said.contains(SECOND) && said.contains("I spoil it."), "{said}");
    work.live.expect(&["check"]);
}

#[test]
fn from_inside_the_agent_files_alone_go_back_and_the_conversation_goes_on() {
    let Some(work) = Work::new() else { return };
    let command = format!(
        "echo spoiled > locked/kept.txt; echo second > second.txt; '{}' checkpoint rollback {} --yes",
        binary().display(),
        work.target
    );
    work.live.api.then([Reply::of([tool("Bash", json!({ "command": command }))]), Reply::text("The files are back.")]);
    let seen = work.live.api.exchanges().len();
    let output = work.live.resume(&work.session, SECOND).wait_with_output().unwrap();
    assert!(output.status.success() && shown(&output).contains("The files are back."), "{}", shown(&output));
    let exchanges = work.live.api.wait_for(seen + 2);
    let (_, result) = exchanges[seen + 1].blocks("tool_result").pop().unwrap();
    let told = result["content"].to_string();
    assert!(told.contains("files alone go back, the conversation goes on"), "{told}");
    assert!(told.contains(&format!(" to checkpoint {}", work.target)), "{told}");
    assert_ne!(result["is_error"], true, "{told}");
    assert_eq!(fs::read_to_string(work.at("locked/kept.txt")).unwrap(), "of the first turn\n");
    assert!(!work.at("second.txt").exists());
    let transcript = String::from_utf8(work.transcript()).unwrap();
    assert!(transcript.as_bytes().starts_with(&work.transcript_of(&work.target)));
    assert!(transcript.contains(SECOND) && transcript.contains("The files are back."), "{transcript}");
    assert_eq!(work.live.shown(&work.session)["status"], "paused");

    // Undone from outside, it is files alone as well.
    work.live.expect(&["checkpoint", "undo", &work.session, "--yes"]);
    assert_eq!(fs::read_to_string(work.at("locked/kept.txt")).unwrap(), "spoiled\n");
    assert_eq!(String::from_utf8(work.transcript()).unwrap(), transcript);
    let said = work.resumed();
    assert!(said.contains(SECOND) && said.contains("The files are back."), "{said}");
}

#[test]
fn files_only_leaves_a_live_agent_and_its_conversation_alone() {
    let Some(work) = Work::new() else { return };
    let child = work.in_the_second_turn();
    let in_tool = work.transcript();
    let output = work.rollback(&["--files-only", "--yes", "--json"]);
    // What the agent writes at this moment may be left.
    let left = String::from_utf8_lossy(&output.stderr).matches("is left as it is").count();
    let expected = if shown(&output).contains("growing.txt: it was changed") { (Some(3), 1) } else { (Some(0), 0) };
    assert_eq!((output.status.code(), left), expected, "{}", shown(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("it is not told that its files change"), "{}", shown(&output));
    let summary: Value = serde_json::from_str(String::from_utf8_lossy(&output.stdout).lines().last().unwrap()).unwrap();
    assert_eq!((&summary["with_conversation"], &summary["changed"]), (&json!(false), &json!(true)));
    assert_eq!(fs::read_to_string(work.at("locked/kept.txt")).unwrap(), "of the first turn\n");
    assert!(!work.at("second.txt").exists());
    work.has_grown();
    assert!(work.transcript().starts_with(&in_tool));

    let agent = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(agent, rustix::process::Signal::TERM).unwrap();
    child.wait_with_output().unwrap();
    let before = work.transcript();
    let text = work.live.expect(&["checkpoint", "undo", &work.session, "--yes"]);
    assert!(!text.contains("The conversation is at"), "{text}");
    assert_eq!(fs::read_to_string(work.at("second.txt")).unwrap(), "second\n");
    assert_eq!(work.transcript(), before, "what was not rolled back is not undone");
}

/// A folder in which nothing can be written, until this is dropped.
struct ReadOnly(PathBuf);

impl ReadOnly {
    fn new(folder: &Path) -> Self {
        let mount = |arguments: &[&str]| {
            let status = Command::new("mount").args(arguments).arg(folder).status().unwrap();
            assert!(status.success(), "this test needs root");
        };
        let path = folder.to_string_lossy().into_owned();
        mount(&["--bind", &path]);
        let guard = ReadOnly(folder.to_owned());
        mount(&["-o", "remount,bind,ro"]);
        guard
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn where_a_file_cannot_be_written_everything_is_as_before() {
    let Some(work) = Work::new() else { return };
    work.second_turn();
    let (files, transcript) = (work.files(), work.transcript());
    let guard = ReadOnly::new(&work.at("locked"));
    let output = work.rollback(&["--yes"]);
    drop(guard);
    let text = shown(&output);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("nothing was changed"), "{text}");
    assert!(text.contains("locked/kept.txt") && text.contains("read-only filesystem"), "the cause is named: {text}");
    assert_eq!((work.files(), work.transcript()), (files.clone(), transcript.clone()));
    let undo = work.live.run(&["checkpoint", "undo", &work.session, "--yes"]);
    assert_eq!(undo.status.code(), Some(4), "{}", shown(&undo));
    assert!(shown(&undo).contains("was not rolled back"), "{}", shown(&undo));

    let output = work.rollback(&["--yes"]);
    assert!(output.status.success(), "{}", shown(&output));
    work.assert_is_first();
    work.live.expect(&["checkpoint", "undo", &work.session, "--yes"]);
    assert_eq!((work.files(), work.transcript()), (files, transcript));
}
