//! A long random life of a store, beside a model of it. Edits, creates, deletions, restores, collections, kills and power cuts come in
//! any order; after each, what the store shows is what the model says.
//!
//! `PARHELIA_SEED=N` repeats a run; `PARHELIA_LONG=N` takes N hundred steps with each of as many seeds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use parhelia_store::OpenOptions;
use parhelia_tests::{
    Scratch, given_seed, long, noise,
    recorder::{Cut, Dice, Fault, Recorder, Trap},
    repeated_by,
    tree::{Tree, difference, tree_in, tree_of},
    write,
};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};

/// Writes a file, in place of whatever but a folder is there.
fn write_anew(path: &Path, bytes: &[u8]) {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => return,
        Ok(meta) if !meta.is_file() => fs::remove_file(path).unwrap(),
        _ => {}
    }
    write(path, bytes).unwrap();
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        _ => fs::remove_file(path).unwrap(),
    }
}

/// Renames, in place of whatever is there.
fn rename(from: &Path, to: &Path) {
    if from != to {
        if to.symlink_metadata().is_ok() {
            remove(to);
        }
        fs::rename(from, to).unwrap();
    }
}

/// A second name for a file.
fn link(from: &Path, to: &Path) {
    if from.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
        fs::hard_link(from, to).unwrap();
    }
}

/// Changes a file's or folder's permissions, time or attributes.
fn change_what_is_known_of(path: &Path, seed: u64) {
    let Ok(meta) = path.symlink_metadata() else { return };
    if !meta.is_file() && !meta.is_dir() {
        return;
    }
    match seed % 3 {
        0 => fs::set_permissions(path, fs::Permissions::from_mode(0o500 | (seed >> 8) as u32 & 0o2277)).unwrap(),
        1 => {
            let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(seed >> 4);
            fs::File::open(path).unwrap().set_modified(time).unwrap();
        }
        _ => setxattr(path, format!("user.{}", seed % 5), &noise(seed as usize >> 8 & 63, seed), XattrFlags::empty()).unwrap(),
    }
}

