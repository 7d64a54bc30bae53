//! The briefing of a resumed agent: it is true of the conversation, of git and of the disk as they are when the agent starts.

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use parhelia_agent::process::Identity;
use parhelia_tests::{
    Scratch,
    agent::{Reply, tool},
    binary,
    live::{Live, kill, shown, wait},
    scripted, write, write_program,
};
use serde_json::{Value, json};

#[test]
fn a_tool_call_that_was_interrupted_is_told_and_not_repeated() {
    let Some(live) = Live::new() else { return };
    let workspace = live.agent.workspace();
    let command = "echo started >> starts; for i in $(seq 6000); do sleep 0.05; done # of-the-interrupted-call";
    live.api.then([
        Reply::of([tool("Write", json!({ "file_path": workspace.join("made.txt"), "content": "done before\n" }))]),
        Reply::of([tool("Bash", json!({ "command": command, "timeout": 600_000 }))]),
    ]);
    let child = live.start("start it and wait");
    wait(|| workspace.join("starts").exists().then_some(()));
    let conversation = live.api.wait_for(2)[0].session.clone().unwrap();
    wait(|| {
        fs::read_to_string(live.agent.transcript(&conversation)).ok().filter(|said| said.contains("of-the-interrupted-call"))
    });
    kill(live.agent_process());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", shown(&output));
    let session = live.session();
    let index: Value = serde_json::from_slice(&live.state(&format!("{session}@latest"), "conversation.json")).unwrap();
    assert_eq!(index["summary"]["pending_tool_calls"].as_array().map(Vec::len), Some(1), "{}", index["summary"]);

    live.api.then([Reply::text("I look first.")]);
    let seen = live.api.exchanges().len();
    let text = live.expect(&["session", "resume", &session, "--prompt", "go on"]);
    assert!(text.contains("I look first."), "{text}");
    let asked = live.api.wait_for(seen + 1);
    let said = asked.last().unwrap().text();
    let (_, told) = said.split_once("## Interrupted tool calls").unwrap_or_else(|| panic!("it is not told: {said}"));
    let told = told.split("\n## ").next().unwrap_or_default();
    assert!(told.contains("were not repeated"), "{told}");
    let call = told.lines().find(|line| line.starts_with("- Bash: ")).unwrap_or_else(|| panic!("{told}"));
    assert!(call.contains(command), "{call}");
    assert!(!told.contains("made.txt"), "what has a result was not interrupted: {told}");
    assert_eq!(asked.len(), seen + 1);
    assert_eq!(fs::read_to_string(workspace.join("starts")).unwrap(), "started\n");
    assert!(live.processes(&session).is_empty());
}

#[test]
fn after_a_crash_in_a_later_turn_that_turn_is_told_and_not_the_one_of_the_checkpoint() {
    let Some(live) = Live::new() else { return };
    let workspace = live.agent.workspace();
    live.api.then([Reply::text("The first thing is done.")]);
    assert!(live.start("the first thing").wait_with_output().unwrap().status.success());
    let session = live.session();
    let conversation = live.api.exchanges()[0].session.clone().unwrap();
    let command = "echo x > of-the-second; for i in $(seq 6000); do sleep 0.05; done # slowly";
    live.api.then([Reply::of([tool("Bash", json!({ "command": command, "timeout": 600_000 }))])]);
    let mut child = live.resume(&session, "the second thing");
    wait(|| workspace.join("of-the-second").exists().then_some(()));
    wait(|| fs::read_to_string(live.agent.transcript(&conversation)).ok().filter(|said| said.contains("# slowly")));
    // Nobody is left to make a last checkpoint.
    kill(i32::try_from(child.id()).unwrap());
    child.wait().unwrap();
    let agent = Identity::of(live.agent_process()).unwrap();
    kill(agent.process);
    // It takes a moment to be dead.
    wait(|| (!agent.is_alive()).then_some(()));
    live.api.then([Reply::text("I look first.")]);
    let seen = live.api.exchanges().len();
    live.expect(&["session", "resume", &session, "--prompt", "Continue from where you left off."]);
    let said = live.api.wait_for(seen + 1).last().unwrap().text();
    // Of what was told at each start, the last.
    let told = said.rsplit("This session (").next().unwrap();
    assert!(told.contains("was interrupted"), "{told}");
    assert!(told.contains("## Current task\nthe second thing\n"), "{told}");
    assert!(told.contains("- Bash: ") && told.contains("# slowly"), "{told}");
    assert!(told.contains("A of-the-second"), "{told}");

    // A prompt of ours is no task.
    live.api.then([Reply::text("And again.")]);
    let seen = live.api.exchanges().len();
    live.expect(&["session", "resume", &session, "--prompt", "go on"]);
    let said = live.api.wait_for(seen + 1).last().unwrap().text();
    let told = said.rsplit("This session (").next().unwrap();
    assert!(told.contains("## Current task\nthe second thing\n") && !told.contains("was interrupted"), "{told}");
}

