use super::*;
use crate::disk::syncs;
use crate::testing::{TestStore, collect, content_of, files};

#[test]
fn a_deleted_pin_is_noticed_and_made_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("store.json"), "").unwrap();
    let folder = dir.path().join("pins");
    // As in a copy of a store that left empty folders out.
    assert!(list(&folder).unwrap().is_empty());
    let mut pin = Pin::take(&folder, true, "test").unwrap();
    for remove in [(|folder| fs::remove_dir_all(folder)) as fn(&Path) -> _, |folder| {
        fs::read_dir(folder)?.try_for_each(|entry| fs::remove_file(entry?.path()))
    }] {
        assert!(pin.is_held());
        remove(&folder).unwrap();
        assert!(!pin.is_held());
        pin.make_again().unwrap();
        let found = list(&folder).unwrap();
        assert!(pin.is_held() && found.len() == 1 && found[0].alive && found[0].text.writer);
    }
    drop(pin);
    assert!(list(&folder).unwrap().is_empty());
}

#[test]
fn what_is_no_file_is_no_pin_and_nothing_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{}.pin", OpId::generate()));
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let pin = Pin::take(dir.path(), true, "test").unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join(format!("{}.pin", OpId::generate()))).unwrap();
    let found = list(dir.path()).unwrap();
    assert_eq!((found.len(), found[0].op), (1, pin.op));
}

#[test]
fn pins_live_as_long_as_they_are_held() {
    let dir = tempfile::tempdir().unwrap();
    let mut pin = Pin::take(dir.path(), true, "test").unwrap();
    let checkpoint = Ulid::generate();
    pin.add([checkpoint]).unwrap();
    let found = list(dir.path()).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].alive && found[0].text.writer);
    assert_eq!(found[0].text.checkpoints, [checkpoint]);
    let dead = OpId::generate();
    fs::write(dir.path().join(format!("{dead}.pin")), "{}").unwrap();
    assert_eq!(list(dir.path()).unwrap().iter().filter(|p| !p.alive).count(), 1);
    assert!(is_held(dir.path(), pin.op) && !is_held(dir.path(), dead));
    assert!(seize(dir.path(), pin.op).unwrap().is_none() && seize(dir.path(), dead).unwrap().is_some());
    let op = pin.op;
    drop(pin);
    assert_eq!(list(dir.path()).unwrap().len(), 1);
    assert!(!is_held(dir.path(), op) && seize(dir.path(), op).unwrap().is_none());
}

#[test]
fn where_something_is_built_is_on_the_medium_before_anything_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut pin = Pin::take(dir.path(), true, "test").unwrap();
    let folder = dir.path().file_name().unwrap().to_str().unwrap();
    let leaves =
        Leaves::new(b"/out", true).and_mounts([b"a".to_vec()].into_iter()).and_opened([(b"b".to_vec(), 0o500)].into_iter());
    let (said, synced) = syncs::of(|| pin.leaves(leaves.clone()));
    said.unwrap();
    assert_eq!(synced, [&*format!("{}.pin", pin.op), folder]);
    for number in [0, 1] {
        assert!(syncs::failing(number, rustix::io::Errno::IO, || pin.leaves(leaves.clone())).0.is_err());
    }
    assert_eq!(builders(dir.path()).unwrap(), [(pin.op, leaves.clone())]);
    assert_eq!(leaves.folder().unwrap(), b"/out");
    assert_eq!(leaves.mounts().collect::<Vec<_>>(), [b"a"]);
    assert_eq!(leaves.opened().collect::<Vec<_>>(), [(b"b".to_vec(), 0o500)]);
}

#[test]
fn a_text_that_gets_shorter_leaves_nothing_of_the_longer_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut pin = Pin::take(dir.path(), false, "test").unwrap();
    let checkpoints: Vec<Ulid> = (0..3).map(|_| Ulid::generate()).collect();
    pin.add(checkpoints.clone()).unwrap();
    pin.leaves(Leaves::new(&[b'x'; 100], false)).unwrap();
    pin.leaves(Leaves::new(b"x", false)).unwrap();
    // What is pinned already is not pinned twice.
    pin.add([checkpoints[1]]).unwrap();
    let found = list(dir.path()).unwrap();
    assert_eq!((&found[0].text, found[0].alive), (&pin.text, true));
    assert_eq!(found[0].text.checkpoints, checkpoints);
    // The text of a pin that is just being made is not whole yet.
    fs::write(&pin.path, "").unwrap();
    assert!(list(dir.path()).unwrap()[0].text.writer);
    assert!(builders(dir.path()).unwrap().is_empty());
}

#[test]
fn what_is_left_on_purpose_is_there_and_dead() {
    let dir = tempfile::tempdir().unwrap();
    let pin = Pin::take(dir.path(), true, "test").unwrap();
    let op = pin.op;
    assert!(exists(dir.path(), op) && live_ops(&list(dir.path()).unwrap()).contains(&op));
    pin.leave();
    assert!(exists(dir.path(), op) && !is_held(dir.path(), op));
    assert!(live_ops(&list(dir.path()).unwrap()).is_empty());
    remove_dead(dir.path(), op).unwrap();
    assert!(!exists(dir.path(), op));
    remove_dead(dir.path(), op).unwrap();
}

#[test]
fn a_pin_that_cannot_be_looked_at_is_not_taken_for_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("{}.pin", OpId::generate()));
    use std::os::unix::process::CommandExt;
    // A program that runs cannot be opened for writing, not even by root.
    fs::copy("/bin/sleep", &path).unwrap();
    let mut running = loop {
        match std::process::Command::new(&path).arg0("sleep").arg("600").spawn() {
            // Another test's process was forked while the copy was open, and has not come to run its program yet.
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            started => break started.unwrap(),
        }
    };
    let found = list(dir.path());
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(found.is_err(), "{found:?}");
}

#[test]
fn no_folder_for_pins_is_made_where_no_store_is() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("pins");
    assert!(Pin::take(&folder, true, "test").is_err());
    assert!(!folder.exists());
}

#[test]
fn a_reader_without_a_pin_reads_on_and_fails_where_gc_has_been() {
    let test = TestStore::new();
    let (id, _) = (test.checkpoint(&files(1, 9)), test.checkpoint(&files(2, 9)));
    let (early, late) = (test.open(), test.open());
    let checkpoint = test.get(id);
    let pins = test.store.layout().pins();
    fs::rename(&pins, pins.with_extension("away")).unwrap();
    fs::write(&pins, "no folder").unwrap();
    let mut said = Vec::new();
    for _ in 0..2 {
        assert!(early.pin_for_reading([id], "test", |text| said.push(text.to_owned())).is_none());
        assert!(said.len() == 1 && said[0].contains("without a pin"), "{said:?}");
    }
    assert_eq!(content_of(&early, &checkpoint).unwrap(), files(1, 9));
    fs::remove_file(&pins).unwrap();
    fs::rename(pins.with_extension("away"), &pins).unwrap();
    test.delete(id);
    collect(&test);
    assert!(matches!(content_of(&late, &checkpoint), Err(crate::Error::Missing { .. })));
}