struct Life {
    scratch: Scratch,
    recorder: Recorder,
    dice: Dice,
    /// Checkpoints that exist for certain.
    promised: BTreeMap<String, Tree>,
    /// Checkpoints that may exist: a killed command may have come to its end. By their content.
    possible: Vec<Tree>,
    /// Checkpoints that may be gone.
    deleting: BTreeSet<String>,
    /// Checkpoints that are gone for certain.
    gone: BTreeSet<String>,
    told: Vec<String>,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut life = Life {
            scratch: Scratch::new(),
            recorder: Recorder::mount(),
            dice: Dice(seed),
            promised: BTreeMap::new(),
            possible: Vec::new(),
            deleting: BTreeSet::new(),
            gone: BTreeSet::new(),
            told: vec![repeated_by(seed)],
        };
        fs::create_dir(life.work()).unwrap();
        while life.run(&["init"]).is_none() {}
        life
    }

    fn work(&self) -> PathBuf {
        self.scratch.path("work")
    }

    fn store(&self) -> PathBuf {
        self.recorder.path().join("store")
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.dice.roll() % below
    }

    /// Runs a command, in one of four cases killing it at some step. Its summary, if it came to its end.
    fn run(&mut self, arguments: &[&str]) -> Option<serde_json::Value> {
        let is_killed = self.roll(4) == 0;
        if is_killed {
            let at = self.roll(120);
            self.recorder.arm(Trap::new(Trap::CHANGES, at, Fault::Kill));
        }
        let store = self.store().to_string_lossy().into_owned();
        let output = self.scratch.run(&[arguments, &["--store", &store, "--json"]].concat());
        let has_gone_off = is_killed && self.recorder.disarm().1;
        self.told.push(format!("{arguments:?}{}", if has_gone_off { ", killed" } else { "" }));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(has_gone_off || output.status.success(), "{}: {output:?}", self.story());
        if !output.status.success() {
            return None;
        }
        text.lines().last().and_then(|line| serde_json::from_str(line).ok())
    }

    fn story(&self) -> String {
        self.told.join("\n")
    }

    fn edit(&mut self) {
        for _ in 0..=self.roll(4) {
            let path = self.work().join(format!("d{}/f{}", self.roll(3), self.roll(6)));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let (chance, seed) = (self.roll(16), self.dice.roll());
            let is_there = path.symlink_metadata().is_ok();
            match chance {
                0..3 => write_anew(&path, &noise(90_000 + seed as usize % 60_000, seed % 9)),
                3..8 => write_anew(&path, &noise(seed as usize % 3000, seed)),
                8 if is_there => remove(&path),
                9 if is_there => rename(&path, &self.work().join(format!("moved{}", seed % 3))),
                10 => rename(path.parent().unwrap(), &self.work().join(format!("d{}", seed % 3))),
                11 => change_what_is_known_of(&path, seed),
                _ if is_there => {}
                12 => symlink(format!("../d{}/f{}", seed % 3, seed % 7), &path).unwrap(),
                13 => fs::create_dir(&path).unwrap(),
                14 => mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap(),
                _ => link(&self.work().join(format!("d{}/f{}", seed % 3, seed % 6)), &path),
            }
        }
        self.told.push("edits".into());
    }

    fn create(&mut self) {
        let files = tree_in(&self.work());
        let work = self.work().to_string_lossy().into_owned();
        match self.run(&["checkpoint", "create", "s", "--workspace", &work, "--no-default-excludes"]) {
            Some(summary) => {
                self.promised.insert(summary["id"].as_str().unwrap().to_owned(), files);
            }
            None => self.possible.push(files),
        }
    }

    fn any_id(&mut self) -> Option<String> {
        let n = self.dice.roll() as usize;
        let ids: Vec<&String> = self.promised.keys().collect();
        if ids.is_empty() { None } else { Some(ids[n % ids.len()].clone()) }
    }

    fn delete(&mut self) {
        let Some(id) = self.any_id().filter(|_| self.promised.len() > 2) else { return };
        self.deleting.insert(id.clone());
        if self.run(&["checkpoint", "delete", &id]).is_some() {
            self.deleting.remove(&id);
            self.promised.remove(&id);
            self.gone.insert(id);
        } else {
            self.settle();
        }
    }

    fn restore(&mut self) {
        let Some(id) = self.any_id() else { return };
        let out = self.scratch.path("out");
        let to = out.to_string_lossy().into_owned();
        let in_place = out.exists() && self.roll(2) == 0;
        if !in_place {
            let _ = fs::remove_dir_all(&out);
        }
        let flags: &[&str] = if in_place { &["--in-place", "--delete", "--other-folder"] } else { &[] };
        let arguments = [&["checkpoint", "restore", &id, "--to", &to], flags].concat();
        if self.run(&arguments).is_some() {
            let differs = difference(&tree_in(&out), &self.promised[&id]);
            assert!(differs.is_empty(), "{}\nrestored, promised:\n{}", self.story(), differs.join("\n"));
        } else if !in_place {
            let _ = fs::remove_dir_all(&out);
        }
    }

    /// Reads everything, and makes up the model's mind about what was under way.
    fn settle(&mut self) {
        if self.promised.is_empty() && !self.store().join("store.json").exists() {
            self.possible.clear();
            return;
        }
        let store =
            parhelia_ledger::open(&self.store(), &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}\n{}", self.story()));
        let mut found = BTreeMap::new();
        for checkpoint in store.checkpoints().unwrap() {
            let files = tree_of(&store, &checkpoint).unwrap_or_else(|e| panic!("{e}\n{}", self.story()));
            found.insert(checkpoint.id(), files);
        }
        for (id, files) in &self.promised {
            match found.get(id) {
                Some(read) => {
                    let differs = difference(read, files);
                    assert!(differs.is_empty(), "{id} holds something else\n{}\n{}", self.story(), differs.join("\n"));
                }
                None => assert!(self.deleting.contains(id), "{id} is gone\n{}", self.story()),
            }
        }
        for (id, files) in &found {
            assert!(!self.gone.contains(id), "{id} is back\n{}", self.story());
            let is_known = self.promised.contains_key(id) || self.possible.contains(files);
            assert!(is_known, "{id} came from nowhere\n{}", self.story());
        }
        let all: BTreeSet<String> = found.keys().cloned().collect();
        self.gone.extend(self.deleting.iter().filter(|id| !all.contains(*id)).cloned());
        self.deleting.clear();
        self.possible.clear();
        self.promised = found;
    }

    fn step(&mut self) {
        match self.roll(16) {
            0..5 => self.edit(),
            5..9 => self.create(),
            9 | 10 => self.delete(),
            11 => self.restore(),
            12 => _ = self.run(&["gc"]).is_some(),
            13 if self.store().join("store.json").exists() => {
                self.told.push("the index is removed".into());
                let _ = fs::remove_dir_all(self.store().join("view"));
                fs::create_dir(self.store().join("view")).unwrap();
            }
            14 => {
                let cut = match self.roll(3) {
                    0 => Cut::Lost,
                    1 => Cut::Kept,
                    _ => Cut::Some(self.dice.roll()),
                };
                self.told.push(format!("the power goes: {cut:?}"));
                self.recorder.cut(cut);
                // Whatever was not synced may be gone, but for what had been promised.
                self.settle();
            }
            _ => self.settle(),
        }
    }
}

fn live(seed: u64, steps: u64) {
    let mut life = Life::new(seed);
    life.edit();
    while life.promised.is_empty() {
        life.create();
        life.settle();
    }
    for _ in 0..steps {
        life.step();
    }
    life.settle();
    for verb in [&["gc"][..], &["check", "--read-data"]] {
        while life.run(verb).is_none() {}
    }
    println!("{}: {steps} steps, {} checkpoints at the end, {} deleted", repeated_by(seed), life.promised.len(), life.gone.len());
}

#[test]
fn a_store_and_its_model_agree() {
    let given = given_seed();
    let rounds = long();
    let steps = if rounds > 0 { rounds * 100 } else { 60 };
    let first = given.unwrap_or_else(|| if rounds > 0 { u64::from(std::process::id()) << 16 } else { 1 });
    let seeds = if given.is_some() { 1 } else { rounds.max(2) };
    for seed in first..first + seeds {
        live(seed, steps);
    }
}
