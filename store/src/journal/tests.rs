mod segments;
mod synced;
mod torn;

use std::{fs::File, io};

use serde_json::Value;

use super::{frames::*, *};
use crate::{event::Event, testing::seal};

/// A frame of this body, as it is stored.
fn frame_of(sequence: u64, previous: &[u8; 32], body: &[u8]) -> Vec<u8> {
    encode_frame(sequence, previous, &seal().seal(Part::Journal, body)).0
}

/// The journal in a folder of its own.
fn in_folder(folder: &Path) -> Journal {
    Journal { folder: folder.to_owned(), keys: Keys::default() }
}

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
    let journal = in_folder(dir.path());
    for i in 0..n {
        let tail = journal.read(&Position::start()).unwrap();
        journal.append(&tail, &[event(i)]).unwrap();
    }
    let end = journal.read(&Position::start()).unwrap().end;
    (dir, journal, end)
}

fn decoded(body: &[u8]) -> Result<JournalRecord, RecordError> {
    Raw { sequence: 1, body, ids: &crate::testing::ids() }.decode()
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
    let journal = in_folder(dir.path());
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
}

/// The offsets at which a segment's records begin, and its length.
fn offsets(bytes: &[u8]) -> Vec<usize> {
    let mut found = vec![SEGMENT_HEADER_BYTES];
    while *found.last().unwrap() < bytes.len() {
        let at = *found.last().unwrap();
        found.push(at + FRAME_BYTES + u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize);
    }
    found
}

#[test]
fn an_append_behind_an_end_that_is_none_any_more_writes_nothing() {
    let (_dir, journal, _) = filled(2);
    let stale = journal.read(&Position::start()).unwrap();
    let before = |journal: &Journal| (journal.segments().unwrap(), fs::read(journal.segment_path(1)).unwrap());
    journal.append(&stale, &[event(2)]).unwrap();
    let seen = before(&journal);
    assert!(matches!(journal.append(&stale, &[event(3)]), Err(Error::Raced { .. })));
    assert_eq!(before(&journal), seen);
    // Neither where both would begin a segment, nor where one has.
    let mut torn = journal.read(&Position::start()).unwrap();
    fs::write(journal.segment_path(1), [&seen.1[..], b"?"].concat()).unwrap();
    torn.torn_bytes = 1;
    journal.append(&torn, &[event(4)]).unwrap();
    for stale in [&torn, &Tail { torn_bytes: 0, ..torn.clone() }] {
        assert!(matches!(journal.append(stale, &[event(5)]), Err(Error::Raced { .. })));
    }
    assert_eq!(journal.read(&Position::start()).unwrap().records.len(), 4);
}

#[test]
fn nothing_but_regular_files_is_opened() {
    let (dir, journal, _) = filled(1);
    let victim = dir.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    let hint = dir.path().join("synced");
    fs::remove_file(&hint).unwrap();
    std::os::unix::fs::symlink(&victim, &hint).unwrap();
    journal.append(&journal.read(&Position::start()).unwrap(), &[event(1)]).unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"untouched");
    let path = journal.segment_path(1);
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert!(journal.read(&Position::start()).unwrap_err().to_string().contains("a symbolic link"));
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    assert!(journal.read(&Position::start()).unwrap_err().to_string().contains("a fifo"));
}

#[test]
fn unknown_records_are_kept() {
    let (_dir, journal, _) = filled(1);
    let tail = journal.read(&Position::start()).unwrap();
    let body = br#"{"type":"of the future","x":1}"#;
    let frame = frame_of(2, &unhex(&tail.end.hash).unwrap(), body);
    let path = journal.segment_path(1);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(&frame);
    fs::write(&path, bytes).unwrap();
    let tail = journal.read(&Position::start()).unwrap();
    assert_eq!(tail.records[1].entry, Entry::Unknown(serde_json::json!({"type": "of the future", "x": 1})));
}

