//! The size that is left when most versions are gone: as much as a new store of the others takes, or a little more, and never more than before.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use super::*;
use crate::{
    check::{self, CheckOptions},
    create::{self, Options},
    delete::delete_checkpoints,
    format::DEPTH_MAX,
    record::Checkpoint,
    store::OpenOptions,
};

/// Versions of a folder, and the store that they are captured in.
struct Versions {
    dir: tempfile::TempDir,
    store: Store,
    made: Vec<(Checkpoint, Files)>,
}

fn store_at(path: &Path) -> Store {
    Store::open(path, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap()
}

fn capture(store: &Store, workspace: &Path) -> Checkpoint {
    let options = Options { workspace: workspace.to_owned(), session: "s".into(), ..Options::default() };
    create::run(store, &options, &()).unwrap().checkpoint
}

fn picks(seed: u64, number: usize) -> Vec<u8> {
    let mut out = vec![0; number];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

/// Lines as of a source.
fn lines(seed: u64, number: usize) -> String {
    let words = ["let", "mut", "state", "walk", "folder", "entry", "self", "match", "node", "Ok(())", "blob", "size"];
    let picked = picks(seed, number * 9);
    let line = |(at, line): (usize, &[u8])| {
        let picked: Vec<&str> = line.iter().map(|byte| words[usize::from(*byte) % words.len()]).collect();
        format!("    {} {at} // {:x}{:x}\n", picked.join(" "), line[0], line[5])
    };
    picked.chunks(9).enumerate().map(line).collect()
}

/// The next version: a line of every third file becomes another, a few are rewritten in part, and one file is new.
fn change(files: &mut Files, version: usize) {
    for (number, bytes) in files.values_mut().enumerate() {
        if (number + version).is_multiple_of(3) {
            let at = usize::from(picks((version * 1000 + number) as u64, 1)[0]) * bytes.len() / 300;
            let line = lines((version * 77 + number) as u64, if number % 8 == 0 { 12 } else { 1 });
            let end = (at + line.len()).min(bytes.len());
            bytes.splice(at..end, line.into_bytes());
        }
    }
    files.insert(format!("new/{version}.rs"), lines(90_000 + version as u64, 20).into_bytes());
}

fn write(workspace: &Path, files: &Files) {
    for (path, bytes) in files {
        let path = workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if fs::read(&path).is_ok_and(|is| is == *bytes) {
            continue;
        }
        fs::write(path, bytes).unwrap();
    }
}

fn versions(number: usize) -> Versions {
    let dir = tempfile::tempdir().unwrap();
    let (store, workspace) = (store_at(&dir.path().join("store")), dir.path().join("w"));
    let mut files: Files =
        (0..60).map(|i| (format!("src{}/file{i}.rs", i % 5), lines(i, 60 + (i as usize * 37) % 300).into_bytes())).collect();
    let mut made = Vec::new();
    for version in 0..number {
        change(&mut files, version);
        write(&workspace, &files);
        made.push((capture(&store, &workspace), files.clone()));
    }
    Versions { dir, store, made }
}

fn packs_bytes(store: &Store) -> u64 {
    fs::read_dir(store.layout().packs()).unwrap().map(|pack| pack.unwrap().metadata().unwrap().len()).sum()
}

/// The most blocks that are decoded in a row, over all blocks.
fn deepest(store: &Store) -> u32 {
    let mut places = HashSet::new();
    let view = store.refresh().unwrap();
    view.each_object(|_, at| {
        places.insert(at);
        Ok(())
    })
    .unwrap();
    places.into_iter().map(|at| store.block(at).unwrap().depth).max().unwrap()
}

impl Versions {
    /// Deletes all versions but these, and collects garbage. Returns the bytes before and after, and of a new store of those that are left.
    fn keep(&mut self, keeps: impl Fn(usize) -> bool) -> (u64, u64, u64) {
        let before = packs_bytes(&self.store);
        let gone: Vec<Ulid> = (0..self.made.len()).filter(|i| !keeps(*i)).map(|i| self.made[i].0.record.id).collect();
        if !gone.is_empty() {
            delete_checkpoints(&self.store, &gone, None, &()).unwrap();
        }
        self.made.retain(|(checkpoint, _)| !gone.contains(&checkpoint.record.id));
        run(&self.store, &GcOptions::default(), &()).unwrap();
        self.all_read_back();
        (before, packs_bytes(&self.store), self.fresh_bytes())
    }

    fn all_read_back(&self) {
        for store in [&self.store, &Store::open(self.store.path(), &OpenOptions::default()).unwrap()] {
            for (checkpoint, files) in &self.made {
                assert!(content_of(store, checkpoint).unwrap() == *files);
            }
        }
        let report = check::run(self.store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }

    fn fresh_bytes(&self) -> u64 {
        let dir = tempfile::tempdir().unwrap();
        let (store, workspace) = (store_at(&dir.path().join("store")), dir.path().join("w"));
        for (_, files) in &self.made {
            write(&workspace, files);
            capture(&store, &workspace);
        }
        packs_bytes(&store)
    }

    fn workspace(&self) -> PathBuf {
        self.dir.path().join("w")
    }
}

#[test]
fn the_newest_of_sixty_versions_takes_what_it_takes_in_a_new_store() {
    let mut versions = versions(60);
    let (before, after, fresh) = versions.keep(|i| i == 59);
    assert!(after < before && after * 100 <= fresh * 115, "{before} bytes became {after}, and a new store has {fresh}");
    // Nothing is left to do.
    let report = run(&versions.store, &GcOptions::default(), &()).unwrap();
    assert_eq!((report.condemned_packs, report.added_packs), (0, 0));
    // The next version builds on what was made whole.
    let mut files = versions.made[0].1.clone();
    change(&mut files, 60);
    write(&versions.workspace(), &files);
    let grown = packs_bytes(&versions.store);
    let next = capture(&versions.store, &versions.workspace());
    assert!(content_of(&versions.store, &next).unwrap() == files);
    let grown = packs_bytes(&versions.store) - grown;
    assert!(grown * 4 < fresh, "{grown} of {fresh}");
}

#[test]
fn versions_of_which_nothing_is_left_in_the_first_pack_are_flattened() {
    let dir = tempfile::tempdir().unwrap();
    let (store, workspace) = (store_at(&dir.path().join("store")), dir.path().join("w"));
    let mut files: Files = (0..12).map(|i| (format!("src/file{i}.rs"), lines(i, 300).into_bytes())).collect();
    let mut made = Vec::new();
    for version in 0..40 {
        // A line of every file becomes another, so that the last pack has all that lives.
        for (number, bytes) in files.values_mut().enumerate() {
            let line = lines((version * 77 + number) as u64, 2);
            let at = usize::from(picks((version * 1000 + number) as u64, 1)[0]) * (bytes.len() - line.len()) / 256;
            bytes.splice(at..at + line.len(), line.into_bytes());
        }
        write(&workspace, &files);
        made.push((capture(&store, &workspace), files.clone()));
    }
    let mut versions = Versions { dir, store, made };
    let (before, after, fresh) = versions.keep(|i| i == 39);
    assert!(after < before && after * 100 <= fresh * 115, "{before} bytes became {after}, and a new store has {fresh}");
    let report = run(&versions.store, &GcOptions::default(), &()).unwrap();
    assert_eq!((report.condemned_packs, report.added_packs), (0, 0));
}

#[test]
fn whichever_versions_are_left_take_little_more_than_in_a_new_store() {
    type Keeps = fn(usize) -> bool;
    let cases: [(&str, Keeps, u64); 6] = [
        ("the last ten", |i| i >= 30, 115),
        ("the first", |i| i == 0, 115),
        ("the first and the last", |i| i == 0 || i == 39, 125),
        ("every second", |i| i % 2 == 0, 125),
        ("every tenth", |i| i % 10 == 3, 135),
        ("one in the middle and the last three", |i| i == 17 || i > 36, 135),
    ];
    for (name, keeps, percent) in cases {
        let mut versions = versions(40);
        let deepest_before = deepest(&versions.store);
        let (before, after, fresh) = versions.keep(keeps);
        assert!(
            after < before && after * 100 <= fresh * percent,
            "{name}: {before} bytes became {after}, a new store has {fresh}"
        );
        let deepest = deepest(&versions.store);
        assert!(deepest <= deepest_before.min(DEPTH_MAX), "{name}: {deepest_before} blocks in a row became {deepest}");
    }
}

#[test]
fn step_by_step_a_store_does_not_become_larger_than_all_at_once() {
    let mut versions = versions(30);
    for kept_from in (3..30).step_by(3) {
        let from = versions.made.len() - (30 - kept_from);
        let (before, after, _) = versions.keep(|i| i >= from);
        assert!(after <= before, "{kept_from}: {before} bytes became {after}");
    }
    let (_, after, fresh) = versions.keep(|i| i + 1 == 3);
    assert!(after * 100 <= fresh * 115, "{after} bytes, a new store has {fresh}");
}

#[test]
fn a_gc_to_which_nothing_was_given_makes_a_store_no_larger() {
    // Many small packs, which are copied together.
    let mut versions = versions(25);
    for _ in 0..3 {
        let before = packs_bytes(&versions.store);
        let report = run(&versions.store, &GcOptions::default(), &()).unwrap();
        let after = packs_bytes(&versions.store);
        assert!(after <= before, "{before} bytes became {after}: {report:?}");
    }
    assert!(versions.store.refresh().unwrap().packs().unwrap().len() <= 17);
    let (before, after, _) = versions.keep(|_| true);
    assert_eq!(before, after);
}

#[test]
fn a_writer_that_builds_on_what_is_flattened_loses_nothing() {
    let mut versions = versions(30);
    let newest = versions.made.last().unwrap().clone();
    let gone: Vec<Ulid> = versions.made.iter().rev().skip(1).map(|(checkpoint, _)| checkpoint.record.id).collect();
    let mut files = newest.1.clone();
    change(&mut files, 99);
    write(&versions.workspace(), &files);
    delete_checkpoints(&versions.store, &gone, None, &()).unwrap();
    // Another process collects garbage while this one is about to commit.
    let (other, progress) = (Store::open(versions.store.path(), &OpenOptions::default()).unwrap(), Mutex::new(true));
    let collects = Collects(&other, progress);
    let options = Options { workspace: versions.workspace(), session: "s".into(), ..Options::default() };
    let made = create::run(&versions.store, &options, &collects).unwrap().checkpoint;
    assert!(!*collects.1.lock().unwrap());
    versions.made = vec![newest, (made, files)];
    versions.all_read_back();
    run(&versions.store, &GcOptions::default(), &()).unwrap();
    versions.all_read_back();
}

/// Collects garbage once, when the commit begins.
struct Collects<'a>(&'a Store, Mutex<bool>);

impl Progress for Collects<'_> {
    fn phase(&self, phase: crate::progress::Phase, _: Option<u64>, _: Option<u64>) {
        if phase == crate::progress::Phase::Commit && std::mem::take(&mut *self.1.lock().unwrap()) {
            std::thread::scope(|scope| _ = scope.spawn(|| run(self.0, &GcOptions::default(), &()).unwrap()));
        }
    }
}
