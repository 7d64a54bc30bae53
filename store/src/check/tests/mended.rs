//! Repairs of the journal that ended half-way.

use super::*;
use crate::{
    event::{Actor, NewEvent},
    journal::{Journal, Position},
};

fn note(test: &TestStore, text: &str) {
    test.store.append_events(&[NewEvent::new("note", text, Actor::program("test"))], &()).unwrap();
}

#[test]
fn a_repair_that_ends_between_records_of_a_copy_is_gone_on_with() {
    let test = TestStore::new();
    for letter in ["a", "b", "c", "d", "e"] {
        note(&test, &letter.repeat(3 << 20));
    }
    let layout = test.store.layout();
    let segments = Journal::of(layout).segments().unwrap();
    let journal: Vec<_> = segments.iter().map(|first| layout.journal().join(Journal::segment_name(*first))).collect();
    let whole = test.store.path().with_file_name("whole");
    assert!(std::process::Command::new("cp").arg("-a").args([test.store.path(), &whole]).status().unwrap().success());
    let read = || Journal::of(layout).read(&Position::start()).unwrap();
    let _ = fs::remove_dir_all(layout.view());
    let hint = fs::read(layout.journal().join("synced")).unwrap();
    for failing in 0..20 {
        for file in fs::read_dir(layout.journal()).unwrap().map(|file| file.unwrap().path()) {
            file.extension().is_some_and(|ending| ending == "log").then(|| fs::remove_file(file).unwrap());
        }
        let first = fs::read(whole.join("journal").join(journal[0].file_name().unwrap())).unwrap();
        let length = 64 + 48 + u32::from_le_bytes(*first[64..].first_chunk().unwrap()) as usize;
        fs::write(&journal[0], &first[..length]).unwrap();
        fs::write(layout.journal().join("synced"), &hint).unwrap();
        let again = || mend(layout, std::slice::from_ref(&whole), PATIENCE, &());
        let (_, syncs) = crate::disk::syncs::failing(failing, rustix::io::Errno::IO, again);
        again().unwrap();
        assert_eq!((read().end.sequence, read().missing), (5, 0), "{failing} of {syncs:?}");
    }
}

#[test]
fn a_segment_without_a_name_gets_it_from_the_next_repair() {
    let test = TestStore::new();
    test.checkpoint(&files(1, 3));
    let (layout, first) = (test.store.layout(), test.store.layout().journal().join(Journal::segment_name(1)));
    // An append that was cut off: the next one begins a segment.
    fs::write(&first, [&fs::read(&first).unwrap()[..], &[0]].concat()).unwrap();
    note(&test, "b");
    let before = Journal::of(layout).read(&Position::start()).unwrap();
    let last = layout.journal().join(Journal::segment_name(before.end.segment));
    assert!(last != first);
    // On a filesystem without hard links, the power went between two renames.
    fs::copy(&last, last.with_extension("unreadable")).unwrap();
    fs::rename(&last, last.with_extension("mended")).unwrap();
    // Left by another try, which took back what it had done.
    fs::write(first.with_extension("mended"), "older").unwrap();
    let planned = plan_mend(layout, &[], &()).unwrap();
    assert!(planned.is_half_done && !planned.is_nothing() && !planned.loses_records(), "{planned:?}");
    assert!(!mend(layout, &[], PATIENCE, &()).unwrap().loses_records());
    assert_eq!(Journal::of(layout).read(&Position::start()).unwrap().end, before.end);
    assert!(!first.with_extension("mended").exists() && plan_mend(layout, &[], &()).unwrap().is_nothing());
}
