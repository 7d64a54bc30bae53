//! Appends that were cut off, and damage that is told from them.

use super::*;

#[test]
fn a_torn_append_is_passed_over_and_never_overwritten() {
    let (dir, journal, end) = filled(3);
    let path = dir.path().join(format!("{:020}.log", 1));
    let frame = frame_of(4, &unhex(&end.hash).unwrap(), b"{}");
    let before = fs::read(&path).unwrap();
    let mut bytes = before.clone();
    bytes.extend_from_slice(&frame[..frame.len() - 1]);
    fs::write(&path, &bytes).unwrap();
    let tail = journal.read(&Position::start()).unwrap();
    assert_eq!((tail.records.len(), tail.torn_bytes), (3, frame.len() as u64 - 1));
    journal.append(&tail, &[event(9)]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let tail = journal.read(&Position::start()).unwrap();
    assert_eq!((tail.records.len(), tail.torn_bytes, tail.records[3].sequence), (4, 0, 4));
}

#[test]
fn damage_before_a_whole_record_is_no_torn_append_whatever_the_hint_says() {
    let (dir, journal, _) = filled(3);
    let path = journal.segment_path(1);
    let before = fs::read(&path).unwrap();
    let last = offsets(&before)[2];
    for hint in [None, Some(1), Some(2), Some(3), Some(9)] {
        match hint {
            None => fs::remove_file(dir.path().join("synced")).unwrap(),
            Some(sequence) => journal.write_hint(sequence),
        }
        for i in SEGMENT_HEADER_BYTES..last {
            for damage in [0x01, 0x80] {
                let mut bytes = before.clone();
                bytes[i] ^= damage;
                fs::write(&path, &bytes).unwrap();
                assert!(matches!(journal.read(&Position::start()), Err(Error::Corrupt { .. })), "byte {i}, hint {hint:?}");
            }
        }
        // Bytes that were put in, taken out, or doubled.
        for at in [SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + 7, last - 1] {
            for changed in [
                [&before[..at], b"?", &before[at..]].concat(),
                [&before[..at], &before[at + 1..]].concat(),
                [&before[..last], &before[at..]].concat(),
            ] {
                fs::write(&path, &changed).unwrap();
                assert!(journal.read(&Position::start()).is_err(), "at {at}, hint {hint:?}, {} bytes", changed.len());
            }
        }
    }
}

#[test]
fn one_append_of_several_records_may_be_torn_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let journal = in_folder(dir.path());
    journal.append(&journal.read(&Position::start()).unwrap(), &[event(0), event(1)]).unwrap();
    let long = |n: u32| {
        let Entry::Event(mut event) = event(n) else { unreachable!() };
        event.subject = "x".repeat(1500);
        Entry::Event(event)
    };
    let whole = journal.read(&Position::start()).unwrap();
    assert_eq!(whole.records[1].entry, event(1));
    let from = whole.end.offset as usize;
    journal.append(&whole, &[long(2), long(3), long(4), long(5)]).unwrap();
    // What a power cut leaves of the hint.
    journal.write_hint(2);
    let path = journal.segment_path(1);
    let bytes = fs::read(&path).unwrap();
    // Sectors may begin anywhere relative to the records.
    for lost in (from.saturating_sub(512)..bytes.len()).step_by(7) {
        for sectors in [1, 2, 5] {
            let (start, end) = (lost.max(from), (lost + sectors * 512).min(bytes.len()));
            // A length of which some bytes are left is taken for another record's, whose fate is doubtful.
            if end < from + 4 {
                continue;
            }
            let mut torn = bytes.clone();
            torn[start..end].fill(0);
            fs::write(&path, &torn).unwrap();
            let tail = journal.read(&Position::start()).unwrap();
            assert!((2..6).contains(&tail.records.len()) && tail.torn_bytes > 0 && tail.was_cut, "from {lost}");
            assert!(!tail.is_doubtful && tail.missing == 0, "from {lost}: {tail:?}");
        }
    }
    // The next append says where this one ends, and what lies behind is not looked at any more.
    let tail = journal.read(&Position::start()).unwrap();
    journal.append(&tail, &[event(9)]).unwrap();
    let tail = journal.read(&Position::start()).unwrap();
    assert!(tail.was_cut && tail.torn_bytes == 0);
}

#[test]
fn a_damaged_last_record_is_doubtful_where_no_hint_tells() {
    let (dir, journal, _) = filled(3);
    fs::remove_file(dir.path().join("synced")).unwrap();
    let path = journal.segment_path(1);
    let before = fs::read(&path).unwrap();
    let last = offsets(&before)[2];
    for i in last..before.len() {
        let mut bytes = before.clone();
        bytes[i] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let tail = journal.read(&Position::start()).unwrap();
        assert!(tail.records.len() == 2 && tail.is_doubtful && tail.was_cut, "byte {i}: {tail:?}");
    }
}

#[test]
fn a_log_that_is_shorter_than_the_hint_says_is_read_and_the_difference_is_told() {
    let (dir, journal, end) = filled(3);
    let path = journal.segment_path(1);
    let before = fs::read(&path).unwrap();
    let offsets = offsets(&before);
    for length in offsets[1]..before.len() {
        fs::write(&path, &before[..length]).unwrap();
        let tail = journal.read(&Position::start()).unwrap();
        assert_eq!(
            (tail.records.len() as u64, tail.records.len() as u64 + tail.missing),
            (tail.end.sequence, 3),
            "{length} bytes"
        );
    }
    for length in [offsets[1], offsets[1] + 1, offsets[2] - 1] {
        fs::write(&path, &before[..length]).unwrap();
        journal.write_hint(3);
        let tail = journal.read(&Position::start()).unwrap();
        let after = journal.append(&tail, &[event(7), event(8)]).unwrap();
        let tail = journal.read(&Position::start()).unwrap();
        assert_eq!((tail.records.len(), tail.missing, &tail.end), (3, 0, &after));
        assert!(tail.was_cut && !journal.confirms(&end).unwrap(), "{length} bytes");
        fs::remove_file(journal.segment_path(2)).unwrap();
    }
    fs::remove_file(&path).unwrap();
    assert!(journal.read(&Position::start()).is_err(), "a journal without segments is taken for a new one");
    assert!(dir.path().join("synced").exists());
}

#[test]
fn a_long_torn_end_is_searched_quickly() {
    let (_dir, journal, end) = filled(2);
    let path = journal.segment_path(1);
    let mut bytes = fs::read(&path).unwrap();
    let whole = bytes.len();
    bytes.resize(SEGMENT_HEADER_BYTES + (64 << 20), b'7');
    fs::write(&path, &bytes).unwrap();
    let began = std::time::Instant::now();
    let tail = journal.read(&Position::start()).unwrap();
    println!("{} bytes in {} ms", bytes.len() - whole, began.elapsed().as_millis());
    assert_eq!((&tail.end, tail.torn_bytes), (&end, (bytes.len() - whole) as u64));
    // A later record is found across the pieces in which the segment is read.
    for at in [whole + 1, PIECE_BYTES + whole - 20, (5 << 20) + 3] {
        let mut found = bytes.clone();
        let frame = frame_of(4, &[7; 32], b"{}");
        found[at..at + frame.len()].copy_from_slice(&frame);
        fs::write(&path, &found).unwrap();
        assert!(journal.read(&Position::start()).is_err(), "at {at}");
    }
}
