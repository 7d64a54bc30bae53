//! The same story, short and in one order, with the real agent.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Child};

use parhelia_tests::{
    Files,
    agent::{Reply, text, tool},
    files_in,
    live::{Live, kill, lives, shown, wait},
};
use serde_json::json;

struct Story {
    live: Live,
    session: String,
    workspace: PathBuf,
    /// Checkpoints that were seen as saved.
    saved: BTreeMap<String, Files>,
}

impl Story {
    /// A session whose first turn has written a file.
    fn begin() -> Option<Self> {
        let live = Live::new()?;
        let workspace = live.agent.workspace();
        live.api.then([write(&workspace.join("one.txt"), "first"), Reply::text("One is written.")]);
        let output = live.start("write one").wait_with_output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        let session = live.session();
        Some(Story { live, session, workspace, saved: BTreeMap::new() })
    }

    /// The newest checkpoint, now that nobody writes.
    fn save(&mut self) -> String {
        let newest = self.live.checkpoints(&self.session).remove(0)["id"].as_str().unwrap().to_owned();
        self.saved.insert(newest.clone(), files_in(&self.workspace));
        newest
    }

    /// Goes on with a prompt, to the end of the turn; returns what the API heard first.
    fn ask(&self, prompt: &str, replies: impl IntoIterator<Item = Reply>) -> String {
        self.live.api.then(replies);
        let seen = self.live.api.exchanges().len();
        let output = self.live.resume(&self.session, prompt).wait_with_output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        self.live.api.exchanges()[seen].request["messages"].to_string()
    }

    /// A turn whose tool goes on until somebody kills the agent.
    fn hang(&self, prompt: &str, file: &str) -> Child {
        let command = format!("echo more > {file}; while :; do sleep 1; done");
        self.live.api.then([Reply::of([text("I wait."), tool("Bash", json!({ "command": command, "timeout": 600_000 }))])]);
        let child = self.live.resume(&self.session, prompt);
        wait(|| self.workspace.join(file).exists().then_some(()));
        let conversation = self.live.api.exchanges().last().unwrap().session.clone().unwrap();
        let transcript = self.live.agent.transcript(&conversation);
        wait(|| fs::read_to_string(&transcript).unwrap().contains(file).then_some(()));
        child
    }

    fn requests(&self) -> usize {
        self.live.api.exchanges().len()
    }

    /// Every state that was seen as saved is there.
    fn assert_saved(&self) {
        for (id, files) in &self.saved {
            let to = self.live.store().with_file_name(id);
            self.live.expect(&["checkpoint", "restore", id, "--to", &to.to_string_lossy()]);
            assert!(files_in(&to) == *files, "{id}");
            fs::remove_dir_all(to).unwrap();
        }
    }
}

fn write(path: &std::path::Path, content: &str) -> Reply {
    Reply::of([tool("Write", json!({ "file_path": path, "content": content }))])
}

/// Moves the workspace, and resumes with another configuration folder in the environment.
fn resume_moved(story: &mut Story) {
    let moved = story.workspace.with_file_name("moved");
    fs::rename(&story.workspace, &moved).unwrap();
    story.live.expect(&["session", "move", &story.session, &moved.to_string_lossy()]);
    let other = story.live.store().with_file_name("configuration");
    fs::create_dir(&other).unwrap();
    story.live.api.then([write(&moved.join("three.txt"), "third"), Reply::text("Three is written.")]);
    let mut command = story.live.command(&["session", "resume", &story.session, "--prompt", "write three"]);
    let output = command.env("CLAUDE_CONFIG_DIR", &other).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    assert!(moved.join("three.txt").exists() && !story.workspace.exists());
    assert!(!other.join("projects").exists(), "the conversation went on somewhere else");
    story.workspace = moved;
}

#[test]
fn the_real_agent_is_killed_moved_rolled_back_and_never_acts_unasked() {
    let Some(mut story) = Story::begin() else { return };
    let first = story.save();
    let two = story.workspace.join("two.txt");
    story.ask("write two", [write(&two, "second"), Reply::text("Two is written.")]);
    let second = story.save();

    // A tool leaves something running elsewhere; then power is gone in the middle of another one.
    let elsewhere = story.live.store().with_file_name("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let command =
        format!("cd '{0}' && (setsid sleep 1000 >/dev/null 2>&1 & echo $! > pid.new; mv pid.new pid)", elsewhere.display());
    story.ask("start it", [Reply::of([tool("Bash", json!({ "command": command }))]), Reply::text("It runs.")]);
    let bystander: i32 = wait(|| fs::read_to_string(elsewhere.join("pid")).ok()).trim().parse().unwrap();
    let child = story.hang("wait for ever", "waited.txt");
    kill(story.live.agent_process());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", shown(&output));
    let killed = story.save();

    // Nobody has asked for anything.
    let requests = story.requests();
    let output = story.live.run(&["session", "resume", &story.session]);
    assert_eq!(story.requests(), requests, "an agent acted unasked: {}", shown(&output));

    // What it is told when somebody asks.
    let told = story.ask("what now?", [Reply::text("I see.")]);
    assert!(told.contains("wait for ever") && told.contains("Interrupted tool calls"), "{told}");

    // Back, while it lives, and forth again.
    let child = story.hang("and wait again", "again.txt");
    story.live.expect(&["checkpoint", "rollback", &first, "--stop", "--yes"]);
    child.wait_with_output().unwrap();
    assert!(files_in(&story.workspace) == story.saved[&first]);
    let told = story.ask("where are we?", [Reply::text("At the first turn.")]);
    assert!(told.contains("rolled back") && !told.contains("write two"), "{told}");
    story.live.expect(&["checkpoint", "undo", &story.session, "--yes"]);
    assert!(two.exists() && story.workspace.join("again.txt").exists());

    // The folder moves; whoever resumes has another configuration.
    resume_moved(&mut story);
    story.save();

    // What retention removes, it names; the rest is there.
    let said = story.live.expect(&["session", "prune", &story.session, "--keep-last", "3"]);
    let there: Vec<String> =
        story.live.checkpoints(&story.session).iter().map(|checkpoint| checkpoint["id"].as_str().unwrap().to_owned()).collect();
    for id in [&first, &second, &killed] {
        assert!(there.contains(id) || said.contains(id.as_str()), "{id} is gone without a word: {said}");
    }
    story.saved.retain(|id, _| there.contains(id));
    story.assert_saved();
    assert!(lives(bystander), "a process of another folder was ended");
    kill(bystander);
}
