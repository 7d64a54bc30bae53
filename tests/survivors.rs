//! Agents that outlive what started them: whose events their last ones are, and what they are said to be.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use parhelia_ledger::{LedgerView as _, Run, Session, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
};
use parhelia_tests::{
    Scratch,
    live::{kill, kill_noted, lives, shown, wait},
    write, write_program,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const CONVERSATION: &str = "5b9d1f6e-57c0-4f0e-9a55-6f8f1f8c0b33";

/// A session whose program starts an agent, which runs hooks at its start and, when it is told to end, at its end.
struct Work {
    scratch: Scratch,
}

impl Work {
    fn new() -> Self {
        let scratch = Scratch::new();
        write(&scratch.path("work/file"), b"as it was").unwrap();
        // A shell that looks like the agent. By another process: what is forked here meanwhile would hold it open for writing.
        let shell = fs::canonicalize("/bin/sh").unwrap();
        assert!(Command::new("cp").arg(shell).arg(scratch.path("claude")).status().unwrap().success());
        Work { scratch }
    }

    fn at(&self, name: &str) -> String {
        self.scratch.path(name).to_string_lossy().into_owned()
    }

    /// A script for the shell that looks like the agent.
    fn agent(&self, name: &str) -> String {
        let ours = self.scratch.command(&["hook"]);
        let hook = |event: &str| {
            let path = self.scratch.path(&format!("{name}-{event}"));
            let conversation = if name == "agent" { CONVERSATION } else { "5b9d1f6e-57c0-4f0e-9a55-6f8f1f8c0b44" };
            let fields = json!({
                "hook_event_name": event, "session_id": conversation, "cwd": self.scratch.path("work"), "source": "startup", "reason": "other",
            });
            fs::write(&path, fields.to_string()).unwrap();
            format!("{} hook < {}", ours.get_program().display(), path.display())
        };
        let (start, end) = (hook("SessionStart"), hook("SessionEnd"));
        let file = self.at(name);
        format!(
            "trap '{end}; exit 143' TERM\n{start}\necho $$ > {file}.new; mv {file}.new {file}\nwhile :; do sleep 0.05; done\n"
        )
    }

    /// Starts a program under `session run`; the second time it ends at once.
    fn start(&self, script: &str) -> Child {
        let again = self.at("again");
        let program = format!("#!/bin/sh\ntest -e {again} && exit 0\ntouch {again}\necho $$ > {}\n{script}", self.at("program"));
        write_program(&self.scratch.path("program.sh"), &program);
        let arguments = ["session", "run", "--name", "work", "--workspace", &self.at("work"), "--", &self.at("program.sh")];
        self.scratch.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn number(&self, name: &str) -> i32 {
        wait(|| fs::read_to_string(self.scratch.path(name)).ok()?.trim().parse().ok())
    }

    /// Kills the program and what supervises it.
    fn crash(&self, supervisor: &mut Child) {
        supervisor.kill().unwrap();
        supervisor.wait().unwrap();
        let program = self.number("program");
        kill(program);
        wait(|| (!lives(program)).then_some(()));
    }

    fn store(&self) -> Store {
        parhelia_ledger::open(&self.scratch.store(), &Default::default()).unwrap()
    }

    /// The runs, in the order in which they began.
    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = self.store().view().runs().unwrap().into_values().collect();
        runs.sort_by_key(|run| run.epoch);
        runs
    }

    fn sessions(&self) -> Vec<Session> {
        self.store().view().sessions().unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.path("home/.local/state/parhelia/hook.log")).unwrap_or_default()
    }

    fn session(&self) -> Value {
        let output = self.scratch.run(&["session", "list", "--json"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        kill_noted(&self.scratch, &["agent", "child", "program"]);
    }
}

#[test]
fn an_agent_that_outlives_the_script_which_started_it_is_alive_and_ends_its_own_run() {
    let work = Work::new();
    write(&work.scratch.path("agent.sh"), work.agent("agent").as_bytes()).unwrap();
    let mut supervisor = work.start(&format!("{} {}; exit 0\n", work.at("claude"), work.at("agent.sh")));
    let agent = work.number("agent");
    work.crash(&mut supervisor);
    let listed = work.session();
    assert_eq!((&listed["observed"], &listed["unsupervised"]["process"]), (&json!("live"), &json!(agent)), "{listed}");
    assert_eq!(listed["unsupervised"]["has_hooks"], true, "{listed}");
    let text = work.scratch.expect(0, &["session", "resume", "work"]);
    assert!(text.contains(&format!("is alive already (process {agent})")), "{text}");
    kill_process(Pid::from_raw(agent).unwrap(), Signal::TERM).unwrap();
    let run = wait(|| work.runs().pop().filter(|run| !run.is_open()));
    assert_eq!((run.exit_reason.as_deref(), work.runs().len()), (Some("session end: other"), 1));
    assert_eq!(work.sessions().len(), 1);
    work.scratch.expect(0, &["session", "resume", "work"]);
    assert_eq!(work.runs().len(), 2);
}

#[test]
fn the_end_of_an_agent_that_a_resume_stops_is_not_that_of_the_new_run() {
    let work = Work::new();
    write(&work.scratch.path("agent.sh"), work.agent("agent").as_bytes()).unwrap();
    let mut supervisor = work.start(&format!("{} {}; exit 0\n", work.at("claude"), work.at("agent.sh")));
    let agent = work.number("agent");
    work.crash(&mut supervisor);
    // As where its first event could not be recorded.
    let first = work.runs().remove(0);
    let unknown = NewEvent::new(kind::RUN_CHANGED, &first.id, Actor::default()).in_epoch(first.epoch);
    work.store().append_events(&[unknown.with("hooked_agent", Value::Null)], &()).unwrap();
    assert_eq!(work.session()["observed"], "dead");
    let resumed = work.scratch.run(&["session", "resume", "work"]);
    assert!(resumed.status.success(), "{}", shown(&resumed));
    assert!(shown(&resumed).contains(&format!("process {agent} (")) && !lives(agent), "{}", shown(&resumed));
    wait(|| work.log().contains("SessionEnd: ").then_some(()));
    let reasons = || work.runs().into_iter().map(|run| run.exit_reason.unwrap_or_default()).collect::<Vec<_>>();
    let reasons =
        wait(|| Some(reasons()).filter(|reasons| reasons.len() == 2 && reasons.iter().all(|reason| !reason.is_empty())));
    // Where the next run has begun before the hook was heard, nothing says why the first one ended; it is never the end of the next one.
    let is_told = ["session end: other", "its process is gone, and nothing says why"].contains(&&*reasons[0]);
    assert!(is_told && reasons[1] == "ended with exit code 0", "{reasons:?}");
    assert_eq!(work.sessions().len(), 1);
}

#[test]
fn what_a_tool_has_started_makes_no_session_when_it_is_stopped() {
    let work = Work::new();
    for name in ["agent", "child"] {
        write(&work.scratch.path(&format!("{name}.sh")), work.agent(name).as_bytes()).unwrap();
    }
    // The agent's tool starts another agent, in the background, and ends.
    let claude = work.at("claude");
    let tool = format!("CLAUDECODE=1 setsid {claude} {} < /dev/null > /dev/null 2>&1 &", work.at("child.sh"));
    let mut supervisor =
        work.start(&format!("exec {claude} -c '{tool}\necho $$ > {}; while :; do sleep 0.05; done'\n", work.at("agent")));
    let child = work.number("child");
    work.crash(&mut supervisor);
    let resumed = work.scratch.run(&["session", "resume", "work"]);
    assert!(resumed.status.success(), "{}", shown(&resumed));
    assert!(!lives(child), "{}", shown(&resumed));
    wait(|| work.log().contains("SessionEnd: ").then_some(()));
    let names: Vec<String> = work.sessions().into_iter().map(|session| session.id).collect();
    assert_eq!((names.len(), work.runs().len()), (1, 2), "{names:?}: {}", work.log());
}
