//! Processes that inherit a run's marker from one of its tools, and are no part of the run any more.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use parhelia_ledger::{LedgerView as _, Run};
use parhelia_tests::{
    Scratch,
    live::{kill, kill_noted, lives, shown, wait},
    write,
};
use serde_json::json;

const CONVERSATION: &str = "5b9d1f6e-57c0-4f0e-9a55-6f8f1f8c0b22";

/// A session whose tool has started a tmux server, with an agent in a pane of it that works in another folder.
struct Work {
    scratch: Scratch,
    workspace: PathBuf,
    other: PathBuf,
}

impl Work {
    fn new() -> Self {
        let scratch = Scratch::new();
        for name in ["work/kept", "other/kept"] {
            write(&scratch.path(name), b"kept").unwrap();
        }
        let [workspace, other] = ["work", "other"].map(|name| scratch.path(name).canonicalize().unwrap());
        // A shell that looks like the agent. By another process: what is forked here meanwhile would hold it open for writing.
        let shell = fs::canonicalize("/bin/sh").unwrap();
        assert!(Command::new("cp").arg(shell).arg(scratch.path("claude")).status().unwrap().success());
        Work { scratch, workspace, other }
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path(name).to_string_lossy().into_owned()
    }

    /// The agent's script in the pane: an event, then once it is told to another one, in its own folder.
    fn pane(&self) -> String {
        let ours = self.scratch.command(&["hook"]);
        let hook = |event: &str| {
            let path = self.scratch.path(event);
            let fields = json!({ "hook_event_name": event, "session_id": CONVERSATION, "cwd": self.other, "source": "startup" });
            fs::write(&path, fields.to_string()).unwrap();
            format!("{} hook < {}", ours.get_program().display(), path.display())
        };
        let (go, start, stop) = (self.path("go"), hook("SessionStart"), hook("Stop"));
        format!("{start}; touch {}; until test -e {go}; do sleep 0.05; done; {stop}; sleep 100000", self.path("started"))
    }

    /// The script of the run's program the first time: tools of every kind, which write down who they are.
    fn script(&self) -> String {
        let left = |name: &str, folder: &Path| {
            let (file, folder) = (self.path(name), folder.display());
            format!("(cd {folder} && setsid sh -c 'echo $$ > {file}; exec sleep 100000' &)")
        };
        let tmux = format!(
            "tmux -S {} -f /dev/null new-session -d -s x -c {} {} -c '{}'",
            self.path("socket"),
            self.other.display(),
            self.path("claude"),
            self.pane()
        );
        let (in_place, elsewhere) = (left("in_place", &self.workspace), left("elsewhere", &self.other));
        let again = self.path("again");
        format!(
            "test -e {again} && exit 0; touch {again}; {in_place}; {elsewhere}; {tmux}; echo $$ > {}; exec sleep 100000",
            self.path("agent")
        )
    }

    fn number(&self, name: &str) -> i32 {
        wait(|| fs::read_to_string(self.scratch.path(name)).ok()?.trim().parse().ok())
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", &self.path("socket")]).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn runs(&self) -> Vec<Run> {
        parhelia_ledger::open(&self.scratch.store(), &Default::default()).unwrap().view().runs().unwrap().into_values().collect()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
        kill_noted(&self.scratch, &["in_place", "elsewhere", "agent"]);
    }
}

#[test]
fn a_tmux_server_that_a_tool_started_outlives_the_run_and_the_agent_in_it_is_captured_as_itself() {
    let work = Work::new();
    let place = work.workspace.to_string_lossy().into_owned();
    let arguments = ["session", "run", "--name", "first", "--workspace", &place, "--", "sh", "-c", &work.script()];
    let mut ours = work.scratch.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (agent, in_place, elsewhere) = (work.number("agent"), work.number("in_place"), work.number("elsewhere"));
    wait(|| work.scratch.path("started").exists().then_some(()));
    let server: i32 = work.tmux(&["display-message", "-p", "#{pid}"]).parse().unwrap();
    // The machine runs out of memory.
    ours.kill().unwrap();
    ours.wait().unwrap();
    kill(agent);
    wait(|| (!lives(agent)).then_some(()));
    let first = work.runs().into_iter().find(|run| run.cwd.as_deref() == Some(&*place)).unwrap();

    // The agent in the pane goes on, in the other folder.
    fs::write(work.scratch.path("go"), "").unwrap();
    let adopted = wait(|| {
        let run = work.runs().into_iter().find(|run| run.cwd.as_deref() == work.other.to_str())?;
        let listed = work.scratch.summary(&["checkpoint", "list", &run.session]);
        (listed["checkpoints"].as_u64() > Some(0)).then_some(run)
    });
    assert_ne!(adopted.session, first.session);
    let restored = work.scratch.path("restored");
    work.scratch.restore(&format!("{}@latest", adopted.session), &restored);
    assert!(restored.join("kept").exists());
    let store = parhelia_ledger::open(&work.scratch.store(), &Default::default()).unwrap();
    let known = store.view().session(&first.session).unwrap().unwrap();
    assert!(known.conversations.is_empty() && known.totals.checkpoints == 1, "that of its start alone: {known:?}");

    let resumed = work.scratch.run(&["session", "resume", &first.session]);
    let text = shown(&resumed);
    assert!(resumed.status.success(), "{text}");
    assert!(!lives(in_place), "what works in the workspace is the run's: {text}");
    assert!(text.contains(&format!("process {in_place} (")) && text.contains("of an earlier run was stopped"), "{text}");
    for (what, process) in [("the tmux server", server), ("a process in another folder", elsewhere)] {
        assert!(lives(process), "{what} was ended: {text}");
        assert!(text.contains(&format!("process {process} (")), "{what} is not named: {text}");
    }
    assert_eq!(work.tmux(&["list-sessions", "-F", "#{session_name}"]), "x");
}
