//! Processes of a day, as `/proc` has them, and the blow that one of them gets.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parhelia_tests::live::lives;
use rustix::process::{Pid, Signal, kill_process};

use crate::session_model::agent::noted_in;

/// How long a hook is waited for.
const HOOK_LIMIT: Duration = Duration::from_secs(2);

/// A kind of process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `session run` or `session resume`.
    Supervisor,
    /// `hook`, or the process to which it hands its work over.
    Hook,
    /// `serve`.
    Service,
    /// Any other process of ours.
    Command,
    /// An agent, or what it is about to start.
    Agent,
    /// Something that it has started.
    Other,
}

/// The victim of a blow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Agent,
    Supervisor,
    Both,
    Hook,
    Service,
    All,
    /// The program that the hooks run can no longer be read or run.
    HookProgram,
    /// The workspace has another path.
    Workspace,
}

impl Victim {
    pub const ALL: [Victim; 8] = [
        Victim::Agent,
        Victim::Supervisor,
        Victim::Both,
        Victim::Hook,
        Victim::Service,
        Victim::All,
        Victim::HookProgram,
        Victim::Workspace,
    ];
}

/// A blow to come.
pub struct Blow {
    pub victim: Victim,
    pub delay: Duration,
    pub store: PathBuf,
    pub agents: PathBuf,
    pub program: Option<PathBuf>,
    pub workspace: PathBuf,
    pub moved: PathBuf,
}

/// What a blow has done.
#[derive(Clone, Debug, Default)]
pub struct Struck {
    pub agents: Vec<i32>,
    pub supervisors: Vec<i32>,
    pub hooks: Vec<i32>,
    pub others: Vec<i32>,
    pub has_moved: bool,
}

/// The live processes that use a store.
pub fn processes(store: &Path) -> Vec<(i32, What)> {
    let variable = [b"PARHELIA_STORE=".as_slice(), store.as_os_str().as_bytes()].concat();
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let uses = |process: &i32| {
        let variables = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|one| one == variable)
    };
    numbers.filter(|process| lives(*process) && uses(process)).map(|process| (process, what(process))).collect()
}

fn what(process: i32) -> What {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<String> = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let word = |n: usize| words.get(n).map(String::as_str).unwrap_or_default();
    match (word(0).rsplit('/').next().unwrap_or_default(), word(1), word(2)) {
        ("parhelia", "session", "run" | "resume") => What::Supervisor,
        ("parhelia", "hook", _) => What::Hook,
        ("parhelia", "serve", _) => What::Service,
        ("parhelia", ..) => What::Command,
        (_, program, _) if program.ends_with("/agent/bin/claude") => What::Agent,
        _ => What::Other,
    }
}

impl Blow {
    /// Strikes, in a thread, after the delay.
    pub fn strike(self) -> JoinHandle<Struck> {
        thread::spawn(move || {
            thread::sleep(self.delay);
            self.struck()
        })
    }

    fn struck(&self) -> Struck {
        let mut struck = Struck::default();
        match self.victim {
            Victim::Agent => struck.agents = self.kill_agent(),
            Victim::Supervisor => struck.supervisors = self.kill(|what| what == What::Supervisor),
            Victim::Both => {
                struck.supervisors = self.kill(|what| what == What::Supervisor);
                struck.agents = self.kill_agent();
            }
            Victim::Hook => struck.hooks = self.kill_hook(),
            Victim::Service => struck.others = self.kill(|what| what == What::Service),
            Victim::All => {
                // Who is started meanwhile is killed as well.
                for _ in 0..3 {
                    struck.supervisors.extend(self.kill(|what| what == What::Supervisor));
                    struck.agents.extend(self.kill_agent());
                    struck.hooks.extend(self.kill(|what| what == What::Hook));
                    struck.others.extend(self.kill(|_| true));
                }
            }
            Victim::HookProgram => {
                let program = self.program.as_ref().unwrap();
                fs::set_permissions(program, fs::Permissions::from_mode(0o000)).unwrap();
            }
            Victim::Workspace => {
                fs::rename(&self.workspace, &self.moved).unwrap();
                struck.has_moved = true;
            }
        }
        struck
    }

    fn kill(&self, is_victim: impl Fn(What) -> bool) -> Vec<i32> {
        let found = processes(&self.store).into_iter().filter(|(_, what)| is_victim(*what));
        found.map(|(process, _)| process).filter(|process| killed(*process)).collect()
    }

    /// The agent that was started last.
    fn kill_agent(&self) -> Vec<i32> {
        let last = noted_in(&self.agents).into_iter().rev().find(|noted| noted.is("started")).map(|noted| noted.process());
        last.into_iter().filter(|process| lives(*process) && killed(*process)).collect()
    }

    fn kill_hook(&self) -> Vec<i32> {
        let until = Instant::now() + HOOK_LIMIT;
        while Instant::now() < until {
            let found = self.kill(|what| what == What::Hook);
            if !found.is_empty() {
                return found;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Vec::new()
    }
}

/// Kills a process, which may be gone already.
fn killed(process: i32) -> bool {
    Pid::from_raw(process).is_some_and(|process| kill_process(process, Signal::KILL).is_ok())
}
