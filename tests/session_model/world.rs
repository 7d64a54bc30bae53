//! The folders, the commands and the steps; and what is known of what somebody saw as saved.

mod steps;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use parhelia_ledger::{LedgerView as _, Session};
use parhelia_store::{OpenOptions, Store};
use parhelia_tests::{
    Files, Scratch, clock, files_in,
    live::{kill, lives, wait},
    recorder::Dice,
    write,
};
use serde_json::{Value, json};

use super::agent::Agent;

/// Files that are written, in any workspace.
const NAMES: [&str; 6] = ["a", "b", "src/c", "src/d", "docs/deep/e", "f"];
/// The clock of a session's commands is never further off than this, either way.
const DAYS_OFF: u64 = 9;

/// Something that was seen as saved: its workspace, and its files.
pub struct Saved {
    pub files: Files,
    pub session: String,
}

/// One turn of a conversation.
#[derive(Clone, Debug)]
pub struct Turn {
    pub prompt: String,
    /// Tools that were called and have no result.
    pub pending: BTreeSet<String>,
    /// True once the agent has said its last word.
    pub is_done: bool,
}

pub struct World {
    pub agent: Agent,
    dice: Dice,
    /// The agent's workspace; it moves.
    pub workspace: PathBuf,
    moves: u64,
    /// Days by which the commands see the clock wrongly.
    days_off: i64,
    /// True once that has changed.
    pub has_stepped: bool,
    /// The beginning of the run, by a clock that is right.
    pub began: Instant,
    /// Number of times that the machine was started anew.
    boots: u64,
    /// Everything that was asked for, by anybody.
    pub asked: BTreeSet<String>,
    /// Everything that was seen as saved, and is not known to be removed.
    pub saved: BTreeMap<String, Saved>,
    /// Prompts of conversations that were cleared, in the order of their clearing.
    pub cleared: BTreeSet<String>,
    /// Processes that run in folders of their own, started by an agent's tool or by nobody that concerns us.
    pub bystanders: Vec<i32>,
    /// Events of the agents' log that have been judged.
    pub judged: usize,
    /// The order that never ends.
    pub hanging: bool,
    /// The process that stands beside the agent.
    pub supervisor: Option<Child>,
    outputs: u64,
    counter: u64,
    told: Vec<String>,
    /// A program of its own in place of the binary, by which agents are started and which their hooks run.
    pub program: Option<PathBuf>,
    pub scratch: Scratch,
}

impl World {
    pub fn new(dice: Dice) -> Self {
        Self::prepared(dice, |_| None)
    }

