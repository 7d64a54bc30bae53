//! Knowledge of the test about a day: what the agent's log and the test's own deeds prove.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{SystemTime, UNIX_EPOCH},
};

use parhelia_tests::Files;

use crate::session_model::agent::Noted;

/// One life of the agent.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    pub process: i32,
    /// Time before the command that has started it, and of its own first word.
    pub asked_at: f64,
    pub began: f64,
    /// The last time at which it was known to live, and the first at which it was known to be dead.
    pub alive_at: f64,
    pub dead_at: Option<f64>,
    /// True if it was killed.
    pub is_killed: bool,
    /// True if the process beside it was killed.
    pub is_orphan: bool,
    /// Wishes at which it was asked to end.
    pub asked: BTreeSet<&'static str>,
    /// Exit code with which it has ended by itself.
    pub code: Option<i64>,
    /// Hooks that have returned success.
    pub hooks: BTreeSet<String>,
}

/// What is wanted of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Running,
    Paused,
    /// Whoever was to record it may have been killed.
    Either,
}

/// At most so many files are written in a turn.
const WRITTEN_MAX: usize = 3;

/// Everything that is known.
pub struct Record {
    /// States of the workspace outside of `.git`, in order.
    pub states: Vec<Files>,
    pub launches: Vec<Launch>,
    /// Decisions about checkpoints: true of an approval.
    pub decided: BTreeMap<String, bool>,
    pub tagged: BTreeMap<String, String>,
    pub wanted: Wanted,
    /// The last checkpoint holds this state or a later one.
    pub floor: usize,
    /// It knows so many turns of its conversation.
    pub floor_turns: usize,
    /// Least and greatest number of turns that a checkpoint may have.
    pub turns: BTreeMap<String, (usize, usize)>,
    /// Calls to the agent so far in its conversation.
    acted: usize,
    asked_at: f64,
    read: usize,
    /// Floors as of hooks whose work nobody has disturbed, as far as is known yet.
    hoped: Option<(usize, usize)>,
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Files outside of `.git`.
pub fn own(files: &Files) -> Files {
    files.iter().filter(|(path, _)| !path.starts_with(b".git/")).map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
}

impl Record {
    pub fn new(first: &Files) -> Self {
        Record {
            states: vec![own(first)],
            launches: Vec::new(),
            decided: BTreeMap::new(),
            tagged: BTreeMap::new(),
            wanted: Wanted::Running,
            floor: 0,
            floor_turns: 0,
            turns: BTreeMap::new(),
            acted: 0,
            asked_at: 0.0,
            read: 0,
            hoped: None,
        }
    }

    pub fn launch(&mut self) -> &mut Launch {
        self.launches.last_mut().unwrap()
    }

    /// An agent is going to be started.
    pub fn asks_for_agent_at(&mut self, at: f64) {
        self.asked_at = at;
    }

    /// Takes in what was noted since.
    pub fn take(&mut self, log: &[Noted]) {
        for noted in &log[self.read..] {
            self.take_one(noted);
        }
        self.read = log.len();
    }

    fn take_one(&mut self, noted: &Noted) {
        if noted.is("started") {
            let (process, began) = (noted.process(), noted.number("at"));
            let launch = Launch { process, asked_at: self.asked_at, began, alive_at: began, ..Launch::default() };
            self.launches.push(launch);
        }
        if noted.is("acted") {
            self.acted += 1;
        }
        if noted.is("writes") {
            let mut state = self.states.last().unwrap().clone();
            state.insert(noted.text("name").as_bytes().to_vec(), noted.text("text").as_bytes().to_vec());
            self.states.push(state);
        }
        if noted.is("removes") {
            let mut state = self.states.last().unwrap().clone();
            state.remove(noted.text("name").as_bytes());
            self.states.push(state);
        }
        let process = noted.process();
        let Some(launch) = self.launches.iter_mut().rfind(|launch| launch.process == process) else { return };
        launch.alive_at = launch.alive_at.max(noted.number("at"));
        if noted.is("ends") {
            launch.code = Some(noted.number("code") as i64);
        }
        if noted.is("called") && noted.number("code") == 0.0 {
            let name = noted.text("name").to_owned();
            if name == "UserPromptSubmit" || name == "Stop" {
                self.hoped = Some((self.states.len() - 1, self.acted));
            }
            launch.hooks.insert(name);
        }
    }

    /// The workspace is seen.
    pub fn observe(&mut self, files: &Files) {
        let files = own(files);
        if self.states.last() != Some(&files) {
            self.states.push(files);
        }
    }

    /// The work of hooks is done; it counts where nobody has disturbed it.
    pub fn hooks_are_done(&mut self, is_undisturbed: bool) {
        if let Some((state, turns)) = self.hoped.take().filter(|_| is_undisturbed) {
            (self.floor, self.floor_turns) = (self.floor.max(state), turns);
        }
    }

    /// A checkpoint was made of the last state, by a command that has succeeded.
    pub fn is_saved(&mut self) {
        (self.floor, self.floor_turns) = (self.states.len() - 1, self.acted);
    }

    /// The session has gone back to a checkpoint with this state.
    pub fn goes_back(&mut self, files: &Files, turns: usize) {
        self.states.push(own(files));
        (self.floor, self.floor_turns, self.acted) = (self.states.len() - 1, turns, turns);
        self.hoped = None;
    }

    /// It may have gone back to any checkpoint.
    pub fn is_anywhere(&mut self) {
        (self.floor, self.floor_turns, self.hoped) = (0, 0, None);
    }

    /// The conversation has so many turns, now that nobody works.
    pub fn has_turns(&mut self, turns: usize) {
        self.acted = turns;
    }

    /// True if a state was there, at or behind a place. Whoever reads one file after the other while they are written may have an old one beside a
    /// new one, each as it was in the same turn.
    pub fn had(&self, files: &Files, from: usize) -> bool {
        let mut turns = (from..self.states.len()).map(|at| &self.states[at..self.states.len().min(at + WRITTEN_MAX + 1)]);
        turns.any(|turn| {
            let mut paths = files.keys().chain(turn.iter().flat_map(|state| state.keys()));
            paths.all(|path| turn.iter().any(|state| state.get(path) == files.get(path)))
        })
    }
}
