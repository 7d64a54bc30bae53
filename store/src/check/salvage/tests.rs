use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::PathBuf};

use super::*;
use crate::{
    check::{self, CheckOptions},
    event::{Actor, NewEvent},
    testing::{Files, TestStore, collect, content_of, files},
};

const ALL: CheckOptions = CheckOptions { read_data_percent: Some(100) };

/// A store of some checkpoints, of which later ones build on earlier ones, and what is in each.
fn store(count: u64) -> (TestStore, BTreeMap<Ulid, Files>) {
    let test = TestStore::new();
    let made = (0..count).map(|seed| {
        let files = files(seed, 9);
        (test.checkpoint(&files), files)
    });
    let made = made.collect();
    (test, made)
}

fn every_file(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => _ = found.insert(entry.path(), fs::read(entry.path()).unwrap()),
            }
        }
    }
    found
}

/// Reads a salvaged store in full, and compares it with what was captured.
fn assert_holds(report: &SalvageReport, expected: &BTreeMap<Ulid, Files>) {
    let store = Store::open(&report.to, &OpenOptions::default()).unwrap();
    let found: BTreeMap<Ulid, Files> =
        store.checkpoints().unwrap().iter().map(|c| (c.record.id, content_of(&store, c).unwrap())).collect();
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    assert!(found == *expected);
    let checked = check::run(store.layout(), &ALL, &()).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
}

#[test]
fn every_checkpoint_comes_back_without_journal_settings_or_index() {
    let (test, made) = store(7);
    let layout = test.store.layout().clone();
    let latest = *made.keys().next_back().unwrap();
    for gone in ["journal", "journal store.json", "journal store.json view cache pins lock"] {
        let root = layout.root.with_file_name(gone.replace(' ', "-"));
        std::process::Command::new("cp").arg("-a").args([&layout.root, &root]).status().unwrap();
        for name in gone.split(' ') {
            let path = root.join(name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        let before = every_file(&root);
        let report = salvage(&Layout::new(&root), None, &()).unwrap();
        assert_eq!(report.to, beside(&root));
        assert_holds(&report, &made);
        assert_eq!((report.kept(), report.whole(), report.deleted), (7, 7, 0));
        assert!(report.damaged_packs.is_empty() && report.journal_fault.is_some(), "{report:?}");
        assert_eq!(report.settings_fault.is_some(), gone.contains("store.json"));
        assert_eq!(report.checkpoints[0].id, latest);
        let after = every_file(&root);
        assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)), "the old store was changed");
        // A second one would have the same name.
        let refused = salvage(&Layout::new(&root), None, &()).unwrap_err();
        assert!(refused.to_string().contains("it exists, and nothing is overwritten"), "{refused}");
        let other = PathBuf::from(format!("{}.elsewhere", root.display())).join("deep");
        assert_holds(&salvage(&Layout::new(&root), Some(&other), &()).unwrap(), &made);
    }
}

#[test]
fn an_older_copy_of_the_journal_hides_nothing_that_packs_hold() {
    let (test, mut made) = store(6);
    test.store.absorb().unwrap();
    let older = test.journal_files();
    for id in made.keys().copied().take(4).collect::<Vec<_>>() {
        test.delete(id);
        made.remove(&id);
    }
    let later = files(77, 9);
    let new = test.checkpoint(&later);
    collect(&test);
    test.put_back_journal(&older);
    fs::remove_dir_all(test.store.layout().view()).unwrap();
    let report = salvage(test.store.layout(), None, &()).unwrap();
    // The older journal knows of no deletion.
    let kept: Vec<Ulid> = report.checkpoints.iter().filter(|c| c.kept && c.hurt_paths == 0).map(|c| c.id).collect();
    made.insert(new, later);
    assert!(made.keys().all(|id| kept.contains(id)), "{report:?}");
    let told = report.checkpoints.iter().find(|c| c.id == new).unwrap();
    assert!(!told.in_journal && report.journal_fault.is_some());
    assert_eq!(report.checkpoints[0].id, new);
    let store = Store::open(&report.to, &OpenOptions::default()).unwrap();
    for (id, files) in &made {
        let checkpoint = store.checkpoints().unwrap().into_iter().find(|c| c.record.id == *id).unwrap();
        assert!(content_of(&store, &checkpoint).unwrap() == *files);
    }
}

