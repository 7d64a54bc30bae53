//! The environment variables of a session's work: a checkpoint has those of its agent, whoever makes it, and the next agent has them again.

#![cfg(test)]

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Stdio},
};

use parhelia_tests::{
    Scratch,
    live::{kill, shown, wait},
    scripted::AGENT,
    write, write_program,
};
use serde_json::Value;

/// Variables that the work's shell has set, and no other shell.
const OF_THE_WORK: [(&str, &str); 2] = [("NODE_ENV", "production"), ("VIRTUAL_ENV", "/nowhere/ve")];
/// A variable that another shell has set.
const FOREIGN: (&str, &str) = ("GOPATH", "/foreign");

struct Work {
    scratch: Scratch,
}

impl Work {
    /// A workspace whose agents stay until they are ended.
    fn new() -> Self {
        let scratch = Scratch::new();
        write_program(&scratch.path("bin/claude"), AGENT);
        write(&scratch.path("work/file"), b"work").unwrap();
        write(&scratch.path("work/stay"), b"").unwrap();
        Work { scratch }
    }

    fn start(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
        let mut command = self.scratch.command(arguments);
        command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Begins the session, with the variables of the work.
    fn begin(&self) -> Child {
        let (work, agent) = (self.scratch.path("work"), self.scratch.path("bin/claude"));
        let arguments = ["session", "run", "--name", "it", "--workspace", work.to_str().unwrap(), "--", agent.to_str().unwrap()];
        self.start(&arguments, &OF_THE_WORK)
    }

    /// Runs something in the other shell; returns its summary.
    fn elsewhere(&self, arguments: &[&str]) -> Value {
        let mut command = self.scratch.command(&[&["--json"], arguments].concat());
        let output =
            command.current_dir(self.scratch.path("work")).env(FOREIGN.0, FOREIGN.1).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", shown(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }

    /// The process of the live agent, once it has begun its turn.
    fn agent(&self) -> i32 {
        let sessions = self.scratch.path("home/.claude/sessions");
        let file = |process: i64| sessions.join(format!("{process}.json"));
        wait(|| {
            let shown = self.scratch.command(&["--json", "session", "show", "it"]).output().unwrap();
            let lines = String::from_utf8(shown.stdout).unwrap();
            let mut runs =
                lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(|v| v["type"] == "run");
            let process = runs.rfind(|run| run["ended_at"].is_null())?["pid"].as_i64()?;
            file(process).exists().then_some(process as i32)
        })
    }

    /// Kills the agent, and waits for the last checkpoint of its run.
    fn kill(&self, supervisor: &mut Child) {
        let agent = self.agent();
        let waited_for = fs::read_to_string(format!("/proc/{agent}/task/{agent}/children")).unwrap();
        kill(agent);
        waited_for.split_whitespace().for_each(|process| kill(process.parse().unwrap()));
        supervisor.wait().unwrap();
    }

    /// The variables that a checkpoint has.
    fn kept(&self, checkpoint: &str) -> BTreeMap<String, String> {
        let shown = self.scratch.expect(0, &["--json", "env", "show", checkpoint]);
        let first: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
        serde_json::from_value(first["variables"].clone()).unwrap_or_else(|_| panic!("{shown}"))
    }

    /// Asserts that a checkpoint has the work's variables, and nothing of the other shell.
    fn has_the_works(&self, checkpoint: &str) {
        let kept = self.kept(checkpoint);
        for (name, value) in OF_THE_WORK {
            assert_eq!(kept.get(name).map(String::as_str), Some(value), "{checkpoint}: {kept:?}");
        }
        assert_eq!(kept.get(FOREIGN.0), None, "{checkpoint}");
    }
}

/// The variables that a process was started with.
fn started_with(process: i32) -> BTreeMap<String, String> {
    let bytes = fs::read(Path::new("/proc").join(process.to_string()).join("environ")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    text.split('\0').filter_map(|word| word.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
}

#[test]
fn a_live_agents_variables_are_in_every_checkpoint() {
    let work = Work::new();
    let mut supervisor = work.begin();
    work.agent();
    work.elsewhere(&["checkpoint", "create", "it"]);
    work.has_the_works("it@latest");
    work.elsewhere(&["session", "pause", "it"]);
    work.has_the_works("it@latest");
    write(&work.scratch.path("work/file"), b"changed").unwrap();
    let back = work.elsewhere(&["checkpoint", "rollback", "it@latest", "--yes", "--stop"]);
    work.has_the_works(back["safety"].as_str().unwrap_or_else(|| panic!("{back}")));
    supervisor.wait().unwrap();
}

#[test]
fn variables_outlast_one_death_after_another() {
    let work = Work::new();
    let mut supervisor = work.begin();
    work.kill(&mut supervisor);
    for round in 0..3 {
        work.has_the_works("it@latest");
        // Nothing sets them any more but the session.
        let mut supervisor = work.start(&["session", "resume", "it"], &[]);
        let agents = started_with(work.agent());
        for (name, value) in OF_THE_WORK {
            assert_eq!(agents.get(name).map(String::as_str), Some(value), "round {round}");
        }
        work.kill(&mut supervisor);
    }
}

#[test]
fn a_dead_sessions_checkpoints_keep_its_variables() {
    let work = Work::new();
    let mut supervisor = work.begin();
    work.kill(&mut supervisor);
    work.elsewhere(&["checkpoint", "create", "it"]);
    work.has_the_works("it@latest");
    write(&work.scratch.path("work/file"), b"changed").unwrap();
    work.elsewhere(&["checkpoint", "rollback", "it@latest", "--yes"]);
    work.elsewhere(&["checkpoint", "undo", "it", "--yes"]);
    let mut supervisor = work.start(&["session", "resume", "it"], &[]);
    let agents = started_with(work.agent());
    assert_eq!(agents.get("NODE_ENV").map(String::as_str), Some("production"));
    assert_eq!(agents.get(FOREIGN.0), None);
    work.kill(&mut supervisor);
}
