//! Random verbs at once, on folders that overlap: restores of every kind, rollbacks, creates, deletions, mounts and gc, some killed. What
//! ends with 0 has done what it says, nothing else is touched, and every checkpoint is whole.
//!
//! `PARHELIA_LONG=N` takes N hundred rounds, `PARHELIA_SEED=N` repeats a run as far as the machine does.

mod oracle;
mod verbs;

use std::{fs, path::PathBuf, sync::Barrier, time::Duration};

use parhelia_store::OpenOptions;
use parhelia_tests::{
    Scratch,
    filesystems::{Mountpoint, in_memory},
    given_seed, long, noise,
    recorder::Dice,
    repeated_by,
    story::leftovers,
    tree::{Tree, difference, tree_in},
    write,
};

use oracle::{Judge, temporary};
use verbs::{Ended, Known, Verb, clear};

const FILES: u64 = 900;
const LARGE_FILES: u64 = 3000;
/// Verbs of a round begin within this time.
const APART_MILLIS: u64 = 30;
const WORKSPACES: u64 = 3;
/// The folders that restores share, on the ground, and the part of a checkpoint that belongs there.
const SHARED: [(&str, &str); 7] =
    [("t", ""), ("t/a", "a"), ("t/a/deep", "a/deep"), ("t/b", "b"), ("r", ""), ("r/a", "a"), ("t/a", "")];

/// Everything that the verbs work on.
struct World {
    dice: Dice,
    /// Checkpoints for everybody, never deleted.
    common: Vec<Known>,
    /// One whose restore takes long beside the others.
    large: Option<Known>,
    /// Those of the session that is rolled back.
    rolling: Vec<Known>,
    /// Those of workspaces that only one creates; they may be deleted.
    own: Vec<Known>,
    new_names: u64,
    faults: Vec<String>,
    // Goes before the scratch folder that it lies on.
    _memory: Mountpoint,
    scratch: Scratch,
}