/// An agent in name. Its first start says what is in the file `first`, and ends; a later one asks for what it should know, and ends.
const AGENT: &str = r#"if test $how = startup; then
    cat '@first' >> "$transcript"
    event SessionStart startup
    test ! -e '@stay' || exec sleep 100000
else
    event SessionStart $how > '@told'
    event SessionStart clear > '@cleared'
fi
"#;

/// A session `work` of that agent, in a repository.
struct Work {
    scratch: Scratch,
    workspace: PathBuf,
    project: PathBuf,
}

fn line(fields: Value) -> String {
    format!("{fields}\n")
}

fn prompt(text: &str) -> String {
    line(json!({ "type": "user", "uuid": "u", "message": { "role": "user", "content": text } }))
}

fn reply(block: Value, stop: &str) -> String {
    let message = json!({ "id": "m", "model": "m", "role": "assistant", "content": [block], "stop_reason": stop });
    line(json!({ "type": "assistant", "uuid": "a", "message": message }))
}

impl Work {
    /// Its agent has said this, and has ended.
    fn new(said: &str) -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.path("work");
        write(&workspace.join("src/lib.rs"), b"one\n").unwrap();
        let slug = workspace.to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let project = scratch.path("home/.claude/projects").join(slug);
        fs::create_dir_all(&project).unwrap();
        let mut script = [scripted::HOOKED, AGENT]
            .concat()
            .replace("@project", &project.to_string_lossy())
            .replace("@parhelia", &binary().to_string_lossy());
        for name in ["work", "first", "told", "cleared", "stay"] {
            script = script.replace(&format!("@{name}"), &scratch.path(name).to_string_lossy());
        }
        write_program(&scratch.path("bin/claude"), &script);
        let work = Work { scratch, workspace, project };
        work.git(&["init", "-q"]);
        work.commit("first");
        // As it is before the agent does anything.
        work.begin("work", said);
        work
    }

    /// Begins a session whose agent says this, and ends.
    fn begin(&self, name: &str, said: &str) {
        fs::write(self.scratch.path("first"), said).unwrap();
        let (program, place) = (self.scratch.path("bin/claude"), self.workspace.to_string_lossy().into_owned());
        self.scratch.expect(0, &["session", "run", "--name", name, "--workspace", &place, "--", &program.to_string_lossy()]);
    }

    /// The records of a tool that has written a file.
    fn wrote(&self, path: &str) -> String {
        let input = json!({ "file_path": self.workspace.join(path), "content": "new\n" });
        let call = reply(json!({ "type": "tool_use", "id": path, "name": "Write", "input": input }), "tool_use");
        let result = json!([{ "type": "tool_result", "tool_use_id": path, "content": "written" }]);
        call + &line(json!({ "type": "user", "uuid": "r", "message": { "role": "user", "content": result } }))
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.workspace).args(arguments).env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
        for (name, value) in [("NAME", "n"), ("EMAIL", "e@x")] {
            command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
    }

    /// Appends lines to the agent's conversation behind everybody's back.
    fn says(&self, lines: &str) {
        let path = fs::read_dir(&self.project).unwrap().flatten().map(|entry| entry.path()).find(|path| path.is_file()).unwrap();
        File::options().append(true).open(path).unwrap().write_all(lines.as_bytes()).unwrap();
    }

    fn write(&self, path: &str, text: &str) {
        write(&self.workspace.join(path), text.as_bytes()).unwrap();
    }

    fn create(&self, session: &str) {
        self.scratch.expect(0, &["checkpoint", "create", session, "--workspace", &self.workspace.to_string_lossy()]);
    }

    /// Resumes, and returns what the agent is told.
    fn told(&self) -> String {
        self.told_to("work")
    }

    fn told_to(&self, session: &str) -> String {
        self.scratch.expect(0, &["session", "resume", session]);
        let answer: Value = serde_json::from_slice(&fs::read(self.scratch.path("told")).unwrap()).unwrap();
        answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
    }
}

