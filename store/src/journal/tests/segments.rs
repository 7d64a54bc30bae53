use super::*;

#[test]
fn segments_have_one_spelling() {
    let (_dir, journal, _) = filled(1);
    for name in ["1.log", "+0000000000000000002.log", "000000000000000000003.log", "0000000000000000004.LOG"] {
        fs::write(journal.folder.join(name), "").unwrap();
    }
    assert_eq!(journal.segments().unwrap(), [1]);
}

/// A journal of segments that begin with the records 1, 2 and 3.
fn in_three_segments(first: u32) -> (tempfile::TempDir, Journal) {
    let dir = tempfile::tempdir().unwrap();
    let journal = in_folder(dir.path());
    for n in 0..3 {
        let tail = journal.read(&Position::start()).unwrap();
        journal.append(&tail, &[event(first + n)]).unwrap();
        // A torn append has the next one begin a segment.
        let path = journal.segment_path(u64::from(n) + 1);
        let mut file = File::options().append(true).open(&path).unwrap();
        io::Write::write_all(&mut file, b"torn").unwrap();
    }
    assert_eq!(journal.segments().unwrap(), [1, 2, 3]);
    (dir, journal)
}

#[test]
fn a_segment_is_read_behind_the_one_that_it_was_begun_behind() {
    let (_dir, journal) = in_three_segments(10);
    let read = || journal.read(&Position::start());
    let all = read().unwrap();
    assert_eq!((all.records.len(), all.torn_bytes, all.was_cut), (3, 4, true));
    let at_two = Position { segment: 2, offset: SEGMENT_HEADER_BYTES as u64, ..Position::start() };
    let (one, two, three) = (journal.segment_path(1), journal.segment_path(2), journal.segment_path(3));
    let (first, second) = (fs::read(&one).unwrap(), fs::read(&two).unwrap());

    // A segment, or the last record of one, is gone.
    fs::remove_file(&two).unwrap();
    assert!(matches!(read(), Err(Error::Corrupt { .. })));
    assert!(matches!(journal.read(&at_two), Err(Error::Corrupt { .. })));
    fs::write(&two, &second).unwrap();
    fs::write(&one, &first[..SEGMENT_HEADER_BYTES]).unwrap();
    assert!(matches!(read(), Err(Error::Corrupt { .. })));
    fs::write(&one, &first).unwrap();

    // Segments of another journal whose records are as long.
    let (_other_dir, other) = in_three_segments(20);
    for (path, number) in [(&two, 2), (&three, 3), (&one, 1)] {
        let own = fs::read(path).unwrap();
        fs::copy(other.segment_path(number), path).unwrap();
        assert!(matches!(read(), Err(Error::Corrupt { .. })), "segment {number}");
        fs::write(path, own).unwrap();
    }

    // A header of another release, or of none, though its sum is right.
    for (at, byte) in [(0, b'X'), (8, 9), (10, 2), (11, 1), (12, 9), (20, 1), (28, 1)] {
        let mut bytes = second.clone();
        bytes[at] ^= byte;
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&sum.to_le_bytes());
        fs::write(&two, &bytes).unwrap();
        assert!(matches!(read(), Err(Error::Corrupt { .. })), "byte {at}");
    }
    for at in 60..64 {
        let mut bytes = second.clone();
        bytes[at] ^= 1;
        fs::write(&two, &bytes).unwrap();
        assert!(matches!(read(), Err(Error::Corrupt { .. })), "byte {at}");
    }
    fs::write(&two, &second).unwrap();
    assert_eq!(read().unwrap().records, all.records);
}

#[test]
fn a_record_that_continues_another_journal_is_none_of_this_one() {
    let (_dir, journal, end) = filled(3);
    let path = journal.segment_path(1);
    let whole = fs::read(&path).unwrap();
    let hash = unhex(&end.hash).unwrap();
    let body = encode_entry(&event(7), 0).unwrap();
    assert!(!String::from_utf8_lossy(&body).contains("joined"));
    // Another sequence, or another record before it; its own sum is right.
    for (sequence, previous) in [(5, hash), (3, hash), (4, [1; 32])] {
        let frame = frame_of(sequence, &previous, &body);
        fs::write(&path, [&whole[..], &frame].concat()).unwrap();
        let read = journal.read(&Position::start());
        assert!(read.is_err() || read.is_ok_and(|tail| tail.records.len() == 3 && tail.torn_bytes > 0), "{sequence}");
    }
    let frame = frame_of(4, &hash, &body);
    fs::write(&path, [&whole[..], &frame].concat()).unwrap();
    assert_eq!(journal.read(&Position::start()).unwrap().records.len(), 4);
}

#[test]
fn a_long_segment_is_followed_by_another_and_that_is_no_cut() {
    let (_dir, journal, _) = filled(1);
    let long = |n: u32| match event(n) {
        Entry::Event(event) => Entry::Event(Box::new(Event { subject: "s".repeat(3 << 20), ..*event })),
        other => other,
    };
    for n in 1..5 {
        let tail = journal.read(&Position::start()).unwrap();
        let end = journal.append(&tail, &[long(n)]).unwrap();
        assert_eq!(journal.read(&Position::start()).unwrap().end, end);
    }
    let all = journal.read(&Position::start()).unwrap();
    assert_eq!((all.records.len(), journal.segments().unwrap()), (5, vec![1, 5]));
    journal.append(&all, &[event(7), event(8)]).unwrap();
    for after in 0..9 {
        let sequences: Vec<u64> = journal.read_after(after).unwrap().iter().map(|logged| logged.sequence).collect();
        assert_eq!(sequences, (after + 1..=7).collect::<Vec<_>>(), "{after}");
    }
    assert!(journal.read_after(u64::MAX).unwrap().is_empty());
    for (after, page) in [(0, 1), (0, 3), (2, 2), (3, 1), (4, 2), (6, 5), (7, 1)] {
        let (mut place, mut found) = (journal.place_behind(after).unwrap(), Vec::new());
        assert_eq!(place.sequence, after);
        loop {
            let read = journal.read_page(&place, page).unwrap();
            assert!(read.records.len() as u64 <= page);
            let is_last = (read.records.len() as u64) < page;
            found.extend(read.records.iter().map(|logged| logged.sequence));
            place = read.end;
            if is_last {
                break;
            }
        }
        assert_eq!((found, place), ((after + 1..=7).collect(), journal.read(&Position::start()).unwrap().end), "{after} {page}");
    }
    assert_eq!(journal.place_behind(100).unwrap(), journal.place_behind(7).unwrap());
    // What comes before is not even looked at.
    fs::write(journal.segment_path(1), "damaged").unwrap();
    assert_eq!(journal.read_after(4).unwrap().len(), 3);
    assert!(journal.read_after(3).is_err());
    assert!(!all.was_cut && all.missing == 0 && all.torn_bytes == 0);
}
