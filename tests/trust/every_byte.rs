//! A small store, damaged at every byte of every file, in every way: no read returns wrong bytes, nothing panics or asks for memory
//! without bound, `check` finds what matters, and what can be derived anew is.
//!
//! The ordinary run takes one place in seven; `PARHELIA_LONG=1` takes each.

use std::{
    fs,
    path::{Path, PathBuf},
};

use parhelia_store::{
    OpenOptions, Store,
    check::{self, CheckOptions},
    create,
    id::Ulid,
};
use parhelia_tests::{Files, allocation::largest_since, files_in, long, noise, story::files_of, write};

/// RocksDB's memory is not the allocator's; this is about ours, in bytes.
const ALLOCATION_MAX: usize = 80 << 20;

struct Lab {
    folder: tempfile::TempDir,
    /// Checkpoints, and what is in each.
    files: Vec<(Ulid, Files)>,
}

impl Lab {
    /// Two checkpoints in two packs.
    fn new() -> Self {
        let shm = Path::new("/dev/shm");
        let folder = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap();
        let mut lab = Lab { folder, files: Vec::new() };
        write(&lab.work().join("d/text"), "some words\n".repeat(9).as_bytes()).unwrap();
        write(&lab.work().join("noise"), &noise(300, 1)).unwrap();
        lab.create();
        write(&lab.work().join("d/more"), &noise(200, 2)).unwrap();
        lab.create();
        lab
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn open(&self, create: bool) -> parhelia_store::Result<Store> {
        parhelia_ledger::open(&self.path(), &OpenOptions { create, ..OpenOptions::default() })
    }

    fn create(&mut self) {
        let options = create::Options { workspace: self.work(), session: "s".into(), threads: 1, ..create::Options::default() };
        let made = create::run(&self.open(true).unwrap(), &options, &()).unwrap();
        self.files.push((made.checkpoint.record.id, files_in(&self.work())));
    }

    fn check(&self) -> parhelia_store::Result<check::CheckReport> {
        check::run(&parhelia_ledger::layout(self.path()), &CheckOptions { read_data_percent: Some(100) }, &())
    }

    /// Reads all that can be read. Whatever comes is right. Says whether everything came.
    fn read(&self, how: &str) -> bool {
        let Ok(store) = self.open(false) else { return false };
        let Ok(found) = store.checkpoints() else { return false };
        let mut all = found.len() == self.files.len();
        for checkpoint in &found {
            // A checkpoint whose record of the journal is lost hides no other.
            let Some((_, files)) = self.files.iter().find(|(id, _)| *id == checkpoint.record.id) else {
                panic!("{how}: a checkpoint that was never made");
            };
            match files_of(&store, checkpoint) {
                Ok(read) => assert!(read == *files, "{how}: other bytes are read"),
                Err(_) => all = false,
            }
        }
        all
    }

    fn files_of_store(&self) -> Vec<PathBuf> {
        let files = files_in(&self.path()).into_keys().map(|name| self.path().join(parhelia_store::name::as_path(&name)));
        files.filter(|path| !path.ends_with("ballast")).collect()
    }
}

/// Every way to damage a file at a place.
fn ways(good: &[u8], at: usize) -> Vec<(&'static str, Vec<u8>)> {
    let end = (at + 16).min(good.len());
    let mut flipped = good.to_vec();
    flipped[at] ^= 1 << (at % 8);
    let mut zeroed = good.to_vec();
    zeroed[at..end].fill(0);
    let doubled = [&good[..end], &good[at..]].concat();
    let cut_out = [&good[..at], &good[end..]].concat();
    vec![("flipped", flipped), ("zeroed", zeroed), ("truncated", good[..at].to_vec()), ("doubled", doubled), ("cut out", cut_out)]
}

/// True if `check` must find damage of a file: of everything but what can be derived, and hints.
fn matters(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".pack") || name.ends_with(".log") && name.contains("/journal/") || name.ends_with("store.json")
}

/// At most about so many places of a file are damaged that holds nothing but what can be derived.
const SAMPLED_PLACES: usize = 100;

#[test]
fn every_byte_damaged_in_every_way() {
    let lab = Lab::new();
    let step = if long() > 0 { 1 } else { 7 };
    let mut tried = 0;
    for path in lab.files_of_store() {
        let good = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        // RocksDB's files and stat caches are read in pieces that have checksums of their own: a sample will do.
        let step = if matters(&path) { step } else { (step * 5).max(good.len() / SAMPLED_PLACES) };
        for at in (0..good.len()).step_by(step) {
            for (way, bytes) in ways(&good, at) {
                if bytes == good {
                    continue;
                }
                let how = format!("{} {way} at {at} of {}", path.display(), good.len());
                fs::write(&path, &bytes).unwrap();
                largest_since();
                let all = lab.read(&how);
                let report = lab.check();
                let largest = largest_since();
                assert!(largest < ALLOCATION_MAX, "{how}: {largest} bytes at once");
                let is_found = report.as_ref().map_or(true, |report| !report.is_clean());
                // In store.json, a blank more or less is no damage; behind the journal's end, bytes are an append that was cut off.
                let is_noted = report.as_ref().is_ok_and(|report| report.notes.iter().any(|note| note.contains("cut off")));
                let is_harmless = all && (path.ends_with("store.json") || is_noted);
                assert!(is_found || !matters(&path) || is_harmless, "{how}: check finds nothing");
                assert!(all || is_found, "{how}: something cannot be read, and check finds nothing");
                assert!(all || matters(&path), "{how}: what can be derived keeps something from being read");
                tried += 1;
            }
        }
        fs::write(&path, &good).unwrap();
    }
    assert!(lab.read("mended") && lab.check().unwrap().is_clean());
    println!("{tried} ways to damage {} files", lab.files_of_store().len());
}

#[test]
fn files_that_change_places() {
    let lab = Lab::new();
    let files = lab.files_of_store();
    let mut tried = 0;
    for a in &files {
        for b in files.iter().filter(|b| *b > a && (matters(a) || matters(b))) {
            let (in_a, in_b) = (fs::read(a).unwrap(), fs::read(b).unwrap());
            fs::write(a, &in_b).unwrap();
            fs::write(b, &in_a).unwrap();
            let how = format!("{} and {}", a.display(), b.display());
            lab.read(&how);
            let is_found = lab.check().map_or(true, |report| !report.is_clean());
            assert!(is_found || in_a == in_b, "{how}");
            fs::write(a, &in_a).unwrap();
            fs::write(b, &in_b).unwrap();
            tried += 1;
        }
        let good = fs::read(a).unwrap();
        fs::remove_file(a).unwrap();
        let all = lab.read(&format!("{} is gone", a.display()));
        assert!(all || matters(a), "{} is gone", a.display());
        fs::create_dir_all(a.parent().unwrap()).unwrap();
        fs::write(a, &good).unwrap();
    }
    assert!(lab.read("mended") && lab.check().unwrap().is_clean());
    println!("{tried} pairs of files");
}
