//! Stores that are damaged, and how they are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use parhelia_tests::{Scratch, noise, write};

pub fn small_store() -> (Scratch, String) {
    let s = Scratch::new();
    for i in 0..6u64 {
        write(&s.path(&format!("work/d{}/f{i}", i % 2)), format!("content of {i}\n").repeat(20).as_bytes()).unwrap();
    }
    write(&s.path("work/noise"), &noise(4000, 1)).unwrap();
    let id = s.create("s", &s.path("work"));
    (s, id)
}

pub fn contents(s: &Scratch) -> Vec<(String, Vec<u8>)> {
    let mut names: Vec<String> = (0..6).map(|i| format!("d{}/f{i}", i % 2)).collect();
    names.push("noise".into());
    names.into_iter().map(|n| (n.clone(), fs::read(s.path("work").join(&n)).unwrap())).collect()
}

pub fn only_file(folder: &Path, ending: &str) -> PathBuf {
    let mut found = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.to_string_lossy().ends_with(ending));
    found.next().unwrap()
}

pub fn zero(path: &Path, from: usize, to: usize) {
    let mut bytes = fs::read(path).unwrap();
    let to = to.min(bytes.len());
    bytes[from..to].fill(0);
    fs::write(path, bytes).unwrap();
}

/// Flips a bit where a pack holds these bytes as they are.
pub fn flip_where(s: &Scratch, bytes: &[u8]) {
    for entry in fs::read_dir(s.store().join("packs")).unwrap() {
        let path = entry.unwrap().path();
        let mut pack = fs::read(&path).unwrap();
        if let Some(at) = pack.windows(bytes.len()).position(|found| found == bytes) {
            pack[at] ^= 1;
            fs::write(&path, pack).unwrap();
            return;
        }
    }
    panic!("no pack holds these bytes");
}

/// A checkpoint of the files alone: what stands in `state/` beside them is nowhere else.
pub fn files_only(s: &Scratch, work: &Path) -> String {
    use parhelia_store::{OpenOptions, create};
    let store = parhelia_ledger::open(&s.store(), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
    let options = create::Options { workspace: work.into(), session: "s".into(), ..create::Options::default() };
    create::run(&store, &options, &()).unwrap().checkpoint.id()
}

/// A store of which half of the first pack is zeros, and its workspace.
pub fn half_lost(first_half: bool) -> (Scratch, Vec<String>) {
    let s = Scratch::new();
    for i in 0..120u64 {
        write(&s.path(&format!("work/d{}/f{i}", i % 9)), &noise(9000, i)).unwrap();
    }
    write(&s.path("work/large"), &noise(700_000, 900)).unwrap();
    let first = files_only(&s, &s.path("work"));
    let pack = only_file(&s.store().join("packs"), ".pack");
    let second = files_only(&s, &s.path("work"));
    let length = fs::metadata(&pack).unwrap().len() as usize;
    let (from, to) = if first_half { (100, length / 2) } else { (length / 2, length) };
    zero(&pack, from, to);
    s.expect(12, &["check", "--read-data", "--quiet"]);
    (s, vec![first, second])
}

/// A store with a checkpoint of a folder, and 100 bytes flipped in the middle of its pack. The folder stays as it was.
pub fn flipped_in_the_middle() -> (Scratch, String) {
    let s = Scratch::without_parity();
    for i in 0..40u64 {
        write(&s.path(&format!("work/f{i}")), &noise(20_000, i)).unwrap();
    }
    let id = files_only(&s, &s.path("work"));
    let pack = only_file(&s.store().join("packs"), ".pack");
    let mut bytes = fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].iter_mut().for_each(|byte| *byte ^= 0xff);
    fs::write(&pack, bytes).unwrap();
    (s, id)
}

/// A store with thirty files, of which the pack that holds them is gone; the pack's place, and the head's id.
pub fn without_its_largest_pack() -> (Scratch, PathBuf, String) {
    let s = Scratch::new();
    for i in 0..30u64 {
        write(&s.path(&format!("work/f{i}")), &noise(20_000, i)).unwrap();
    }
    s.create("s", &s.path("work"));
    write(&s.path("work/x"), b"hi").unwrap();
    let head = s.create("s", &s.path("work"));
    let packs = fs::read_dir(s.store().join("packs")).unwrap().map(|entry| entry.unwrap().path());
    let pack = packs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    (s, pack, head)
}
