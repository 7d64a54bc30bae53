//! Acts of a day, each of which may be struck in its middle.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use parhelia_agent::process::parent;
use parhelia_tests::{
    Scratch, binary, files_in,
    live::{kill, lives, wait},
    recorder::Dice,
};
use serde_json::{Value, json};

use super::{
    judge::texts,
    kill::{Blow, Struck, Victim, What, processes},
    record::{Record, Wanted, now, own},
};
use crate::session_model::{oracle, world::World};

/// An act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Ask,
    Edit,
    Create,
    Serve,
    Approve,
    Tag,
    Pause,
    RollBack,
    Resume,
    Stop,
    Exit,
    Reject,
    Hang,
}

/// A day.
pub const DAY: [Act; 21] = [
    Act::Ask,
    Act::Edit,
    Act::Ask,
    Act::Create,
    Act::Serve,
    Act::Ask,
    Act::Approve,
    Act::Tag,
    Act::Pause,
    Act::Ask,
    Act::RollBack,
    Act::Resume,
    Act::Ask,
    Act::Stop,
    Act::Resume,
    Act::Exit,
    Act::Approve,
    Act::Ask,
    Act::Reject,
    Act::Hang,
    Act::Stop,
];

/// A session, and what is known of it.
pub struct Day {
    pub world: World,
    pub record: Record,
    pub service: Option<Child>,
    /// True while the program of the hooks cannot be run.
    pub has_no_hooks: bool,
    /// True if one that stands beside an agent was killed, perhaps with an agent that had not said anything yet.
    pub has_lost_supervisor: bool,
    /// True while the workspace stands where nobody has told the session.
    pub has_moved: bool,
    /// What the blow of the act under way has struck.
    struck: Option<Struck>,
    pub untrue: Vec<String>,
    pub statements: u64,
}

impl Day {
    pub fn begin(dice: Dice, has_own_program: bool) -> Self {
        let asked_at = now();
        let world = World::prepared(dice, |scratch| {
            make_repository(scratch);
            has_own_program.then(|| {
                let program = scratch.path("own/parhelia");
                fs::create_dir_all(scratch.path("own")).unwrap();
                // By another process: what is forked here meanwhile would hold it open for writing.
                assert!(Command::new("cp").arg(binary()).arg(&program).status().unwrap().success());
                program
            })
        });
        let mut record = Record::new(&[(b"a".to_vec(), b"first".to_vec())].into());
        record.asks_for_agent_at(asked_at);
        let mut day = Day {
            world,
            record,
            service: None,
            has_no_hooks: false,
            has_lost_supervisor: false,
            has_moved: false,
            struck: None,
            untrue: Vec::new(),
            statements: 0,
        };
        day.settle();
        day
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        self.world.roll(below)
    }

    pub fn id(&self) -> String {
        self.world.session().id
    }

    /// An act without a blow.
    pub fn perform(&mut self, act: Act) {
        self.world.tell(format!("-- {act:?}"));
        self.prepare(act);
        let is_done = self.act(act);
        assert!(is_done, "{act:?} failed, and nobody was struck");
        self.settle();
    }

    /// An act, in the middle of which somebody is struck.
    pub fn perform_struck(&mut self, act: Act, victim: Victim, delay: Duration) {
        self.world.tell(format!("-- {act:?}, and {victim:?} is struck after {delay:?}"));
        self.prepare(act);
        let blow = Blow {
            victim,
            delay,
            store: self.world.scratch.store(),
            agents: self.world.agent.folder().to_owned(),
            program: self.world.program.clone(),
            workspace: self.world.workspace.clone(),
            moved: self.world.scratch.path("moved"),
        };
        let blow = match victim {
            // An agent whose folder is taken away in the middle of a turn makes another one.
            Victim::Workspace => {
                self.act(act);
                self.settle();
                oracle::check(&mut self.world);
                blow.strike()
            }
            _ => {
                let blow = blow.strike();
                self.act(act);
                blow
            }
        };
        let struck = blow.join().unwrap();
        self.world.tell(format!("struck: {struck:?}"));
        self.has_no_hooks |= victim == Victim::HookProgram;
        if struck.has_moved {
            self.has_moved = true;
            self.world.workspace = self.world.scratch.path("moved");
        }
        self.struck = Some(struck);
        self.settle();
    }

