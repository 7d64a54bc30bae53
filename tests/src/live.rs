//! Sessions of the real agent under the real binary.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use parhelia_agent::process::{Owner, Process, found};
use parhelia_host::state::state_bytes;
use parhelia_ledger::{LedgerView as _, selector::find};
use parhelia_store::{Store, record::Checkpoint};
use serde_json::Value;

use crate::{
    Scratch,
    agent::{Agent, Api},
    binary, lines, make_store,
};

/// An agent, the API that it talks to, and a store.
#[derive(Debug)]
pub struct Live {
    /// The agent.
    pub agent: Agent,
    /// The API that it talks to.
    pub api: Api,
    store: tempfile::TempDir,
}

impl Live {
    /// A new one; none where the agent CLI cannot be had.
    pub fn new() -> Option<Self> {
        let api = Api::start([]);
        let agent = Agent::new(&api)?;
        let store = tempfile::tempdir().unwrap_or_else(|e| panic!("no folder for a store: {e}"));
        Some(Live { agent, api, store })
    }

    /// The same with a newer release of the agent, which writes down what a conversation has cost.
    pub fn newer() -> Option<Self> {
        let api = Api::start([]);
        let agent = Agent::newer(&api)?;
        let store = tempfile::tempdir().unwrap_or_else(|e| panic!("no folder for a store: {e}"));
        Some(Live { agent, api, store })
    }

    /// The store.
    pub fn store(&self) -> PathBuf {
        self.store.path().join("store")
    }

    /// A command line of ours, in the agent's environment and workspace.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        make_store(&self.store());
        let mut command = Command::new(binary());
        command.args(arguments).env_clear().envs(self.agent.environment()).env("PARHELIA_STORE", self.store());
        command.current_dir(self.agent.folder()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command line to its end.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Output {
        let output = self.command(arguments).output().unwrap_or_else(|e| panic!("cannot run the binary: {e}"));
        lines::ensure(arguments, &output);
        output
    }

    /// Runs a command line that must succeed; returns what it printed, standard error behind standard output.
    pub fn expect<S: AsRef<OsStr> + std::fmt::Debug>(&self, arguments: &[S]) -> String {
        let output = self.run(arguments);
        let text = shown(&output);
        assert!(output.status.success(), "{arguments:?}: {text}");
        text
    }

    /// Lines of JSON of one type that a command line prints.
    pub fn objects(&self, arguments: &[&str], kind: &str) -> Vec<Value> {
        let mut all = arguments.to_vec();
        all.push("--json");
        let output = self.run(&all);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["type"] == kind).collect()
    }

    /// Starts an agent under `session run`, headless, with a prompt.
    pub fn start(&self, prompt: &str) -> Child {
        let workspace = self.agent.workspace();
        let program = self.agent.program().to_string_lossy().into_owned();
        let mut arguments = vec!["session".into(), "run".into(), "--workspace".into(), workspace.to_string_lossy().into_owned()];
        arguments.extend(["--".into(), program]);
        arguments.extend(Agent::headless(prompt));
        self.command(&arguments).spawn().unwrap_or_else(|e| panic!("cannot run the binary: {e}"))
    }

    /// Starts to resume a session; its agent is told something first.
    pub fn resume(&self, session: &str, prompt: &str) -> Child {
        let mut command = self.command(&["session", "resume", session, "--prompt", prompt]);
        command.spawn().unwrap_or_else(|e| panic!("cannot run the binary: {e}"))
    }

    /// The checkpoints of a session, newest first.
    pub fn checkpoints(&self, session: &str) -> Vec<Value> {
        self.objects(&["checkpoint", "list", session], "checkpoint")
    }

    /// The output of `session show` for a session.
    pub fn shown(&self, session: &str) -> Value {
        let found = self.objects(&["session", "show", session], "session").into_iter().next();
        found.unwrap_or_else(|| panic!("no session {session}"))
    }

    /// The record of a checkpoint.
    pub fn record(&self, checkpoint: &str) -> Checkpoint {
        find(&self.opened().view(), checkpoint).unwrap_or_else(|e| panic!("{checkpoint}: {e}"))
    }

    /// A file that a checkpoint has beside its workspace.
    pub fn state(&self, checkpoint: &str, path: &str) -> Vec<u8> {
        let bytes = state_bytes(&self.opened(), &self.record(checkpoint), path).unwrap_or_else(|e| panic!("{path}: {e}"));
        bytes.unwrap_or_else(|| panic!("checkpoint {checkpoint} has no {path}"))
    }

    /// The live processes of all runs of a session.
    pub fn processes(&self, session: &str) -> Vec<Process> {
        let known = self.opened().view().session(session).unwrap_or_else(|e| panic!("{session}: {e}"));
        let runs = known.map(|session| session.runs).unwrap_or_default();
        let of =
            |run: &String| found(run, &Default::default(), &self.agent.workspace()).unwrap_or_else(|e| panic!("run {run}: {e}"));
        runs.iter().flat_map(of).filter(|found| found.owner == Owner::Run).collect()
    }

    fn opened(&self) -> Store {
        parhelia_ledger::open(&self.store(), &Default::default()).unwrap_or_else(|e| panic!("no store: {e}"))
    }

    /// The session's id: of the newest checkpoint.
    pub fn session(&self) -> String {
        let newest = self.objects(&["checkpoint", "list"], "checkpoint").into_iter().next();
        newest.and_then(|checkpoint| checkpoint["session"].as_str().map(str::to_owned)).unwrap_or_else(|| panic!("no checkpoint"))
    }

    /// The number of the agent's process, once it has one.
    pub fn agent_process(&self) -> i32 {
        let folder = self.agent.config().join("sessions");
        wait(|| {
            let entries = fs::read_dir(&folder).ok()?.flatten();
            let numbers = entries.filter_map(|entry| entry.path().file_stem()?.to_str()?.parse::<i32>().ok());
            numbers.filter(|number| lives(*number)).max()
        })
    }
}

/// Everything that a program printed.
pub fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Waits for something that another process does, for up to a minute.
pub fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "what was waited for did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a process, as a crash would.
pub fn kill(process: i32) {
    let pid = rustix::process::Pid::from_raw(process).unwrap_or_else(|| panic!("no process {process}"));
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap_or_else(|e| panic!("cannot kill {process}: {e}"));
}

/// True if a process has not ended. One that only waits for its parent to notice (a zombie) has.
pub fn lives(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// True if somebody holds a lock of a file. Unlike an attempt to take it, that keeps nobody else out.
pub fn is_locked(file: &Path) -> bool {
    let Ok(metadata) = fs::metadata(file) else { return false };
    let inode = format!(":{} ", metadata.ino());
    fs::read_to_string("/proc/locks").unwrap_or_default().lines().any(|lock| lock.contains(" FLOCK ") && lock.contains(&inode))
}

/// Kills those processes that still live whose numbers scripts have written into files.
pub fn kill_noted(scratch: &Scratch, files: &[&str]) {
    let numbers = files.iter().filter_map(|name| fs::read_to_string(scratch.path(name)).ok()?.trim().parse().ok());
    numbers.filter(|process| lives(*process)).for_each(kill);
}

/// A terminal on which a command line of ours runs.
pub fn on_a_terminal(command: &Command) -> Command {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")))
        .collect();
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &words.join(" "), "/dev/null"]).env_clear();
    script.envs(command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))));
    // Its standard input stays open, so that the terminal does.
    script.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    script
}