#[test]
fn what_the_journal_still_tells_is_taken_over() {
    let (test, mut made) = store(5);
    let ids: Vec<Ulid> = made.keys().copied().collect();
    let event = NewEvent::new("checkpoint.tagged", ids[4].to_string(), Actor::program("test")).with("tag", "good");
    test.store.append_events(&[event], &()).unwrap();
    test.delete(ids[0]);
    made.remove(&ids[0]);
    let report = salvage(test.store.layout(), None, &()).unwrap();
    assert_holds(&report, &made);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(report.deleted, 1);
    let store = Store::open(&report.to, &OpenOptions::default()).unwrap();
    let tagged = |store: &Store| {
        let events = store.events_after(0).unwrap().into_iter().map(|(_, event)| event);
        events.filter(|event| event.kind == "checkpoint.tagged").collect::<Vec<_>>()
    };
    assert!(tagged(&store) == tagged(&test.store) && tagged(&store).len() == 1);
    assert_eq!(store.config().id, test.store.config().id);
    assert_eq!(store.view().last_event().unwrap(), test.store.view().last_event().unwrap());
}

#[test]
fn of_damaged_packs_what_is_whole_is_taken_and_they_are_named() {
    let (test, made) = store(8);
    let layout = test.store.layout();
    let pack =
        test.store.locate(crate::pack::ObjectKind::Record, test.get(*made.keys().nth(2).unwrap()).digest.object()).unwrap();
    let sound = fs::read(layout.pack(pack.pack)).unwrap();
    fs::remove_dir_all(layout.journal()).unwrap();
    for (number, damage) in ["flipped", "torn", "headless", "gone"].into_iter().enumerate() {
        let mut bytes = sound.clone();
        match damage {
            "flipped" => bytes[100] ^= 1,
            "torn" => bytes.truncate(sound.len() - 100),
            "headless" => bytes[..30].fill(0),
            _ => bytes.fill(0),
        }
        fs::write(layout.pack(pack.pack), &bytes).unwrap();
        let to = layout.root.with_extension(number.to_string());
        let report = salvage(layout, Some(&to), &()).unwrap();
        assert!(report.damaged_packs.iter().any(|damaged| damaged.pack == pack.pack), "{damage}: {report:?}");
        assert!(!report.is_complete());
        let store = Store::open(&report.to, &OpenOptions::default()).unwrap();
        let mut whole = 0;
        for checkpoint in store.checkpoints().unwrap() {
            let told = report.checkpoints.iter().find(|c| c.id == checkpoint.record.id).unwrap();
            let read = content_of(&store, &checkpoint);
            assert_eq!(read.is_ok(), told.hurt_paths == 0, "{damage}: {told:?}");
            whole += u64::from(read.is_ok_and(|files| files == made[&checkpoint.record.id]));
        }
        assert_eq!(whole, report.whole(), "{damage}");
        assert!(whole >= 1, "{damage}");
    }
}

#[test]
fn where_it_fails_nothing_is_left_and_a_store_without_packs_is_refused() {
    let (test, _) = store(2);
    let layout = test.store.layout();
    let to = layout.root.with_file_name("to");
    struct Stops;
    impl Progress for Stops {
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    assert!(matches!(salvage(layout, Some(&to), &Stops), Err(Error::Cancelled)));
    let inside = salvage(layout, Some(&layout.root.join("a/b")), &()).unwrap_err();
    assert!(inside.to_string().contains("only read"), "{inside}");
    let names: Vec<_> = fs::read_dir(layout.root.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["store"], "{names:?}");
    let empty = layout.root.with_file_name("empty");
    fs::create_dir_all(empty.join("packs")).unwrap();
    assert!(matches!(salvage(&Layout::new(&empty), None, &()), Err(Error::NotAStore { .. })));
    let newer = fs::read_to_string(layout.config()).unwrap().replace("\"parhelia_store\": 1", "\"parhelia_store\": 9");
    fs::write(layout.config(), newer).unwrap();
    assert!(matches!(salvage(layout, Some(&to), &()), Err(Error::FormatNewer { .. })));
    assert!(!to.exists());
}

#[test]
fn a_store_that_takes_no_writes_is_salvaged() {
    let (test, made) = store(3);
    let layout = test.store.layout();
    fs::remove_dir_all(layout.journal()).unwrap();
    fs::remove_file(layout.config()).unwrap();
    for folder in [layout.packs(), layout.root.clone()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o500)).unwrap();
    }
    let before = every_file(&layout.root);
    let report = salvage(layout, None, &()).unwrap();
    assert_holds(&report, &made);
    for folder in [layout.root.clone(), layout.packs()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert!(every_file(&layout.root).iter().all(|(path, bytes)| before.get(path) == Some(bytes)));
}
