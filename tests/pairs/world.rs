//! A store of sixty versions, and copies of it that are damaged.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_store::{OpenOptions, create, gc};
use parhelia_tests::{Files, Scratch, files_in, noise, write};

use crate::pairs::damage::Damage;

/// Versions of the workspace.
const VERSIONS: usize = 60;
const FILES: usize = 30;

/// The whole store, and what is in it.
pub struct World {
    scratch: Scratch,
    /// Every checkpoint, by its id.
    saved: BTreeMap<String, Files>,
}

/// A copy of it that may be damaged.
pub struct Copy {
    pub scratch: Scratch,
    /// A whole store, to recover from.
    pub whole: PathBuf,
    /// Checkpoints that exist, with what they are to hold.
    pub saved: BTreeMap<String, Files>,
    /// The checkpoint that was made last in the copy.
    pub newest: Option<String>,
    /// Bytes of packs before it was damaged.
    pub bytes: u64,
    /// The damage is known to the store: somebody has said so.
    pub is_known: bool,
    edits: u64,
}

/// Text that compresses, of some lines.
fn text(lines: u64, seed: u64) -> Vec<u8> {
    let line = |n: u64| format!("{} line {n} of {seed}\n", blake3::hash(&(n * 1000 + seed).to_le_bytes()).to_hex());
    (0..lines).map(line).collect::<String>().into_bytes()
}

/// Copies a folder with everything in it.
pub fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "--reflink=auto"]).arg(from).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "cannot copy {}", from.display());
}

/// Bytes of the packs of a store.
pub fn pack_bytes(store: &Path) -> u64 {
    fs::read_dir(store.join("packs")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

impl World {
    /// Makes the store: the first versions are packed together by gc, as in one that has lived for a while.
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let work = scratch.path("work");
        for file in 0..FILES {
            write(&work.join(format!("d{}/f{file}.txt", file % 5)), &text(60, file as u64)).unwrap();
        }
        write(&work.join("large"), &noise(700_000, 5)).unwrap();
        let options = OpenOptions { create: true, parity: false, ..OpenOptions::default() };
        let store = parhelia_ledger::open(&scratch.store(), &options).unwrap();
        let mut saved = BTreeMap::new();
        for version in 0..VERSIONS {
            for n in 0..4 {
                edit(&work, version * 3 + n * 7, version);
            }
            let options = create::Options { workspace: work.clone(), session: "s".into(), ..create::Options::default() };
            saved.insert(create::run(&store, &options, &()).unwrap().checkpoint.id(), files_in(&work));
            if version == VERSIONS / 2 {
                gc::run(&store, &gc::GcOptions::default(), &()).unwrap();
            }
        }
        drop(store);
        fs::create_dir_all(scratch.path("home/.config/parhelia")).unwrap();
        World { scratch, saved }
    }

    /// A copy of the store and the workspace, of which a checkpoint was made so that its files are known, and a second copy of the store.
    pub fn copy(&self) -> Copy {
        let scratch = Scratch::new();
        copy_folder(&self.scratch.store(), &scratch.store());
        copy_folder(&self.scratch.path("work"), &scratch.path("work"));
        let config = scratch.path("home/.config/parhelia/parhelia.toml");
        write(&config, b"[retention]\nautomatic = false\n").unwrap();
        let id = scratch.create("t", &scratch.path("work"));
        let mut saved = self.saved.clone();
        saved.insert(id, files_in(&scratch.path("work")));
        copy_folder(&scratch.store(), &scratch.path("whole"));
        let (whole, bytes) = (scratch.path("whole"), pack_bytes(&scratch.store()));
        Copy { whole, saved, newest: None, bytes, is_known: false, edits: 0, scratch }
    }
}

/// Changes a line of a file.
fn edit(work: &Path, file: usize, version: usize) {
    let path = work.join(format!("d{}/f{}.txt", file % FILES % 5, file % FILES));
    let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    let at = (version * 13 + file) % lines.len();
    lines[at] = format!("edited in {version}: {}", blake3::hash(&(version * 100 + file).to_le_bytes()).to_hex());
    fs::write(&path, lines.join("\n") + "\n").unwrap();
}

impl Copy {
    /// Damages the store in one place.
    pub fn damage(&mut self, damage: Damage) {
        damage.apply(&self.scratch.store());
    }

    /// Changes a file of the workspace.
    pub fn edit(&mut self) {
        self.edits += 1;
        edit(&self.scratch.path("work"), self.edits as usize * 11, VERSIONS + self.edits as usize);
    }
}
