//! Looking at the record that ends at a position, without reading those before it.

use super::{
    Journal, Position,
    frames::{FRAME_BYTES, checked_frame, read_around},
};
use crate::{
    error::{IoContext, Result},
    files::{self, How},
    id::hex,
};

/// Bytes before the position that are looked at. Records are shorter, but for those of enormous checkpoints.
const WINDOW_BYTES: u64 = 128 << 10;

impl Journal {
    /// As [`Journal::confirms`]. Mostly the last record before the position is all that is read: its hash covers everything before it.
    pub(crate) fn confirms_quickly(&self, position: &Position) -> Result<bool> {
        if position.segment == 0 {
            return Ok(true);
        }
        let path = self.segment_path(position.segment);
        let file = match files::open(&path, How::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            other => other.at("open journal", &path)?,
        };
        let from = position.offset.saturating_sub(WINDOW_BYTES);
        let mut window = vec![0; usize::try_from(position.offset - from).unwrap_or_default()];
        let (filled, _) = read_around(&file, &mut window, from).at("read journal", &path)?;
        if filled < window.len() {
            return Ok(false);
        }
        let is_it = |at: usize| {
            let length = window[at..].first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
            let ends_here = at + FRAME_BYTES + length == window.len();
            let frame = checked_frame(&window[at..]).filter(|_| ends_here);
            frame.is_some_and(|frame| {
                frame[..8] == position.sequence.to_le_bytes() && hex(blake3::hash(frame).as_bytes()) == position.hash
            })
        };
        let is_found = (0..window.len().saturating_sub(FRAME_BYTES - 1)).rev().any(is_it);
        if is_found { Ok(true) } else { self.confirms(position) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        event::{Actor, NewEvent},
        testing::TestStore,
    };

    #[test]
    fn a_position_is_told_from_one_of_another_journal_that_is_as_long() {
        let test = TestStore::new();
        let note = |text: &str| test.store.append_events(&[NewEvent::new("note", text, Actor::program("test"))], &()).unwrap();
        let journal = Journal::of(test.store.layout());
        assert!(journal.confirms_quickly(&Position::start()).unwrap());
        note("a");
        let one = test.journal_files();
        note(&"b".repeat(300_000));
        note("c");
        let end = test.store.refresh().unwrap().end().clone();
        assert!(journal.confirms_quickly(&end).unwrap() && journal.confirms(&end).unwrap());
        let long = test.journal_files();
        test.put_back_journal(&one);
        assert!(!journal.confirms_quickly(&end).unwrap());
        // Times have nine digits or fewer, so that not each is as long.
        let theirs = (0..500).find_map(|_| {
            let another = TestStore::new();
            for text in ["a", &"b".repeat(300_000), "c"] {
                another.store.append_events(&[NewEvent::new("note", text, Actor::program("test"))], &()).unwrap();
            }
            let theirs = another.store.refresh().unwrap().end().clone();
            (theirs.offset == end.offset).then_some(theirs)
        });
        let theirs = theirs.unwrap();
        assert_eq!(theirs.sequence, end.sequence);
        test.put_back_journal(&long);
        assert!(!journal.confirms_quickly(&theirs).unwrap());
        // The record is longer than what is looked at first.
        let after_long = journal.place_behind(2).unwrap();
        assert!(journal.confirms_quickly(&after_long).unwrap());
        fs::remove_file(test.store.layout().journal().join("00000000000000000001.log")).unwrap();
        assert!(!journal.confirms_quickly(&end).unwrap());
    }
}
