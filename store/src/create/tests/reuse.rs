//! Objects that a run reuses are there as long as its checkpoint is, whatever gc and dead runs have done.

use std::collections::HashSet;

use super::*;
use crate::{
    check::{self, CheckOptions},
    delete::delete_checkpoints,
    gc::{self, GcOptions},
    id::{PackId, Ulid},
    pack::{ObjectKind, PackFile},
    testing::{Files, TestStore, content, content_of, files},
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
    let report = check::run(opened.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
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

/// Takes up what dead runs have left, as a new process does.
fn adopt(test: &TestStore) -> Result<(Store, orphans::Adoption), Error> {
    let store = test.open();
    let pin = Pin::take(&store.layout().pins(), true, "test")?;
    let adopted = orphans::adopt(&store, pin.op, &())?;
    pin.leave();
    Ok((store, adopted))
}

#[test]
fn of_a_dead_run_what_can_be_read_is_taken_up_and_nothing_else() {
    for is_base_there in [true, false] {
        let test = TestStore::new();
        let base = test.checkpoint(&files(1, 30));
        let dead = test.draft("test", &files(2, 30));
        let orphan = PackId::new(dead.pin.op, 0);
        dead.pin.leave();
        let (mut all, mut on_bases, mut recipes) = (HashSet::new(), HashSet::new(), HashSet::new());
        let scanned = PackFile::open(test.store.layout(), orphan).unwrap().scan(|_, directory| {
            for entry in &directory.entries {
                all.insert(entry.id.key());
                on_bases.extend((!directory.bases.is_empty()).then_some(entry.id.key()));
                recipes.extend((entry.kind == ObjectKind::RecipeRoot).then_some(entry.id.key()));
            }
            Ok(())
        });
        scanned.unwrap();
        assert!(on_bases.len() > 3 && all.len() > on_bases.len() + 3 && recipes.len() > 3);
        if !is_base_there {
            collect_all_but_orphans(&test, base, orphan);
        }
        let (store, adopted) = adopt(&test).unwrap();
        let taken: HashSet<_> = adopted.content.objects.keys().copied().collect();
        match is_base_there {
            true => assert_eq!((&taken, adopted.content.leans_on.len()), (&all, 1)),
            // Of the recipes, some had parts in those that went.
            false => assert_eq!(&taken | &recipes, &(&all - &on_bases) | &recipes),
        }
        for (key, at) in adopted.content.objects {
            assert!(store.block(at).unwrap().objects.iter().any(|(_, id, _)| id.key() == key));
        }
    }
}

#[test]
fn a_dead_runs_recipe_of_which_a_part_is_damaged_is_left_and_one_that_cannot_be_read_now_is_told() {
    for is_damaged in [true, false] {
        let test = TestStore::new();
        test.builds.set(false);
        test.cut.set(10);
        test.checkpoint(&[("long".to_owned(), content(1, 5))].into());
        let pack = test.store.layout().pack(*test.store.view().packs().unwrap().keys().next().unwrap());
        let longer = [content(1, 5), content(2, 1)].concat();
        test.draft("test", &[("long".to_owned(), longer.clone())].into()).pin.leave();
        test.store.absorb().unwrap();
        let mut bytes = fs::read(&pack).unwrap();
        fs::remove_file(&pack).unwrap();
        match is_damaged {
            // In the first block's payload.
            true => {
                let half = bytes.len() / 2;
                bytes[8..half].fill(0xaa);
                fs::write(&pack, bytes).unwrap();
            }
            false => fs::create_dir(&pack).unwrap(),
        }
        match adopt(&test) {
            Ok((_, adopted)) => {
                let root = crate::testing::ids().recipe_root(crate::testing::blob_id(&longer)).key();
                assert!(is_damaged && !adopted.packs.is_empty() && !adopted.content.objects.contains_key(&root));
            }
            Err(e) => assert!(!is_damaged && !e.is_damage(), "{e}"),
        }
    }
}

#[test]
fn what_a_dead_reader_has_left_stays_with_its_pin() {
    let test = TestStore::new();
    test.draft("test", &files(1, 3)).pin.leave();
    let mut reader = Pin::take(&test.store.layout().pins(), false, "restore").unwrap();
    reader.leaves(crate::pin::Leaves::new(b"/somewhere", true)).unwrap();
    let op = reader.op;
    reader.leave();
    assert!(!adopt(&test).unwrap().1.packs.is_empty());
    assert!(crate::pin::exists(&test.store.layout().pins(), op));
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