/// Files in folders that every checkpoint has; which files, and their content, by a seed. No path is a file in one and a folder in another.
fn fill(root: &std::path::Path, seed: u64) {
    clear(root);
    for folder in ["a/deep", "b"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for i in (0..FILES).filter(|i| !(i * 7 + seed).is_multiple_of(9)) {
        let folder = ["", "a/", "a/deep/", "b/"][i as usize % 4];
        write(&root.join(format!("{folder}f{i}")), &noise(200 + (i as usize * 37) % 4000, seed * FILES + i)).unwrap();
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let scratch = Scratch::new();
        let memory = in_memory(&scratch.path(""));
        let mut world = World {
            dice: Dice(seed),
            common: Vec::new(),
            large: None,
            rolling: Vec::new(),
            own: Vec::new(),
            new_names: 0,
            faults: Vec::new(),
            _memory: memory,
            scratch,
        };
        let source = world.scratch.path("large");
        for i in 0..LARGE_FILES {
            write(&source.join(format!("l{}/f{i}", i % 11)), &noise(100, i)).unwrap();
        }
        world.large = Some(world.created("large", &source));
        let outside = world.ground().join("outside");
        fill(&outside, 99);
        for n in 0..4 {
            let source = world.scratch.path("source");
            fill(&source, n);
            let known = world.created(&format!("common{n}"), &source);
            world.common.push(known);
            let rolled = world.ground().join("r");
            fill(&rolled, 10 + n);
            let known = world.created("rolled", &rolled);
            world.rolling.push(known);
        }
        fill(&world.ground().join("t"), 0);
        for n in 0..WORKSPACES {
            fill(&world.workspace(n), 20 + n);
        }
        world
    }

    /// The folder in which all targets lie.
    fn ground(&self) -> PathBuf {
        self.scratch.path("ground")
    }

    fn workspace(&self, n: u64) -> PathBuf {
        self.scratch.path(&format!("own{n}"))
    }

    fn created(&self, session: &str, workspace: &std::path::Path) -> Known {
        Known { id: self.scratch.create(session, workspace), tree: tree_in(workspace) }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.dice.roll() % below
    }

    fn any(&mut self, rolling: bool) -> Known {
        let n = self.dice.roll() as usize;
        let of = if rolling { &self.rolling } else { &self.common };
        of[n % of.len()].clone()
    }

    fn new_name(&mut self) -> String {
        self.new_names += 1;
        format!("new{}", self.new_names)
    }

    fn restore(&mut self) -> Verb {
        let from = self.any(false);
        let killed_after = (self.roll(8) == 0).then(|| Duration::from_millis(self.roll(60)));
        if self.roll(2) == 0 {
            let above = ["", "t/", "t/a/", "r/"][self.roll(4) as usize];
            let to = self.ground().join(format!("{above}{}", self.new_name()));
            let part = ["", "a"][self.roll(2) as usize];
            return Verb::Restore { from, part, to, in_place: false, delete: false, killed_after };
        }
        let (to, part) = SHARED[self.roll(SHARED.len() as u64) as usize];
        let delete = self.roll(3) == 0;
        Verb::Restore { from, part, to: self.ground().join(to), in_place: true, delete, killed_after }
    }

    /// A restore in place, and one to a new folder in the same folder or below.
    fn one_inside_another(&mut self) -> Vec<Verb> {
        let (outer, part, inner) = [("t", "", "t"), ("t", "", "t/a"), ("t/a", "a", "t/a"), ("r", "", "r")][self.roll(4) as usize];
        let to = self.ground().join(inner).join(self.new_name());
        let delete = self.roll(4) == 0;
        let outer = self.ground().join(outer);
        let (a, b) = (self.large.clone().unwrap(), self.any(false));
        vec![
            Verb::Restore { from: a, part: "", to, in_place: false, delete: false, killed_after: None },
            Verb::Restore { from: b, part, to: outer, in_place: true, delete, killed_after: None },
        ]
    }

    /// Verbs that run at once in one round. Each own workspace is captured by one verb at most.
    fn batch(&mut self) -> Vec<Verb> {
        let mut verbs = if self.roll(3) > 0 { self.one_inside_another() } else { vec![self.restore(), self.restore()] };
        let mut free: Vec<u64> = (0..WORKSPACES).collect();
        for _ in 0..self.roll(4) + 1 {
            let verb = match self.roll(12) {
                0..3 => self.restore(),
                3 | 4 if !free.is_empty() => {
                    let n = free.remove(0);
                    let path = format!("f{}", self.roll(60) * 4);
                    write(&self.workspace(n).join(path), &noise(self.roll(3000) as usize, self.roll(1000))).unwrap();
                    Verb::Create { workspace: self.workspace(n), session: format!("own{n}") }
                }
                5 => Verb::Create { workspace: self.ground().join("t"), session: "contended".into() },
                6 if !verbs.iter().any(|verb| matches!(verb, Verb::Rollback { .. })) => {
                    Verb::Rollback { to: self.any(true), workspace: self.ground().join("r") }
                }
                7 if self.own.len() > 3 => {
                    let n = self.roll(self.own.len() as u64) as usize;
                    Verb::Delete { what: self.own.remove(n) }
                }
                8 | 9 => {
                    let name = self.new_name();
                    let at = self.scratch.path(&format!("mount-{name}"));
                    fs::create_dir(&at).unwrap();
                    Verb::Mount { what: self.any(false), at }
                }
                10 => Verb::Verify { what: self.any(false) },
                _ => Verb::Gc,
            };
            verbs.push(verb);
        }
        verbs
    }

    /// Runs verbs at once, each with its own delay.
    fn run(&mut self, verbs: Vec<Verb>) -> Vec<Ended> {
        let start = Barrier::new(verbs.len());
        let verbs: Vec<_> = verbs.into_iter().map(|verb| (verb, Duration::from_millis(self.roll(APART_MILLIS)))).collect();
        let scratch = &self.scratch;
        let run = |(verb, delay): (Verb, Duration)| {
            start.wait();
            std::thread::sleep(delay);
            verb.run(scratch)
        };
        let run = &run;
        std::thread::scope(|scope| {
            let running: Vec<_> = verbs.into_iter().map(|verb| scope.spawn(move || run(verb))).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// True if somebody else works above or below a verb's target, so that it may fail.
    fn is_disturbed(of: usize, ended: &[Ended]) -> bool {
        let Some(target) = ended[of].verb.target() else { return false };
        let others = ended.iter().enumerate().filter(|(n, _)| *n != of).filter_map(|(_, other)| match &other.verb {
            Verb::Create { workspace, .. } => Some(workspace.as_path()),
            verb => verb.target(),
        });
        others.into_iter().any(|other| target.starts_with(other) || other.starts_with(target))
    }

    /// True if a verb may have ended as it did.
    fn may_end_so(n: usize, ended: &[Ended]) -> bool {
        let Ended { verb, code, .. } = &ended[n];
        match (verb, code) {
            (_, Some(0)) => true,
            (Verb::Restore { killed_after, .. }, None) => killed_after.is_some(),
            (Verb::Restore { .. } | Verb::Rollback { .. }, Some(1..=4 | 11)) => Self::is_disturbed(n, ended),
            // Another create of the session may be under way; files come and go.
            (Verb::Create { session, .. }, Some(3 | 11)) => session == "contended",
            _ => false,
        }
    }

    fn round(&mut self, round: u64) {
        let (ground, before) = (self.ground(), tree_in(&self.ground()));
        let batch = self.batch();
        let ended = self.run(batch);
        let after = tree_in(&ground);
        let judge = Judge::new(&ground, &before, &ended);
        let mut faults = judge.faults(&after);
        for (n, end) in ended.iter().enumerate() {
            if !Self::may_end_so(n, &ended) {
                faults.push(format!("ended with {:?}: {:?}: {}", end.code, end.verb.arguments(), end.said));
            }
            let Verb::Create { workspace, session } = &end.verb else { continue };
            let Some(id) = end.last_line["id"].as_str() else { continue };
            let out = self.scratch.path("out");
            clear(&out);
            self.scratch.restore(id, &out);
            let held = tree_in(&out);
            match session.as_str() {
                "contended" => faults.extend(judge.faults_of_capture(&held, "t")),
                _ => {
                    faults.extend(difference(&held, &tree_in(workspace)));
                    self.own.push(Known { id: id.to_owned(), tree: held });
                }
            }
        }
        if !faults.is_empty() {
            let told = |e: &Ended| format!("  {:?} by {:?} {}", e.code, e.verb.arguments(), e.said);
            let verbs: Vec<_> = ended.iter().map(told).collect();
            let shown = faults[..faults.len().min(8)].join("\n- ");
            self.faults.push(format!("round {round}, {} faults:\n- {shown}\nof\n{}", faults.len(), verbs.join("\n")));
        }
        // New folders are looked at in their own round alone.
        for above in ["", "t", "t/a", "r"] {
            for found in fs::read_dir(ground.join(above)).into_iter().flatten().flatten() {
                if found.file_name().to_string_lossy().starts_with("new") {
                    clear(&found.path());
                }
            }
        }
    }

    /// All is over: nothing is left lying about, and everything that was committed is whole.
    fn finish(mut self, outside: &Tree) {
        // What a restore that was killed in the last round has left is cleared by the next one.
        if let Some(known) = self.common.first() {
            let out = self.scratch.path("out");
            clear(&out);
            self.scratch.restore(&known.id, &out);
        }
        self.scratch.expect(0, &["gc", "--quiet"]);
        self.faults.extend(temporary(&tree_in(&self.ground())).into_iter().map(|path| format!("left: {path}")));
        self.faults.extend(difference(&tree_in(&self.ground().join("outside")), outside));
        let store = parhelia_ledger::open(&self.scratch.store(), &OpenOptions::default()).unwrap();
        self.faults.extend(leftovers(&store).into_iter().map(|path| format!("left in the store: {}", path.display())));
        let all: Vec<String> = store.checkpoints().unwrap().iter().map(|checkpoint| checkpoint.id()).collect();
        drop(store);
        self.scratch.expect(0, &["check", "--read-data", "--quiet"]);
        for known in self.common.iter().chain(&self.rolling).chain(&self.own) {
            if !all.contains(&known.id) {
                self.faults.push(format!("{} is gone", known.id));
                continue;
            }
            let out = self.scratch.path("out");
            clear(&out);
            self.scratch.restore(&known.id, &out);
            self.faults.extend(difference(&tree_in(&out), &known.tree));
        }
        let count = self.faults.len();
        assert!(self.faults.is_empty(), "{count} faults\n{}", self.faults.join("\n\n"));
    }
}

#[test]
fn whatever_ends_well_has_done_what_it_says() {
    let rounds = if long() > 0 { 100 * long() } else { 24 };
    let seed = given_seed().unwrap_or_else(|| if long() > 0 { u64::from(std::process::id()) } else { 1 });
    println!("{}", repeated_by(seed));
    let mut world = World::new(seed);
    let outside = tree_in(&world.ground().join("outside"));
    for round in 0..rounds {
        world.round(round);
    }
    world.finish(&outside);
}
