//! The tracker with a tree of files, without a kernel.

use std::sync::Mutex;

use super::{
    Entry, Next, Scope, Source,
    decode::{BYTES_MAX, FILE_BYTES_MAX, decode_entries},
    tracker::{AccessHint, ENTRIES_MAX, Push, Tracker},
};
use crate::{counts::Counters, fault::Fault};

/// Files of one length, one behind the other.
#[derive(Default)]
struct Row {
    bytes: u64,
    visited: Mutex<Vec<u64>>,
    decoded: Mutex<Vec<u64>>,
}

impl Source for Row {
    fn entries(&self, ino: u64, scope: Scope, visit: &mut dyn FnMut(Entry) -> Next) -> Result<(), Fault> {
        assert_eq!(scope, Scope::Behind);
        for at in ino + 1..100_000 {
            self.visited.lock().unwrap().push(at);
            // A hard link, as one says, to what stands before everything.
            if visit(Entry { at, ino: 1, bytes: self.bytes }) == Next::Stop {
                break;
            }
        }
        Ok(())
    }

    fn prefetch(&self, ino: u64) -> Result<(), Fault> {
        self.decoded.lock().unwrap().push(ino);
        Ok(())
    }

    fn read(&self, _: u64, _: u64, _: u64, _: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
        unreachable!()
    }
}

/// Notes requests, and does at once what is due. Returns the number of times that a decoding thread is woken, and the steps to push for.
fn after(tracker: &Tracker, row: &Row, asked: &[AccessHint]) -> (usize, Vec<Push>) {
    let (mut wakes, mut pushes) = (0, Vec::new());
    for hint in asked {
        let due = tracker.note(*hint);
        if let Some(reader) = due.decode {
            wakes += 1;
            decode_entries(tracker, row, reader, &Counters::default());
        }
        if let Some(push) = due.push {
            tracker.end_push(push.reader);
            pushes.push(push);
        }
    }
    (wakes, pushes)
}

/// The entries that are visited, and those that are decoded, after these requests.
fn visited_and_decoded(bytes: u64, asked: &[AccessHint]) -> (Vec<u64>, Vec<u64>) {
    let row = Row { bytes, ..Row::default() };
    after(&Tracker::default(), &row, asked);
    (row.visited.into_inner().unwrap(), row.decoded.into_inner().unwrap())
}

#[test]
fn a_reader_that_lists_folder_after_folder_has_the_next_ones_decoded_each_once() {
    let asked: Vec<_> = (0..3000).map(|i| AccessHint::Listed(10 + i)).collect();
    let (visited, decoded) = visited_and_decoded(5, &asked);
    let last = *visited.last().unwrap();
    assert!((3000 + ENTRIES_MAX / 2..=3010 + ENTRIES_MAX).contains(&last), "{last}");
    assert!(visited.windows(2).all(|two| two[0] + 1 == two[1]));
    assert!(decoded.is_empty(), "nothing was read");
}

#[test]
fn until_something_is_left_to_be_decoded_nobody_is_woken_by_lists() {
    let (tracker, row) = (Tracker::default(), Row::default());
    let lists: Vec<_> = (0..3).map(|i| AccessHint::Listed(10 + i)).collect();
    assert_eq!(after(&tracker, &row, &lists).0, 1);
    let half = 12 + ENTRIES_MAX / 2;
    let lists: Vec<_> = (13..half).map(AccessHint::Listed).collect();
    let (wakes, pushes) = after(&tracker, &row, &lists);
    assert_eq!((wakes, pushes.len()), (0, 0));
    assert_eq!(after(&tracker, &row, &[AccessHint::Listed(half)]).0, 1);
}

#[test]
fn a_reader_that_looks_here_and_there_causes_nothing() {
    let there = [50_000, 20, 30_000, 10, 90_000, 15, 70_000, 12].map(AccessHint::Listed);
    let back = (0..100).rev().map(|i| AccessHint::Read(5 + i));
    let asked: Vec<_> = there.into_iter().chain(back).chain([AccessHint::Listed(40_000), AccessHint::Listed(40_001)]).collect();
    let (tracker, row) = (Tracker::default(), Row::default());
    let (wakes, pushes) = after(&tracker, &row, &asked);
    assert_eq!((wakes, pushes.len()), (0, 0));
}

#[test]
fn a_reader_of_small_files_has_the_next_ones_decoded_within_a_bound_of_bytes() {
    let asked: Vec<_> = (0..500).map(|i| AccessHint::Read(10 + i)).collect();
    let bytes = 128 << 10;
    let (_, decoded) = visited_and_decoded(bytes, &asked);
    assert!(decoded.windows(2).all(|two| two[0] + 1 == two[1]), "each once, in order");
    assert_eq!(decoded.last().unwrap() - 509, BYTES_MAX / bytes);
    assert!(visited_and_decoded(FILE_BYTES_MAX + 1, &asked).1.is_empty(), "long files are not for this");
}

#[test]
fn a_reader_whose_files_are_pushed_is_followed_by_the_folders_it_lists() {
    let reads = [10, 11, 12].map(AccessHint::Read);
    let lists = [2500, 4000].map(AccessHint::Listed);
    let (_, decoded) = visited_and_decoded(10, &[&reads[..], &lists].concat());
    assert_eq!(*decoded.last().unwrap(), 4000 + ENTRIES_MAX);
}

#[test]
fn two_readers_beside_each_other_are_told_apart() {
    let asked: Vec<_> = (0..100).flat_map(|i| [AccessHint::Read(10 + i), AccessHint::Read(1500 + i)]).collect();
    let (tracker, row) = (Tracker::default(), Row::default());
    let (_, pushes) = after(&tracker, &row, &asked);
    let readers: Vec<_> = pushes.iter().map(|push| push.reader).collect();
    assert!(readers.windows(2).all(|two| two[0] != two[1]));
    // The first request of the second one looks like a jump of the first one, which begins anew.
    assert_eq!(pushes.len(), 98 + 99);
}

#[test]
fn a_reader_that_is_pushed_for_causes_no_more_pushes_until_that_is_done() {
    let tracker = Tracker::default();
    let pushes = |ino| tracker.note(AccessHint::Read(ino)).push;
    assert!(pushes(10).is_none(), "one file alone");
    let push = pushes(11).unwrap();
    assert!(push.is_beyond);
    assert!(pushes(12).is_none());
    assert_eq!(tracker.read_at(push.reader), Some(12));
    tracker.note_pushed(push.reader, 40);
    tracker.end_push(push.reader);
    assert!(!pushes(20).unwrap().is_beyond, "it was pushed already");
    tracker.end_push(push.reader);
    assert!(pushes(2000).is_none(), "a jump");
}