    /// An act that changes nothing that is known.
    pub fn perform_alone(&mut self, act: Act) {
        assert!(self.act(act), "{act:?}");
    }

    /// Waits until nobody of ours works any more, and takes in what is known by then.
    pub fn settle(&mut self) {
        let struck = self.struck.take().unwrap_or_default();
        // A killed process lives for a moment more.
        for process in struck.agents.iter().chain(&struck.others) {
            wait(|| (!lives(*process)).then_some(()));
        }
        self.is_quiet();
        let log = self.world.agent.log();
        self.record.take(&log);
        let is_orphaned = !struck.supervisors.is_empty();
        self.has_lost_supervisor |= is_orphaned;
        for launch in &mut self.record.launches {
            if struck.agents.contains(&launch.process) {
                launch.is_killed = true;
            }
        }
        // A resume may have followed on one that was struck.
        let before = self.record.launches.len().saturating_sub(1);
        for launch in self.record.launches[..before].iter_mut().filter(|launch| launch.dead_at.is_none()) {
            launch.is_orphan |= is_orphaned;
            launch.dead_at = Some(now());
        }
        let launch = self.record.launch();
        let (was_dead, lived_at) = (launch.dead_at.is_some(), now());
        if !was_dead {
            launch.is_orphan |= is_orphaned;
        }
        if lives(launch.process) {
            launch.alive_at = lived_at;
            if self.world.supervisor.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some()) {
                self.world.supervisor = None;
            }
        } else {
            self.world.wait_for_end();
            // By then, its end is recorded where anybody saw it.
            launch.dead_at.get_or_insert_with(now);
        }
        // Who stood beside the agent may have left something to do.
        self.is_quiet();
        self.record.take(&self.world.agent.log());
        self.record.observe(&files_in(&self.world.workspace));
        let is_undisturbed = struck.hooks.is_empty() && struck.others.is_empty() && !self.has_no_hooks;
        self.record.hooks_are_done(is_undisturbed);
        let turns = self.conversation_turns();
        self.record.has_turns(turns);
    }

    /// Waits until no hook or command runs, and each agent has begun.
    fn is_quiet(&self) {
        let store = self.world.scratch.store();
        wait(|| {
            let log = self.world.agent.log();
            let has_begun = |process: i32| log.iter().any(|noted| noted.is("begun") && noted.process() == process);
            let is_busy = |(process, what): (i32, What)| match what {
                What::Hook | What::Command => true,
                What::Agent => !has_begun(process),
                // An agent whose supervisor was killed as it was starting it looks like that until it is one.
                What::Supervisor => parent(process) != Some(std::process::id().cast_signed()),
                What::Service | What::Other => false,
            };
            (!processes(&store).into_iter().any(is_busy)).then_some(())
        });
    }

    /// An agent that lives, where an act needs one; and what it needs beside that.
    fn prepare(&mut self, act: Act) {
        let needs_agent = matches!(act, Act::Ask | Act::Pause | Act::Stop | Act::Exit | Act::Hang);
        if needs_agent && act != Act::Stop && self.world.hanging {
            self.act(Act::Stop);
            self.settle();
        }
        if needs_agent && !self.world.agent.is_alive() {
            self.go_on();
        }
    }

    /// Has the session go on where it is dead.
    pub fn go_on(&mut self) {
        if self.world.agent.is_alive() {
            return;
        }
        let id = self.id();
        if self.has_no_hooks {
            self.allow_hooks();
        }
        if std::mem::take(&mut self.has_moved) {
            let to = self.world.workspace.to_string_lossy().into_owned();
            let (is_done, said) = self.world.run(&["session", "move", &id, &to]);
            assert!(is_done, "{said}");
        }
        // Nobody goes on from what was rejected: somebody corrects it, and approves that.
        if self.record.decided.values().any(|is_approved| !is_approved) {
            assert!(self.act(Act::Edit) && self.act(Act::Create), "it could not be corrected");
            let newest = self.newest().unwrap();
            let (is_done, said) = self.world.run(&["session", "approve", &newest, "--change", "--reason", "after all"]);
            assert!(is_done, "{said}");
            self.record.decided.retain(|_, is_approved| *is_approved);
            self.record.decided.insert(newest, true);
        }
        assert!(self.act(Act::Resume), "the session could not be resumed");
        self.settle();
    }

    /// The agent is killed, and nobody else.
    pub fn kill_agent(&mut self) {
        let process = self.record.launch().process;
        self.world.tell("-- the agent is killed");
        kill(process);
        self.struck = Some(Struck { agents: vec![process], ..Struck::default() });
        self.settle();
    }

    /// Has hooks run again.
    pub fn allow_hooks(&mut self) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(self.world.program.as_ref().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        self.has_no_hooks = false;
    }

    /// Carries an act out; returns whether that succeeded.
    fn act(&mut self, act: Act) -> bool {
        // What an agent was told at its start is judged before it is told more.
        oracle::check(&mut self.world);
        match act {
            Act::Ask => self.ask(),
            Act::Edit => self.edit(),
            Act::Create => self.create(),
            Act::Serve => self.serve(),
            Act::Approve => self.decide("approve"),
            Act::Reject => self.decide("reject"),
            Act::Tag => self.tag(),
            Act::Pause => self.set_aside("pause", &["session", "pause"]),
            Act::Stop => self.set_aside("stop", &["session", "stop"]),
            Act::RollBack => self.roll_back(),
            Act::Resume => self.resume(),
            Act::Exit => self.exit(),
            Act::Hang => {
                self.world.ask_for_what_never_ends();
                self.record.wanted = self.taken_up();
                true
            }
        }
    }

    /// What a prompt makes of the wish.
    fn taken_up(&self) -> Wanted {
        match self.record.wanted {
            Wanted::Running => Wanted::Running,
            // Its hook may not have come through.
            _ => Wanted::Either,
        }
    }

    fn ask(&mut self) -> bool {
        self.record.wanted = self.taken_up();
        self.world.ask();
        true
    }

    /// Somebody edits by hand.
    fn edit(&mut self) -> bool {
        let files = self.world.files_to_write();
        for (name, text) in files.as_object().unwrap() {
            let (path, text) = (self.world.workspace.join(name), text.as_str().unwrap());
            self.world.agent.note(json!({ "event": "writes", "name": name, "text": text }));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let new = self.world.scratch.path("new");
            fs::write(&new, text).unwrap();
            fs::rename(new, path).unwrap();
        }
        if self.roll(3) == 0 {
            self.world.agent.note(json!({ "event": "removes", "name": "a" }));
            let _ = fs::remove_file(self.world.workspace.join("a"));
        }
        true
    }

    fn create(&mut self) -> bool {
        let (id, workspace) = (self.id(), self.world.workspace.to_string_lossy().into_owned());
        let (is_done, said) =
            self.world.run(&["checkpoint", "create", &id, "--workspace", &workspace, "-m", "by hand", "--json"]);
        let made = said.lines().last().and_then(|line| serde_json::from_str::<Value>(line).ok());
        if is_done && !self.world.hanging && made.is_some_and(|made| made["skipped"] == false) {
            self.record.take(&self.world.agent.log());
            self.record.is_saved();
        }
        is_done
    }

    fn serve(&mut self) -> bool {
        if self.service.as_mut().is_some_and(|service| service.try_wait().unwrap().is_none()) {
            return true;
        }
        let socket = self.world.scratch.path("run.sock");
        let mut command = self.world.command(&["serve", "--no-resume", "--socket", &socket.to_string_lossy()]);
        let mut service = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let line = BufReader::new(service.stdout.as_mut().unwrap()).lines().next();
        self.service = Some(service);
        line.is_some_and(|line| line.is_ok())
    }

    /// The newest checkpoint, as the command line lists it.
    pub fn newest(&mut self) -> Option<String> {
        let id = self.id();
        let (_, said) = self.world.run(&["checkpoint", "list", &id, "--json"]);
        let mut lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["type"] == "checkpoint").and_then(|line| line["id"].as_str().map(str::to_owned))
    }

    fn decide(&mut self, verb: &str) -> bool {
        let Some(newest) = self.newest() else { return false };
        let (is_done, said) = self.world.run(&["session", verb, &newest, "--reason", "it was looked at", "--change"]);
        self.world.tell(said);
        if is_done {
            self.record.decided.insert(newest, verb == "approve");
        }
        is_done
    }

    fn tag(&mut self) -> bool {
        let Some(newest) = self.newest() else { return false };
        let (is_done, _) = self.world.run(&["checkpoint", "tag", &newest, "noon"]);
        if is_done {
            self.record.tagged.insert(newest, "noon".into());
        }
        is_done
    }

    fn set_aside(&mut self, by: &'static str, arguments: &[&str]) -> bool {
        let id = self.id();
        if by == "stop" {
            self.record.launch().asked.insert(by);
        }
        let (is_done, _) = self.world.run(&[arguments, &[id.as_str()]].concat());
        self.record.wanted = if is_done { Wanted::Paused } else { Wanted::Either };
        is_done
    }

    fn roll_back(&mut self) -> bool {
        let session = self.id();
        oracle::check(&mut self.world);
        let all: Vec<String> =
            self.world.saved.iter().filter(|(_, saved)| saved.session == session).map(|(id, _)| id.clone()).collect();
        let at = self.roll(all.len() as u64) as usize;
        let target = all[at].clone();
        if self.world.agent.is_alive() {
            self.record.launch().asked.insert("rollback");
        }
        let (is_done, _) = self.world.run(&["checkpoint", "rollback", &target, "--stop", "--yes"]);
        self.record.take(&self.world.agent.log());
        self.record.wanted = Wanted::Either;
        if is_done {
            let files = self.world.saved[&target].files.clone();
            let (is, turns) = (own(&files_in(&self.world.workspace)), self.conversation_turns());
            self.claim(is == own(&files), || format!("it went back to {target}, and has {}", texts(&is)));
            self.record.goes_back(&files, turns);
        } else {
            // It may have gone back all the same.
            self.record.is_anywhere();
        }
        is_done
    }

    pub fn conversation_turns(&self) -> usize {
        self.world.agent.conversation().map_or(0, |conversation| self.world.turns(&conversation).len())
    }

    fn resume(&mut self) -> bool {
        if self.world.agent.is_alive() {
            return true;
        }
        self.record.asks_for_agent_at(now());
        let id = self.id();
        self.world.start(&["session", "resume", &id, "--interval", "0"], &[]);
        let is_done = self.world.agent.is_alive();
        self.record.wanted = if is_done { Wanted::Running } else { Wanted::Either };
        is_done
    }

    fn exit(&mut self) -> bool {
        let order = self.world.agent.order(&json!({ "exit": 0 }));
        wait(|| (self.world.agent.has_done(order) || !self.world.agent.is_alive()).then_some(()));
        wait(|| (!self.world.agent.is_alive()).then_some(()));
        self.record.wanted = Wanted::Either;
        true
    }
}

impl Drop for Day {
    fn drop(&mut self) {
        if let Some(mut service) = self.service.take() {
            let _ = service.kill();
            let _ = service.wait();
        }
        if self.has_no_hooks {
            self.allow_hooks();
        }
    }
}

/// Makes the workspace a git repository, with its first file committed.
fn make_repository(scratch: &Scratch) {
    for arguments in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "As it was"]] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(arguments).current_dir(scratch.path("job"));
        assert!(git.status().unwrap().success(), "git {arguments:?}");
    }
}
