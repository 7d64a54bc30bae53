use super::*;

fn event(n: u32) -> Entry {
    Entry::Event(Box::new(Event {
        id: ulid::Ulid::from_parts(u64::from(n), 0),
        at: jiff::Timestamp::UNIX_EPOCH,
        host: "here".into(),
        schema: 1,
        kind: "test".into(),
        subject: format!("s{n}"),
        actor: Default::default(),
        epoch: 0,
        idempotency_key: None,
        previous: None,
        data: Default::default(),
        extra: Default::default(),
    }))
}

fn filled(n: u32) -> (tempfile::TempDir, Journal, Position) {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().to_owned());
    for i in 0..n {
        let tail = journal.read(&Position::start()).unwrap();
        journal.append(&tail, &[event(i)]).unwrap();
    }
    let end = journal.read(&Position::start()).unwrap().end;
    (dir, journal, end)
}

#[test]
fn records_come_back_in_order_and_from_any_position() {
    let (_dir, journal, end) = filled(5);
    let all = journal.read(&Position::start()).unwrap();
    assert_eq!(all.records.len(), 5);
    assert_eq!((all.records[3].sequence, &all.records[3].entry), (4, &event(3)));
    assert!(journal.ends_at(&end).unwrap());
    journal.append(&all, &[event(5), event(6)]).unwrap();
    assert!(!journal.ends_at(&end).unwrap());
    assert_eq!(journal.read(&end).unwrap().records.len(), 2);
}

#[test]
fn a_torn_append_is_passed_over_and_never_overwritten() {
    let (dir, journal, end) = filled(3);
    let path = dir.path().join(format!("{:020}.log", 1));
    let (frame, _) = encode_frame(4, &unhex(&end.hash).unwrap(), b"{}");
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
fn a_segment_of_any_length_is_read_in_pieces() {
    let (dir, journal, end) = filled(3);
    let path = dir.path().join(format!("{:020}.log", 1));
    let bytes = fs::metadata(&path).unwrap().len();
    // No memory holds that.
    let file = File::options().write(true).open(&path).unwrap();
    let length = [1 << 43, 1 << 40].into_iter().find(|length| file.set_len(*length).is_ok()).unwrap();
    let tail = journal.read(&Position::start()).unwrap();
    assert_eq!((tail.records.len(), tail.torn_bytes, &tail.end), (3, length - bytes, &end));
    assert_eq!(journal.read(&end).unwrap().torn_bytes, length - bytes);
    journal.append(&tail, &[event(9)]).unwrap();
    assert_eq!(journal.read(&Position::start()).unwrap().records.len(), 4);
}

#[test]
fn records_that_reach_over_pieces_are_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::new(dir.path().to_owned());
    let long = |n: u32| {
        let Entry::Event(mut event) = event(n) else { unreachable!() };
        event.subject = "x".repeat(n as usize * PIECE_BYTES / 3);
        Entry::Event(event)
    };
    for n in 0..8 {
        let tail = journal.read(&Position::start()).unwrap();
        journal.append(&tail, &[event(n), long(n)]).unwrap();
    }
    let all = journal.read(&Position::start()).unwrap();
    assert_eq!((all.records.len(), all.torn_bytes), (16, 0));
    assert_eq!(all.records[15].entry, long(7));
}

#[test]
fn every_flipped_byte_of_committed_records_is_noticed() {
    let (dir, journal, _) = filled(3);
    let path = dir.path().join(format!("{:020}.log", 1));
    let before = fs::read(&path).unwrap();
    for i in 0..before.len() {
        let mut bytes = before.clone();
        bytes[i] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        assert!(journal.read(&Position::start()).is_err(), "byte {i}");
    }
    fs::write(&path, &before[..before.len() - 20]).unwrap();
    assert!(journal.read(&Position::start()).is_err(), "truncated");
}

#[test]
fn unknown_records_are_kept() {
    let (_dir, journal, _) = filled(1);
    let tail = journal.read(&Position::start()).unwrap();
    let body = br#"{"type":"of the future","x":1}"#;
    let (frame, _) = encode_frame(2, &unhex(&tail.end.hash).unwrap(), body);
    let path = journal.segment_path(1);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(&frame);
    fs::write(&path, bytes).unwrap();
    let tail = journal.read(&Position::start()).unwrap();
    assert_eq!(tail.records[1].entry, Entry::Unknown(serde_json::json!({"type": "of the future", "x": 1})));
}