#[test]
fn what_is_told_is_of_now_and_not_of_the_checkpoint() {
    let done = prompt("the first thing") + &reply(json!({ "type": "text", "text": "Done." }), "end_turn");
    let work = Work::new(&done);
    let told = work.told();
    assert!(told.contains("## Current task\nthe first thing\n") && !told.contains("interrupted"), "{told}");
    assert!(!told.contains("## Changes"), "{told}");

    let call = json!({ "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "make slowly" } });
    let queued = json!({ "type": "queue-operation", "operation": "enqueue", "content": "and then the docs" });
    work.says(&(prompt("the second thing") + &reply(call, "tool_use") + &line(queued)));
    work.write("src/new.rs", "new\n");
    let told = work.told();
    for part in [
        "was interrupted and is resumed",
        "## Current task\nthe second thing\n",
        "- Bash: {\"command\":\"make slowly\"}\n",
        "the agent was gone before it took them up\n- and then the docs\n",
        "## Uncommitted (git)\n- src/new.rs\n",
        "since the checkpoint\nA src/new.rs",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(fs::read_to_string(work.scratch.path("cleared")).unwrap(), "", "nothing of what was cleared comes back");
}

#[test]
fn sources_are_told_before_what_programs_write_and_nothing_of_gits_own() {
    let work = Work::new(&prompt("commit a lot"));
    for n in 0..60 {
        work.write("src/lib.rs", &format!("version {n}\n"));
        work.write(&format!("build/out{n:02}.txt"), "made\n");
        work.commit("more");
    }
    work.create("work");
    let told = work.told();
    let (_, changes) = told.split_once("## Changes in this session\n").unwrap_or_else(|| panic!("{told}"));
    assert!(changes.starts_with("M src/lib.rs +1 -1\nA build/out00.txt"), "{changes}");
    assert!(!told.contains(".git/"), "{told}");
}

#[test]
fn a_rollback_behind_a_commit_is_told_with_the_head_that_there_is() {
    let work = Work::new(&prompt("do it"));
    let then = work.git(&["rev-parse", "HEAD"]);
    work.write("src/lib.rs", "two\n");
    work.commit("second");
    let now = work.git(&["rev-parse", "HEAD"]);
    let relation = format!("({}) is 1 commit newer than", &now[..12]);
    let said = work.scratch.expect(0, &["checkpoint", "rollback", "work@latest", "--yes"]);
    assert!(said.contains(&relation) && said.contains(&then[..12]), "{said}");
    let told = work.told();
    for part in ["was rolled back to checkpoint", &relation, &format!(" at {}", &now[..12]), "## Uncommitted (git)\n- src/lib.rs"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_rollback_that_was_undone_is_told_as_that() {
    let work = Work::new(&prompt("do it"));
    work.write("src/lib.rs", "two\n");
    work.scratch.expect(0, &["checkpoint", "rollback", "work@latest", "--yes"]);
    work.scratch.expect(0, &["checkpoint", "undo", "work", "--yes"]);
    let told = work.told();
    assert!(told.contains("A rollback of the session was undone") && !told.contains("was rolled back"), "{told}");
    assert!(!told.contains("since the checkpoint"), "the checkpoint is what came back: {told}");
}

#[test]
fn a_file_is_another_sessions_only_if_its_agent_has_written_it() {
    let work = Work::new(&prompt("mine"));
    work.says(&work.wrote("src/mine.rs"));
    // Checkpoints of the folder itself are nobody's work.
    work.create("folder");
    work.begin("other", &(prompt("theirs") + &work.wrote("src/theirs.rs")));
    for path in ["mine", "theirs", "unknown"] {
        work.write(&format!("src/{path}.rs"), "new\n");
    }
    for session in ["folder", "other", "work"] {
        work.create(session);
    }
    for (session, own, others) in [("work", "mine", "theirs"), ("other", "theirs", "mine")] {
        let told = work.told_to(session);
        let (_, changes) = told.split_once("## Changes in this session\n").unwrap_or_else(|| panic!("{told}"));
        let changes = changes.split("\n## ").next().unwrap();
        assert!(changes.contains(&format!("A src/{own}.rs")) && !changes.contains(others), "{session}: {changes}");
        assert!(changes.contains("A src/unknown.rs"), "{session}: {changes}");
        assert!(told.contains(&format!("may have changed them, too): src/{others}.rs\n")), "{session}: {told}");
        assert_eq!(told.matches("may also be those of session").count(), 1, "{session}: {told}");
        assert!(told.contains("in this folder: src/unknown.rs\n"), "{session}: {told}");
    }
}

#[test]
fn files_of_an_agent_alone_are_its_own_whoever_made_checkpoints_of_the_folder() {
    let work = Work::new(&prompt("mine"));
    work.create("folder");
    work.write("src/by_command.rs", "new\n");
    work.create("folder");
    let told = work.told();
    assert!(told.contains("## Changes in this session\nA src/by_command.rs"), "{told}");
    assert!(!told.contains("another session") && !told.contains("may also be"), "{told}");
}

#[test]
fn uncommitted_files_that_are_gone_are_said_to_be_and_git_names_the_others() {
    let work = Work::new(&prompt("mine"));
    fs::remove_file(work.workspace.join("src/lib.rs")).unwrap();
    for n in 10..30 {
        work.write(&format!("new/{n}"), "new\n");
    }
    let told = work.told();
    assert!(told.contains("## Uncommitted (git)\n- src/lib.rs (deleted)\n- new/10\n"), "{told}");
    let (_, command) = told.split_once("- Uncommitted (git): 9 more: `").unwrap_or_else(|| panic!("{told}"));
    let command = command.split('`').next().unwrap();
    let output = Command::new("sh").args(["-c", command]).env("HOME", "/nonexistent").output().unwrap();
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains(" D src/lib.rs\n") && listed.contains("?? new/29\n"), "{command}: {listed}");
    assert_eq!(listed.lines().count(), 21, "{listed}");
}

#[test]
fn who_was_asked_to_end_is_not_told_that_it_was_interrupted() {
    let done = prompt("the first thing") + &reply(json!({ "type": "text", "text": "Done." }), "end_turn");
    let work = Work::new(&done);
    fs::write(work.scratch.path("stay"), "").unwrap();
    fs::write(work.scratch.path("first"), &done).unwrap();
    let (program, place) = (work.scratch.path("bin/claude"), work.workspace.to_string_lossy().into_owned());
    for is_asked in [true, false] {
        let name = if is_asked { "asked" } else { "killed" };
        let mut run = work.scratch.command(&["session", "run", "--name", name, "-w", &place, "--", &program.to_string_lossy()]);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let process = wait(|| {
            let shown = work.scratch.run(&["session", "show", name, "--json"]);
            let text = String::from_utf8_lossy(&shown.stdout).into_owned();
            let objects: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            // Its start is over once its hook has told its conversation.
            let has_told = objects.iter().any(|one| one["conversations"].as_array().is_some_and(|known| !known.is_empty()));
            objects.iter().find(|one| one["type"] == "run").filter(|_| has_told)?["pid"].as_i64()
        });
        match is_asked {
            true => drop(work.scratch.expect(0, &["session", "stop", name])),
            false => kill(i32::try_from(process).unwrap()),
        }
        run.wait().unwrap();
        let told = work.told_to(name);
        assert_eq!(told.contains("was interrupted"), !is_asked, "{told}");
        assert!(!told.contains("nobody saw how"), "its supervisor has seen it: {told}");
    }
}

#[test]
fn a_conversation_that_has_become_shorter_is_said_at_the_checkpoint() {
    let said = |text: &str| reply(json!({ "type": "text", "text": text }), "end_turn");
    let work = Work::new(&(prompt("the first thing") + &said("Done.") + &prompt("the second thing") + &said("Done, too.")));
    let create = || work.scratch.expect(0, &["checkpoint", "create", "work", "--workspace", &work.workspace.to_string_lossy()]);
    assert!(!create().contains("an older copy"));
    let path = fs::read_dir(&work.project).unwrap().flatten().map(|entry| entry.path()).find(|path| path.is_file()).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    let shorter = whole.lines().next().unwrap().to_owned() + "\n";
    fs::write(&path, &shorter).unwrap();
    let warned = create();
    let kept = format!("has {} bytes, and had {} in checkpoint", shorter.len(), whole.len());
    assert!(warned.contains(&kept) && warned.contains("an older copy"), "{warned}");
    assert!(!create().contains("an older copy"), "it is said once");
}

#[test]
fn a_rollback_of_the_conversation_alone_says_what_it_changes() {
    let said = |text: &str| reply(json!({ "type": "text", "text": text }), "end_turn");
    let work = Work::new(&(prompt("the first thing") + &said("Done.")));
    work.says(&(prompt("the second thing") + &said("Done, too.")));
    let shown = work.scratch.expect(0, &["checkpoint", "rollback", "work@latest", "--dry-run"]);
    for part in [
        "the files are as they are in the checkpoint",
        "the conversation goes back to 1 turn, the last \"the first thing\"",
        "(1 turn, the last \"the second thing\") is kept aside",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