    /// A world whose folders somebody has prepared, who may name a program that starts its agents in place of the binary.
    pub fn prepared(dice: Dice, prepare: impl FnOnce(&Scratch) -> Option<PathBuf>) -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.path("job");
        write(&workspace.join("a"), b"first").unwrap();
        write(&scratch.path("other/o"), b"of another folder").unwrap();
        for folder in ["elsewhere", "said", "home", "configuration"] {
            fs::create_dir_all(scratch.path(folder)).unwrap();
        }
        let program = prepare(&scratch);
        let mut world = World {
            agent: Agent::new(&scratch.path("agent")),
            dice,
            workspace,
            moves: 0,
            days_off: 0,
            has_stepped: false,
            began: Instant::now(),
            boots: 0,
            asked: BTreeSet::new(),
            saved: BTreeMap::new(),
            cleared: BTreeSet::new(),
            bystanders: Vec::new(),
            judged: 0,
            hanging: false,
            supervisor: None,
            outputs: 0,
            counter: 0,
            told: Vec::new(),
            program,
            scratch,
        };
        let workspace = world.workspace.to_string_lossy().into_owned();
        let program = world.agent.program().to_string_lossy().into_owned();
        world.start(&["session", "run", "--interval", "0", "--workspace", &workspace, "--", &program], &[]);
        assert!(world.agent.is_alive());
        // A conversation in which nothing was said cannot be gone on with, and one that begins needs a terminal.
        world.ask();
        world
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        self.dice.roll() % below
    }

    /// Notes what happens, for whoever reads of a failure.
    pub fn tell(&mut self, text: impl Into<String>) {
        self.told.push(text.into());
    }

    pub fn story(&self) -> String {
        let all = self.everything_said();
        format!("{}\n\nsaid:\n{all}\n\nlog:\n{}", self.told.join("\n"), self.agent_log())
    }

    fn agent_log(&self) -> String {
        fs::read_to_string(self.agent.folder().join("log")).unwrap_or_default()
    }

    /// Everything that any command has printed, and the log of the hooks.
    pub fn everything_said(&self) -> String {
        let mut files: Vec<_> = fs::read_dir(self.scratch.path("said")).unwrap().flatten().map(|entry| entry.path()).collect();
        files.sort();
        files.push(self.scratch.path("home/.local/state/parhelia/hook.log"));
        files.iter().map(|path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()).collect()
    }

    /// A command as whoever lives in this world gives it: by its clock, and since its last boot.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.scratch.command(arguments);
        command.env("SCRIPT", self.agent.folder()).current_dir(self.scratch.path("home"));
        if self.days_off != 0 {
            command.envs(clock::variables(&format!("{:+}d", self.days_off)));
        }
        if self.boots > 0 {
            command = self.rebooted(&command);
        }
        command
    }

    /// A command that sees another boot than the test's own.
    fn rebooted(&self, command: &Command) -> Command {
        let boot = self.scratch.path("boot");
        fs::write(&boot, format!("00000000-1111-4222-8333-{:012}\n", self.boots)).unwrap();
        let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
        let mut there = Command::new("unshare");
        there.args(["--mount", "sh", "-c", script]).arg(boot).arg(command.get_program()).args(command.get_args());
        as_set_up(&mut there, command);
        there
    }

    /// The file for the next command's output.
    fn output(&mut self) -> (PathBuf, File) {
        self.outputs += 1;
        let path = self.scratch.path(&format!("said/{:05}", self.outputs));
        (path.clone(), File::create(path).unwrap())
    }

    /// Runs a command to its end; returns whether it succeeded, and what it said.
    pub fn run(&mut self, arguments: &[&str]) -> (bool, String) {
        let (path, file) = self.output();
        let mut command = self.command(arguments);
        let status = command.stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
        let said = fs::read_to_string(path).unwrap();
        self.tell(format!("{arguments:?} -> {status}"));
        assert!(!said.contains("panicked"));
        (status.success(), said)
    }

    /// Starts what stands beside an agent; waits until the agent is there, or the command has ended.
    pub fn start(&mut self, arguments: &[&str], variables: &[(&str, PathBuf)]) {
        let (_, file) = self.output();
        let before = self.agent.log().iter().filter(|noted| noted.is("begun")).count();
        self.agent.forget_orders();
        let mut command = self.command(arguments);
        if let Some(program) = &self.program {
            let mut by_it = Command::new(program);
            by_it.args(command.get_args());
            as_set_up(&mut by_it, &command);
            command = by_it;
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let ended = wait(|| {
            let has_begun = self.agent.log().iter().filter(|noted| noted.is("begun")).count() > before;
            has_begun.then_some(None).or_else(|| child.try_wait().unwrap().map(Some))
        });
        self.tell(format!("{arguments:?} -> {}", ended.map_or("an agent".into(), |status| status.to_string())));
        if ended.is_none() {
            self.supervisor = Some(child);
            self.hanging = false;
        }
    }

    /// Waits until the agent's supervisor has ended, too.
    pub fn wait_for_end(&mut self) {
        if let Some(mut supervisor) = self.supervisor.take() {
            wait(|| supervisor.try_wait().unwrap());
        }
        self.hanging = false;
    }

    pub fn opened(&self) -> Store {
        parhelia_ledger::open(&self.scratch.store(), &OpenOptions::default()).unwrap()
    }

    /// The session of the agent's workspace.
    pub fn session(&self) -> Session {
        let sessions = self.opened().view().sessions().unwrap();
        sessions.into_iter().find(|session| !session.runs.is_empty()).unwrap_or_else(|| panic!("no session was run"))
    }

    pub fn number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub fn files_to_write(&mut self) -> Value {
        let mut files = json!({});
        for _ in 0..=self.roll(2) {
            let name = NAMES[self.roll(NAMES.len() as u64) as usize];
            files[name] = json!(format!("{} by number {}", "x".repeat(self.roll(300) as usize), self.number()));
        }
        files
    }

    /// Gives the agent something to do; `more` says how. Returns the order's number.
    fn prompt(&mut self, more: Value) -> Option<u64> {
        if !self.agent.is_alive() || self.hanging {
            return None;
        }
        let prompt = format!("please do number {}.", self.number());
        self.tell(format!("asked: {prompt}"));
        self.asked.insert(prompt.clone());
        let mut order = json!({ "prompt": prompt });
        order.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        Some(self.agent.order(&order))
    }

    fn wait_for(&self, order: u64) {
        wait(|| (self.agent.has_done(order) || !self.agent.is_alive()).then_some(()));
    }

    pub fn ask(&mut self) {
        let files = self.files_to_write();
        if let Some(order) = self.prompt(json!({ "write": files })) {
            self.wait_for(order);
        }
    }

    pub fn ask_for_what_never_ends(&mut self) {
        if let Some(order) = self.prompt(json!({ "hang": "while :; do sleep 1; done" })) {
            self.wait_for(order);
            self.hanging = true;
        }
    }

    /// A tool leaves something running in a folder that is not the session's, with the agent's environment.
    pub fn ask_for_what_outlives_it(&mut self) {
        let number = self.number();
        let file = self.scratch.path(&format!("elsewhere/{number}"));
        let command = format!("echo $$ > '{0}.new'; mv '{0}.new' '{0}'; exec sleep 1000", file.display());
        if let Some(order) = self.prompt(json!({ "start": [[command, self.scratch.path("elsewhere")]] })) {
            self.wait_for(order);
            let process = wait(|| fs::read_to_string(&file).ok()).trim().parse().unwrap();
            self.bystanders.push(process);
        }
    }

    pub fn clear(&mut self) {
        if !self.agent.is_alive() || self.hanging {
            return;
        }
        self.tell("cleared");
        let conversation = self.agent.conversation().unwrap();
        let acted = self.agent.log().into_iter().filter(|noted| noted.is("acted") && noted.text("conversation") == conversation);
        self.cleared.extend(acted.map(|noted| noted.text("prompt").to_owned()).collect::<Vec<_>>());
        let order = self.agent.order(&json!({ "clear": true }));
        self.wait_for(order);
        self.ask();
    }

    /// The turns of a conversation, by its own records.
    pub fn turns(&self, conversation: &str) -> Vec<Turn> {
        let projects = self.scratch.path("home/.claude/projects");
        let folders = fs::read_dir(projects).into_iter().flatten().flatten();
        let mut files = folders.map(|folder| folder.path().join(format!("{conversation}.jsonl"))).filter(|path| path.exists());
        let text = files.next().map(|path| fs::read_to_string(path).unwrap()).unwrap_or_default();
        let mut turns: Vec<Turn> = Vec::new();
        for record in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let content = &record["message"]["content"];
            match record["type"].as_str() {
                Some("user") if content.is_string() => {
                    turns.push(Turn { prompt: content.as_str().unwrap().to_owned(), pending: BTreeSet::new(), is_done: false });
                }
                _ => {
                    let Some(turn) = turns.last_mut() else { continue };
                    match content[0]["type"].as_str() {
                        Some("tool_use") => drop(turn.pending.insert(content[0]["id"].to_string())),
                        Some("tool_result") => drop(turn.pending.remove(&content[0]["tool_use_id"].to_string())),
                        Some("text") => turn.is_done = record["type"] == "assistant",
                        _ => {}
                    }
                }
            }
        }
        turns
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.story());
        }
        let agents = self.agent.log().into_iter().map(|noted| noted.process());
        for process in agents.chain(self.bystanders.iter().copied()).collect::<BTreeSet<_>>() {
            if lives(process) && belongs(process, &self.scratch.path("")) {
                kill(process);
            }
        }
        if let Some(mut supervisor) = self.supervisor.take() {
            let _ = supervisor.kill();
            let _ = supervisor.wait();
        }
    }
}

/// Gives a command the environment and the folder of another one.
fn as_set_up(command: &mut Command, other: &Command) {
    command.env_clear().envs(other.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(other.get_current_dir().unwrap()).stdin(Stdio::null());
}

/// True if a process works somewhere below a folder: its number may have gone to another one.
fn belongs(process: i32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{process}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
}
