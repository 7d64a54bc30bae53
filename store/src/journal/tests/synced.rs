//! Files that an append syncs, and its leftovers where a sync fails.

use rustix::io::Errno;

use super::*;
use crate::{
    disk::syncs,
    format::{JOURNAL_RECORD_BYTES_MAX, JOURNAL_SEGMENT_BYTES},
    testing::seal,
};

const FIRST: &str = "00000000000000000001.log";

fn read(journal: &Journal) -> Tail {
    journal.read(&Position::start()).unwrap()
}

/// Everything in the journal's folder.
fn all_files(dir: &tempfile::TempDir) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn tear(journal: &Journal, segment: u64) {
    let mut file = File::options().append(true).open(journal.segment_path(segment)).unwrap();
    io::Write::write_all(&mut file, b"torn").unwrap();
}

#[test]
fn an_append_syncs_what_it_writes_and_before_that_what_others_may_have_left() {
    let dir = tempfile::tempdir().unwrap();
    let journal = in_folder(dir.path());
    let append = |n| syncs::of(|| journal.append(&read(&journal), &[event(n)]).unwrap()).1;
    let folder = dir.path().file_name().unwrap().to_str().unwrap();
    // A new segment, and its name.
    assert_eq!(append(0), [FIRST, "."]);
    assert_eq!(append(1), [FIRST]);
    // Whoever wrote the last record may have died before he synced it.
    fs::remove_file(dir.path().join("synced")).unwrap();
    assert_eq!(append(2), [FIRST, folder, FIRST]);
    journal.write_hint(2);
    assert_eq!(append(3), [FIRST, folder, FIRST]);
    assert_eq!(syncs::of(|| journal.sync().unwrap()).1, [FIRST]);
    tear(&journal, 1);
    let second = "00000000000000000005.log";
    assert_eq!(append(4), [FIRST, second, "."]);
    assert_eq!(syncs::of(|| journal.sync().unwrap()).1, [second]);
    assert_eq!(read(&journal).records.len(), 5);
}

#[test]
fn a_record_that_cannot_be_synced_is_taken_back_for_all_who_may_have_read_it() {
    let (dir, journal, end) = filled(3);
    let before = fs::read(journal.segment_path(1)).unwrap();
    let (failed, synced) = syncs::failing(0, Errno::IO, || journal.append(&read(&journal), &[event(3)]));
    assert!(failed.is_err());
    assert_eq!(synced, [FIRST, FIRST]);
    // The byte that is left has the next append begin a segment, so that no record can stand where this one stood.
    assert_eq!(fs::read(journal.segment_path(1)).unwrap(), [&before[..], b"\0"].concat());
    let tail = read(&journal);
    assert_eq!((tail.records.len(), tail.torn_bytes, tail.missing, &tail.end), (3, 1, 0, &end));
    journal.append(&tail, &[event(9)]).unwrap();
    assert_eq!(journal.segments().unwrap(), [1, 4]);
    assert_eq!(read(&journal).records[3].entry, event(9));
    drop(dir);
}

#[test]
fn nothing_is_written_where_what_others_left_cannot_be_synced() {
    let (dir, journal, _) = filled(3);
    fs::remove_file(dir.path().join("synced")).unwrap();
    let before = all_files(&dir);
    for number in [0, 1] {
        let (failed, synced) = syncs::failing(number, Errno::IO, || journal.append(&read(&journal), &[event(3)]));
        assert!(failed.is_err() && synced.len() == number + 1, "{synced:?}");
        assert_eq!(all_files(&dir), before);
    }
}

#[test]
fn a_segment_that_cannot_be_synced_goes_again() {
    let empty = tempfile::tempdir().unwrap();
    let (torn, torn_journal, _) = filled(1);
    tear(&torn_journal, 1);
    for (dir, syncs) in [(&empty, 2), (&torn, 3)] {
        let journal = in_folder(dir.path());
        let before = all_files(dir);
        for number in 0..syncs {
            let (failed, _) = syncs::failing(number, Errno::IO, || journal.append(&read(&journal), &[event(3)]));
            assert!(failed.is_err());
            assert_eq!(all_files(dir), before, "sync {number}");
        }
    }
}

#[test]
fn a_segment_takes_appends_until_it_is_long_enough() {
    let body = |length: u64| match event(1) {
        Entry::Event(event) => Entry::Event(Box::new(Event { subject: "s".repeat(length as usize), ..*event })),
        other => other,
    };
    let empty = (encode_entry(&body(0), 0).unwrap().len() + seal().overhead()) as u64;
    for (length, segments) in [(JOURNAL_SEGMENT_BYTES - 1, vec![1]), (JOURNAL_SEGMENT_BYTES, vec![1, 3])] {
        let (_dir, journal, end) = filled(1);
        let room = length - end.offset - FRAME_BYTES as u64;
        assert_eq!(journal.append(&read(&journal), &[body(room - empty)]).unwrap().offset, length);
        journal.append(&read(&journal), &[event(2)]).unwrap();
        assert_eq!(journal.segments().unwrap(), segments);
    }
}

#[test]
fn a_segment_that_exists_stays_what_it_is() {
    let (dir, journal, _) = filled(2);
    let before = all_files(&dir);
    assert!(matches!(journal.begin_segment(1, b"another"), Err(Error::Raced { .. })));
    assert_eq!(all_files(&dir), before);
}

#[test]
fn a_shorter_hint_leaves_nothing_of_a_longer_one() {
    let (dir, journal, _) = filled(1);
    for sequence in [12_345_678, 7, 99, 100] {
        journal.write_hint(sequence);
        assert_eq!(journal.hint(), Some(sequence));
        let text = fs::read_to_string(dir.path().join("synced")).unwrap();
        assert_eq!(text.lines().count(), 1, "{text:?}");
    }
}

#[test]
fn a_record_may_be_as_long_as_can_be_read_and_no_longer() {
    let (dir, journal, _) = filled(1);
    let long = |length: usize| match event(1) {
        Entry::Event(event) => Entry::Event(Box::new(Event { subject: "s".repeat(length), ..*event })),
        other => other,
    };
    let room = JOURNAL_RECORD_BYTES_MAX - encode_entry(&long(0), 0).unwrap().len() - seal().overhead();
    let before = all_files(&dir);
    for length in [room + 1, room + 1000] {
        assert!(matches!(journal.append(&read(&journal), &[event(1), long(length)]), Err(Error::Invalid(_))));
        assert_eq!(all_files(&dir), before);
    }
    journal.append(&read(&journal), &[long(room)]).unwrap();
    assert_eq!(read(&journal).records.len(), 2);
}