#[test]
fn a_record_of_a_known_type_that_does_not_decode_is_damage() {
    for body in [
        r#"{"type":"commit"}"#,
        r#"{"type":"condemn","op":1}"#,
        r#"{"type":"dropped","packs":["x"]}"#,
        r#"{"x":1}"#,
        "5",
        "\"x\"",
        "[]",
    ] {
        assert!(decoded(body.as_bytes()).is_err(), "{body}");
    }
    // Whoever passed over it would take what it stands for as never having been.
    assert!(decoded(br#"{"type":"snapshot"}"#).is_err());
}

#[test]
fn an_event_of_another_schema_says_nothing_and_one_of_ours_says_all() {
    let whole: Value = serde_json::from_slice(&encode_entry(&event(1), 0).unwrap()).unwrap();
    let with = |name: &str, value: Option<Value>| {
        let mut body = whole.clone();
        match value {
            Some(value) => body[name] = value,
            None => _ = body.as_object_mut().unwrap().remove(name),
        }
        decoded(body.to_string().as_bytes()).map(|logged| logged.entry)
    };
    assert!(matches!(with("more", Some(1.into())), Ok(Entry::Event(_))));
    assert!(matches!(with("schema", Some(9.into())), Ok(Entry::Unknown(_))));
    assert!(matches!(with("schema", Some(0.into())), Ok(Entry::Unknown(_))));
    for name in ["id", "at", "host", "schema", "kind", "subject", "actor", "epoch"] {
        assert!(with(name, None).is_err() && with(name, Some(Value::Null)).is_err(), "{name}");
    }
}

#[test]
fn a_journal_that_begins_behind_a_snapshot_is_named_and_one_that_lost_its_beginning_is_damaged() {
    for (previous_end, previous_hash, is_snapshot) in [(0, [0; 32], true), (700, [7; 32], false)] {
        let (_dir, journal, _) = filled(1);
        fs::remove_file(journal.segment_path(1)).unwrap();
        let header = SegmentHeader { first: 41, previous_end, previous_hash, is_behind_gap: false };
        let frame = frame_of(41, &previous_hash, br#"{"type":"snapshot"}"#);
        fs::write(journal.segment_path(41), [&header.encode()[..], &frame].concat()).unwrap();
        let error = journal.read(&Position::start()).unwrap_err();
        assert_eq!(matches!(error, Error::FormatNewer { .. }), is_snapshot, "{error}");
        assert_eq!(error.to_string().contains("begins with record 41"), is_snapshot, "{error}");
    }
}

#[test]
fn events_are_links_of_their_chain_and_nothing_else_is() {
    let is_link = |body: &[u8]| decoded(body).unwrap().event_hash == Some(crate::testing::ids().event(body));
    let is_none = |body: &[u8]| decoded(body).unwrap().event_hash.is_none();
    assert!(is_link(&encode_entry(&event(1), 0).unwrap()));
    // Also one of a later shape.
    assert!(is_link(br#"{"type":"event","schema":2,"of":"the future"}"#));
    assert!(is_none(br#"{"type":"of the future"}"#));
    assert!(is_none(&encode_entry(&Entry::Dropped { packs: Vec::new() }, 0).unwrap()));
}

#[test]
fn a_tail_up_to_a_settled_position_ends_there() {
    let (dir, journal, _) = filled(3);
    let settled = journal.read(&Position::start()).unwrap().end;
    let cut = |tail: Tail| (tail.records.len(), tail.end, tail.torn_bytes);
    let path = dir.path().join(format!("{:020}.log", 1));
    fs::write(&path, [&fs::read(&path).unwrap()[..], b"torn"].concat()).unwrap();
    assert_eq!(cut(journal.read(&Position::start()).unwrap().until(&settled)), (3, settled.clone(), 4));
    journal.append(&journal.read(&Position::start()).unwrap(), &[event(3)]).unwrap();
    assert_eq!(cut(journal.read(&Position::start()).unwrap().until(&settled)), (3, settled.clone(), 0));
    // What stands behind a position does not make it another one.
    let all = journal.read(&Position::start()).unwrap();
    assert!(journal.confirms(&settled).unwrap() && journal.confirms(&all.end).unwrap());
    journal.append(&all, &[event(4)]).unwrap();
    assert!(journal.confirms(&all.end).unwrap());
    let beyond = journal.read(&Position::start()).unwrap();
    assert_eq!(cut(beyond.clone().until(&Position { sequence: 9, ..beyond.end.clone() })), (5, beyond.end, 0));
}
