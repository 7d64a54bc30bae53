//! What a run reuses is there as long as its checkpoint is, whatever gc and dead runs have done.

use super::*;
use crate::{
    check::{self, CheckOptions},
    delete::delete_checkpoints,
    gc::{self, GcOptions},
    id::PackId,
    testing::{Files, TestStore, content_of},
    view::tests::with_cached_lengths,
};

/// Runs something once, right before a commit, as another process would.
pub(super) struct BeforeCommit<F>(pub Mutex<Option<F>>);

impl<F: FnOnce() + Send> Progress for BeforeCommit<F> {
    fn phase(&self, phase: Phase, _: Option<u64>, _: Option<u64>) {
        if phase == Phase::Commit
            && let Some(work) = self.0.lock().unwrap().take()
        {
            std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        }
    }
}

/// Deletes a checkpoint, and has gc condemn what nothing else needs.
pub(super) fn delete_and_collect(store: &Path, checkpoint: Ulid) {
    let store = Store::open(store, &OpenOptions::default()).unwrap();
    delete_checkpoints(&store, &[checkpoint], None, &()).unwrap();
    assert!(gc::run(&store, &GcOptions::default(), &()).unwrap().condemned_packs > 0);
}

/// Collects garbage, and panics unless everything that is left is whole.
pub(super) fn assert_sound(store: &Path) -> Store {
    let opened = Store::open(store, &OpenOptions::default()).unwrap();
    gc::run(&opened, &GcOptions::default(), &()).unwrap();
    let report = check::run(store, &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    opened
}

#[test]
fn what_gc_condemns_between_walk_and_commit_is_written_again() {
    for is_cached in [false, true] {
        let f = fixture();
        f.write("f", &noise(50_000, 1));
        let first = f.create().checkpoint.record.id;
        // Another workspace has the same content, and no cache that names a checkpoint to pin.
        let (store, workspace) = (f.store.path().to_owned(), f._dir.path().join("other"));
        fs::create_dir(&workspace).unwrap();
        fs::copy(f.workspace.join("f"), workspace.join("f")).unwrap();
        let options = Options { workspace, session: "t".into(), ..Options::default() };
        let progress = BeforeCommit(Mutex::new(Some(|| delete_and_collect(&store, first))));
        let create = || run(&f.store, &options, &progress).unwrap();
        let made = if is_cached { with_cached_lengths(create) } else { create() };
        assert!(progress.0.lock().unwrap().is_none());
        assert!(made.new_bytes > 50_000, "what was condemned is not written again");
        // The packs of the try that was given up are taken up by the next one.
        assert!(made.notices.iter().any(|notice| notice.contains("interrupted")), "{:?}", made.notices);
        let read = content_of(&assert_sound(f.store.path()), &made.checkpoint).unwrap();
        assert_eq!(read, Files::from([("f".to_owned(), noise(50_000, 1))]));
    }
}

#[test]
fn a_commit_goes_by_the_journal_and_not_by_its_length() {
    let f = fixture();
    f.write("f", b"1");
    f.create();
    let slow = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    f.write("f", b"22");
    let second = f.create().checkpoint;
    f.write("f", b"333");
    let third = with_cached_lengths(|| run(&slow, &f.options(), &()).unwrap()).checkpoint;
    assert_eq!((third.record.parent, third.record.depth), (Some(second.record.id), second.record.depth + 1));
    assert_eq!(f.store.refresh().unwrap().head("s").unwrap().unwrap().record.id, third.record.id);
}

/// A store in which a run has died after it had written the recipe of `long`, whose two chunks it had found in the checkpoint
/// that is returned.
fn with_dead_run(long: &[u8]) -> (TestStore, Ulid, PackId) {
    let test = TestStore::new();
    let half = long.len() / 2;
    let halves: Files = [("a".to_owned(), long[..half].to_vec()), ("b".to_owned(), long[half..].to_vec())].into();
    test.cut.set(half);
    let base = test.checkpoint(&halves);
    let dead = test.draft("test", &[("long".to_owned(), long.to_vec())].into());
    let op = dead.pin.op;
    dead.pin.leave();
    (test, base, PackId::new(op, 0))
}

/// Deletes a checkpoint, and collects what it had, as a gc does that is killed before it comes to what dead runs have left.
fn collect_all_but_orphans(test: &TestStore, checkpoint: Ulid, orphan: PackId) {
    let layout = test.store.layout();
    let files = [layout.pack(orphan), layout.pins().join(format!("{}.pin", orphan.op()))];
    files.iter().for_each(|file| fs::rename(file, file.with_extension("away")).unwrap());
    delete_and_collect(test.store.path(), checkpoint);
    files.iter().for_each(|file| fs::rename(file.with_extension("away"), file).unwrap());
}

#[test]
fn a_dead_runs_recipe_whose_chunks_are_gone_is_not_taken_up() {
    // A file that is always cut, and one that is not: gc follows a recipe of either.
    for (bytes, is_there) in [(600_000, true), (5_000, true), (600_000, false), (5_000, false)] {
        let long = noise(bytes, 1);
        let (test, base, orphan) = with_dead_run(&long);
        collect_all_but_orphans(&test, base, orphan);
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::from([("other".to_owned(), noise(100, 2))]);
        if is_there {
            files.insert("long".to_owned(), long);
        }
        files.iter().for_each(|(name, bytes)| fs::write(folder.path().join(name), bytes).unwrap());
        let options = Options { workspace: folder.path().to_owned(), session: "s".into(), ..Options::default() };
        let outcome = run(&test.store, &options, &()).unwrap();
        assert!(outcome.notices.iter().any(|notice| notice.contains("interrupted")), "nothing was taken up");
        assert_eq!(content_of(&test.open(), &outcome.checkpoint).unwrap(), files, "{bytes} bytes");
        assert_eq!(content_of(&assert_sound(test.store.path()), &outcome.checkpoint).unwrap(), files, "{bytes} bytes");
    }
}

#[test]
fn a_dead_runs_recipe_keeps_the_chunks_that_it_found_in_the_store() {
    let long = noise(600_000, 1);
    let (test, base, _) = with_dead_run(&long);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("long"), &long).unwrap();
    let options = Options { workspace: folder.path().to_owned(), session: "s".into(), ..Options::default() };
    let store = test.store.path().to_owned();
    let progress = BeforeCommit(Mutex::new(Some(|| delete_and_collect(&store, base))));
    let outcome = run(&test.store, &options, &progress).unwrap();
    let read = content_of(&assert_sound(test.store.path()), &outcome.checkpoint).unwrap();
    assert_eq!(read, Files::from([("long".to_owned(), long)]));
}
