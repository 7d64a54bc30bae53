use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::*;
use crate::{
    check::{self, CheckOptions},
    create::{self, Options},
    delete::delete_checkpoints,
    gc,
    store::OpenOptions,
};

struct Place {
    dir: tempfile::TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        Self::with(OpenOptions { create: true, ..OpenOptions::default() })
    }

    fn with(options: OpenOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store"), &options).unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Place { dir, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a checkpoint with a large new file, and gives its id.
    fn create(&self, seed: u64) -> crate::id::Ulid {
        self.create_in(&self.store, seed)
    }

    fn create_in(&self, store: &Store, seed: u64) -> crate::id::Ulid {
        let mut bytes = vec![0; 300_000];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        fs::write(self.path("work/file"), bytes).unwrap();
        let options = Options { workspace: self.path("work"), session: "s".into(), ..Options::default() };
        create::run(store, &options, &()).unwrap().checkpoint.record.id
    }

    fn copy(&self, to: &str) -> Result<CopyReport> {
        run(&self.store, &self.path(to), &CopyOptions { make: true, ..CopyOptions::default() }, &())
    }

    fn ids(&self, name: &str) -> Vec<crate::id::Ulid> {
        let store = Store::open(&self.path(name), &OpenOptions::default()).unwrap();
        store.checkpoints().unwrap().iter().map(|checkpoint| checkpoint.record.id).collect()
    }

    fn assert_whole(&self, name: &str) {
        let store = Store::open(&self.path(name), &OpenOptions::default()).unwrap();
        let report = check::run(store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}

/// Every file below a folder that a copy has to have in common with its store.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let folders = ["packs", "journal", "memory"].map(|name| root.join(name));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.map(|path| (path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

#[test]
fn a_copy_has_everything_and_the_next_one_brings_what_is_new() {
    let place = Place::new();
    let ids = [place.create(1), place.create(2)];
    fs::create_dir(place.path("store/memory")).unwrap();
    fs::write(place.path("store/memory/project"), "learned").unwrap();
    let first = place.copy("copy").unwrap();
    assert!(first.made && first.checkpoints == 2 && first.copied_packs == first.packs && first.damaged.is_empty(), "{first:?}");
    assert_eq!(place.ids("copy"), ids);
    assert_eq!(files(&place.path("store")), files(&place.path("copy")));
    place.assert_whole("copy");
    assert!(!place.path("copy/store.json.copying").exists());
    let third = place.create(3);
    fs::write(place.path("store/memory/project"), "learned more").unwrap();
    let next = place.copy("copy").unwrap();
    assert!(!next.made && next.copied_packs > 0 && next.copied_packs < next.packs, "{next:?}");
    assert_eq!(place.ids("copy"), [ids[0], ids[1], third]);
    assert_eq!(files(&place.path("store")), files(&place.path("copy")));
    let same = place.copy("copy").unwrap();
    assert_eq!((same.copied_packs, same.copied_bytes), (0, 0));
}

#[test]
fn a_copy_that_is_missing_is_made_only_where_that_is_asked_for() {
    let place = Place::new();
    place.create(1);
    let missing = run(&place.store, &place.path("copy"), &CopyOptions::default(), &());
    assert!(matches!(missing, Err(Error::NoStore { .. })) && !place.path("copy").exists());
    fs::create_dir(place.path("other")).unwrap();
    assert!(matches!(run(&place.store, &place.path("other"), &CopyOptions::default(), &()), Err(Error::NoStore { .. })));
    fs::write(place.path("other/thesis"), "mine").unwrap();
    assert!(matches!(place.copy("other"), Err(Error::NotAStore { .. })));
    assert_eq!(fs::read_dir(place.path("other")).unwrap().count(), 1);
    for inside in ["store", "store/copy", "."] {
        assert!(matches!(place.copy(inside), Err(Error::Invalid(_))), "{inside}");
    }
}

#[test]
fn another_store_and_a_newer_copy_are_refused_and_left_as_they_are() {
    let place = Place::new();
    place.create(1);
    place.copy("copy").unwrap();
    let other = Place::new();
    other.create(9);
    let said = run(&other.store, &place.path("copy"), &CopyOptions { make: true, ..CopyOptions::default() }, &()).unwrap_err();
    assert!(said.to_string().contains("another store"), "{said}");
    // An older copy of the store in the store's place.
    assert!(
        std::process::Command::new("cp").arg("-a").args([place.path("store"), place.path("older")]).status().unwrap().success()
    );
    place.create(2);
    place.copy("copy").unwrap();
    let before = files(&place.path("copy"));
    let older = Store::open(&place.path("older"), &OpenOptions::default()).unwrap();
    let refused = run(&older, &place.path("copy"), &CopyOptions::default(), &()).unwrap_err();
    assert!(refused.to_string().contains("the copy is newer") && refused.kind() == crate::ErrorKind::Refused, "{refused}");
    // It is told also when something else was recorded in it, as much or more.
    for seed in 5..9 {
        place.create_in(&older, seed);
        let refused = run(&older, &place.path("copy"), &CopyOptions::default(), &()).unwrap_err();
        assert_eq!(refused.kind(), crate::ErrorKind::Refused, "{refused}");
    }
    assert_eq!(files(&place.path("copy")), before);
}

#[test]
fn nothing_goes_from_a_copy_unless_that_is_asked_for() {
    let place = Place::new();
    let (first, second) = (place.create(1), place.create(2));
    place.copy("copy").unwrap();
    let packs = |name: &str| fs::read_dir(place.path(name).join("packs")).unwrap().count();
    delete_checkpoints(&place.store, &[first], None, &()).unwrap();
    gc::run(&place.store, &Default::default(), &()).unwrap();
    place.store.refresh().unwrap();
    assert_eq!(place.copy("copy").unwrap().removed_packs, 0);
    assert!(packs("copy") > packs("store"));
    assert_eq!(place.ids("copy"), [second]);
    place.assert_whole("copy");
    let options = CopyOptions { remove_freed: true, ..CopyOptions::default() };
    assert!(run(&place.store, &place.path("copy"), &options, &()).unwrap().removed_packs > 0);
    assert_eq!(packs("copy"), packs("store"));
    place.assert_whole("copy");
}

#[test]
fn a_copy_that_was_interrupted_goes_on() {
    let place = Place::new();
    place.create(1);
    place.copy("copy").unwrap();
    // As the first copy is before its end, and a later one in the middle of a pack and of the journal.
    fs::rename(place.path("copy/store.json"), place.path("copy/store.json.copying")).unwrap();
    fs::remove_file(place.path("copy/journal/store.json")).unwrap();
    assert!(Store::open(&place.path("copy"), &OpenOptions::default()).is_err());
    fs::write(place.path("copy/cache/x.copying"), "half").unwrap();
    assert!(run(&place.store, &place.path("copy"), &CopyOptions::default(), &()).unwrap().made);
    assert!(!place.path("copy/cache/x.copying").exists());
    place.create(2);
    let segment = fs::read_dir(place.path("copy/journal")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some_and(|ending| ending == "log")).max().unwrap();
    let whole = fs::read(place.path("store/journal").join(segment.file_name().unwrap())).unwrap();
    let has = fs::read(&segment).unwrap().len();
    fs::write(&segment, &whole[..has + 10]).unwrap();
    let pack = fs::read_dir(place.path("copy/packs")).unwrap().next().unwrap().unwrap().path();
    fs::write(&pack, "cut").unwrap();
    place.copy("copy").unwrap();
    assert_eq!(files(&place.path("store")), files(&place.path("copy")));
    place.assert_whole("copy");
}

#[test]
fn damage_of_the_store_is_named_and_takes_no_whole_packs_place() {
    let place = Place::new();
    place.create(1);
    place.copy("copy").unwrap();
    let packs: Vec<PathBuf> = fs::read_dir(place.path("store/packs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for pack in &packs {
        let mut bytes = fs::read(pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(pack, bytes).unwrap();
    }
    assert!(place.copy("copy").unwrap().damaged.is_empty(), "the copy has them whole");
    place.assert_whole("copy");
    let spread = place.copy("second").unwrap();
    assert_eq!(spread.damaged.len(), packs.len());
    fs::remove_file(&packs[0]).unwrap();
    let lacking = place.copy("third").unwrap();
    assert!(lacking.damaged.iter().any(|(_, fault)| fault == "it is missing"), "{lacking:?}");
}

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Damages bytes in the middle of every pack, which unit tests write without parity.
fn damage_packs(store: &Path) {
    for pack in fs::read_dir(store.join("packs")).unwrap().map(|entry| entry.unwrap().path()) {
        let mut bytes = fs::read(&pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 1000].iter_mut().for_each(|byte| *byte ^= 0xff);
        fs::write(pack, bytes).unwrap();
    }
}

/// Repairs a store, and returns the number of objects that stay lost.
fn repair(store: &Path, from: &[PathBuf]) -> usize {
    let layout = crate::layout::Layout::new(store);
    let plan = check::plan_repair(&layout, from, &()).unwrap();
    check::repair(&layout, &plan, PATIENCE, &()).unwrap();
    check::run(&layout, &CheckOptions::default(), &()).unwrap();
    plan.lost.len()
}

#[test]
fn what_the_store_has_lost_stays_in_the_copy_until_it_was_taken_from_there() {
    let place = Place::new();
    let ids = [place.create(1), place.create(2)];
    place.copy("copy").unwrap();
    let whole = files(&place.path("copy"));
    damage_packs(&place.path("store"));
    assert!(repair(&place.path("store"), &[]) > 0);
    for remove_freed in [false, true] {
        let options = CopyOptions { remove_freed, ..CopyOptions::default() };
        let refused = run(&place.store, &place.path("copy"), &options, &()).unwrap_err();
        assert_eq!(refused.kind(), crate::ErrorKind::Corrupt, "{refused}");
        assert!(refused.to_string().contains("a repair from a copy"), "{refused}");
        assert!(files(&place.path("copy")) == whole);
    }
    place.assert_whole("copy");
    // A copy of what is left can be made, and nothing is ever removed from it.
    place.copy("late").unwrap();
    let options = CopyOptions { remove_freed: true, ..CopyOptions::default() };
    let refused = run(&place.store, &place.path("late"), &options, &()).unwrap_err();
    assert!(refused.to_string().contains("nothing is removed from it"), "{refused}");
    assert_eq!(repair(&place.path("store"), &[place.path("copy")]), 0);
    place.assert_whole("store");
    let report = run(&place.store, &place.path("copy"), &options, &()).unwrap();
    assert!(report.removed_packs > 0 && report.damaged.is_empty(), "{report:?}");
    place.assert_whole("copy");
    assert_eq!(place.ids("copy"), ids);
}

#[test]
fn a_pack_that_was_copied_damaged_is_named_again_until_it_is_replaced() {
    let place = Place::new();
    place.create(1);
    let whole = files(&place.path("store"));
    damage_packs(&place.path("store"));
    for _ in 0..3 {
        assert!(!place.copy("copy").unwrap().damaged.is_empty());
    }
    for (path, bytes) in &whole {
        fs::write(place.path("store").join(path), bytes).unwrap();
    }
    let report = place.copy("copy").unwrap();
    assert!(report.damaged.is_empty() && report.copied_packs > 0, "{report:?}");
    place.assert_whole("copy");
    assert_eq!(place.copy("copy").unwrap().copied_packs, 0);
}

#[test]
fn what_parity_gives_back_is_copied_as_it_was_written() {
    let place = Place::with(OpenOptions { create: true, parity: true, ..OpenOptions::default() });
    place.create(1);
    let whole = files(&place.path("store"));
    for pack in whole.keys().filter(|path| path.extension().is_some_and(|ending| ending == "pack")) {
        let mut bytes = whole[pack].clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(place.path("store").join(pack), bytes).unwrap();
    }
    let report = place.copy("copy").unwrap();
    assert!(report.damaged.is_empty(), "{report:?}");
    assert!(files(&place.path("copy")) == whole);
    place.assert_whole("copy");
}

#[test]
fn packs_that_a_check_of_the_copy_found_damaged_are_replaced() {
    let place = Place::new();
    place.create(1);
    place.copy("copy").unwrap();
    damage_packs(&place.path("copy"));
    let layout = crate::layout::Layout::new(place.path("copy"));
    assert!(!check::run(&layout, &CheckOptions { read_data_percent: Some(100) }, &()).unwrap().is_clean());
    let report = place.copy("copy").unwrap();
    assert!(report.copied_packs > 0 && report.damaged.is_empty(), "{report:?}");
    assert_eq!(files(&place.path("store")), files(&place.path("copy")));
    place.assert_whole("copy");
    assert_eq!(place.copy("copy").unwrap().copied_packs, 0);
}

#[test]
fn a_copy_that_was_verified_repaired_or_collected_by_itself_is_brought_up_to_date() {
    use crate::event::{Actor, NewEvent, kind};
    let state = tempfile::tempdir().unwrap();
    let options = OpenOptions { memory: Some(state.path().to_owned()), ..OpenOptions::default() };
    for is_absorbed in [false, true] {
        let place = Place::with(OpenOptions { create: true, ..options.clone() });
        let first = place.create(1);
        place.copy("copy").unwrap();
        let copy = Store::open(&place.path("copy"), &options).unwrap();
        for kind in [kind::CHECKPOINT_VERIFIED, kind::STORE_CHECKED] {
            let event = NewEvent::new(kind, first.to_string(), Actor::default()).with("level", "index").with("ok", true);
            copy.append_events(&[event.with("problems", 0)], &()).unwrap();
        }
        drop(copy);
        damage_packs(&place.path("copy"));
        assert_eq!(repair(&place.path("copy"), &[place.path("store")]), 0);
        let copy = Store::open(&place.path("copy"), &options).unwrap();
        gc::run(&copy, &Default::default(), &()).unwrap();
        if is_absorbed {
            copy.absorb().unwrap();
        }
        drop(copy);
        let same = place.copy("copy").unwrap();
        assert!(same.damaged.is_empty(), "{same:?}");
        place.assert_whole("copy");
        let opened = Store::open(&place.path("copy"), &options).unwrap();
        assert!(opened.younger().is_none(), "{:?}", opened.younger());
        drop(opened);
        let second = place.create(2);
        place.copy("copy").unwrap();
        place.assert_whole("copy");
        assert_eq!(place.ids("copy"), [first, second]);
        assert_eq!(journal_of(&place.path("store")), journal_of(&place.path("copy")));
    }
}

fn journal_of(store: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(store).into_iter().filter(|(path, _)| path.starts_with("journal") && !path.ends_with("synced")).collect()
}

#[test]
fn a_copy_that_cannot_be_set_back_for_damage_of_the_store_is_left_as_it_is() {
    use crate::event::{Actor, NewEvent, kind};
    let place = Place::new();
    place.create(1);
    place.copy("copy").unwrap();
    let copy = Store::open(&place.path("copy"), &OpenOptions::default()).unwrap();
    copy.append_events(&[NewEvent::new(kind::STORE_CHECKED, "store", Actor::default())], &()).unwrap();
    drop(copy);
    let journal = journal_of(&place.path("copy"));
    for pack in fs::read_dir(place.path("copy/packs")).unwrap() {
        fs::remove_file(pack.unwrap().path()).unwrap();
    }
    damage_packs(&place.path("store"));
    let refused = place.copy("copy").unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::Corrupt, "{refused}");
    assert_eq!(journal_of(&place.path("copy")), journal);
}

#[test]
fn a_damaged_journal_is_not_copied_and_a_mended_one_is_with_the_settings() {
    let place = Place::new();
    place.create(1);
    place.copy("copy").unwrap();
    let ids = [place.create(2), place.create(3)];
    let before = files(&place.path("copy"));
    let segment = place.path("store/journal/00000000000000000001.log");
    let whole = fs::read(&segment).unwrap();
    let hurt = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at..at + 400].iter_mut().for_each(|byte| *byte ^= 0xff);
        bytes
    };
    for bytes in [hurt(whole.len() / 2), hurt(whole.len() - 500), whole[..700].to_vec(), whole[..100].to_vec()] {
        fs::write(&segment, bytes).unwrap();
        let store = Store::open(&place.path("store"), &OpenOptions::default()).unwrap();
        for to in ["copy", "new"] {
            let options = CopyOptions { make: true, ..CopyOptions::default() };
            let refused = run(&store, &place.path(to), &options, &()).unwrap_err();
            assert_eq!(refused.kind(), crate::ErrorKind::Corrupt, "{refused}");
        }
        assert!(files(&place.path("copy")) == before && !place.path("new").exists());
    }
    fs::write(&segment, hurt(whole.len() / 2)).unwrap();
    let layout = place.store.layout();
    check::mend(layout, &[], PATIENCE, &()).unwrap();
    let store = Store::open(&place.path("store"), &OpenOptions::default()).unwrap();
    run(&store, &place.path("copy"), &CopyOptions::default(), &()).unwrap();
    assert_eq!(fs::read(place.path("store/store.json")).unwrap(), fs::read(place.path("copy/store.json")).unwrap());
    assert_eq!(files(&place.path("store")), files(&place.path("copy")));
    place.assert_whole("copy");
    assert!(ids.iter().all(|id| place.ids("copy").contains(id)));
}

#[test]
fn a_damaged_journal_of_the_copy_is_replaced_unless_it_may_tell_of_more() {
    let place = Place::new();
    let ids = [place.create(1), place.create(2), place.create(3)];
    place.copy("copy").unwrap();
    let segment = place.path("copy/journal/00000000000000000001.log");
    let whole = fs::read(&segment).unwrap();
    for at in [0, 10, 70, whole.len() / 2, whole.len() - 450, whole.len() - 10] {
        let mut bytes = whole.clone();
        let end = (at + 400).min(bytes.len());
        bytes[at..end].iter_mut().for_each(|byte| *byte ^= 0xff);
        fs::write(&segment, &bytes).unwrap();
        place.copy("copy").unwrap();
        assert_eq!(fs::read(&segment).unwrap(), whole, "{at}");
        assert_eq!(place.ids("copy"), ids, "{at}");
    }
    // A commit of the copy's own, which cannot be read.
    let copy = Store::open(&place.path("copy"), &OpenOptions::default()).unwrap();
    place.create_in(&copy, 4);
    drop(copy);
    let mut bytes = fs::read(&segment).unwrap();
    let end = bytes.len();
    bytes[whole.len() + 60..end].iter_mut().for_each(|byte| *byte ^= 0xff);
    for bytes in [bytes.clone(), bytes[..whole.len() + 100].to_vec()] {
        fs::write(&segment, &bytes).unwrap();
        let refused = place.copy("copy").unwrap_err();
        assert_eq!(refused.kind(), crate::ErrorKind::Corrupt, "{refused}");
        assert_eq!(fs::read(&segment).unwrap(), bytes);
    }
}

#[test]
fn either_copy_of_the_settings_is_enough_on_both_sides() {
    let place = Place::new();
    place.create(1);
    place.copy("copy").unwrap();
    let settings = fs::read(place.path("store/store.json")).unwrap();
    for hurt in ["store/store.json", "store/journal/store.json", "copy/store.json", "copy/journal/store.json"] {
        for text in [None, Some("{")] {
            match text {
                None => fs::remove_file(place.path(hurt)).unwrap(),
                Some(text) => fs::write(place.path(hurt), text).unwrap(),
            }
            let store = Store::open(&place.path("store"), &OpenOptions::default()).unwrap();
            assert!(!run(&store, &place.path("copy"), &CopyOptions::default(), &()).unwrap().made, "{hurt}");
            for copy in ["copy/store.json", "copy/journal/store.json"] {
                assert_eq!(fs::read(place.path(copy)).unwrap(), settings, "{hurt}: {copy}");
            }
            fs::write(place.path(hurt), &settings).unwrap();
        }
    }
}
