//! Shares of the data that checks read in turn, so that a small one a day reads all of it in the end. What was read last is noted in
//! `cache/checked`: where that is lost, the next check begins anew.

use std::{fs, io::Write, path::PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::CheckReport;
use crate::{
    clock,
    files::{self, How},
    id::OpId,
    layout::Layout,
    pack::Location,
};

/// Blocks are spread over so many places, by a hash of where they lie.
const PLACES: u32 = 1 << 16;

/// The last check that read data, and how far such checks have come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCheck {
    /// Its time.
    pub at: Timestamp,
    /// The share of the data that it read, in percent.
    pub percent: u8,
    /// Bytes of it.
    pub bytes_read: u64,
    /// Problems that it found, here or in what was known to be damaged before.
    pub findings: u64,
    /// All data that the store had at this time have been read since. Absent until as much was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_read_since: Option<Timestamp>,
    /// The beginning of the round that is under way.
    round_began_at: Timestamp,
    /// The place at which the next share begins.
    next: u32,
}

/// The blocks whose data one check reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    from: u32,
    places: u32,
}

fn path(layout: &Layout) -> PathBuf {
    layout.cache().join("checked")
}

/// The last check of a store that read data, as far as it is known.
pub fn last(layout: &Layout) -> Option<LastCheck> {
    let bytes = files::open(&path(layout), How::Read).and_then(|file| files::read_all(&file, file.metadata()?.len())).ok()?;
    serde_json::from_slice(&bytes).ok().filter(|last: &LastCheck| last.next < PLACES)
}

impl Share {
    /// The next share of so many percent; `None` for nothing.
    pub(super) fn next(layout: &Layout, percent: Option<u8>) -> Self {
        let percent = u32::from(percent.unwrap_or(0).min(100));
        let from = if percent < 100 { last(layout).map_or(0, |last| last.next) } else { 0 };
        Share { from, places: (PLACES * percent).div_ceil(100) }
    }

    /// True if it has the block at a place.
    pub(super) fn has(self, at: Location) -> bool {
        let hash = blake3::Hasher::new().update(&at.pack.0).update(&at.offset.to_le_bytes()).finalize();
        let number = u32::from(u16::from_le_bytes([hash.as_bytes()[0], hash.as_bytes()[1]]));
        (number + PLACES - self.from) % PLACES < self.places
    }

    /// Notes that it was read. Where the store cannot be written to, the same share is read again.
    pub(super) fn note(self, layout: &Layout, began_at: Timestamp, percent: u8, report: &CheckReport) {
        let before = last(layout);
        let (at, end) = (clock::timestamp(), self.from + self.places);
        let round_began_at = before.as_ref().filter(|_| self.from > 0).map_or(began_at, |last| last.round_began_at);
        let before = before.and_then(|last| last.all_read_since);
        let (all_read_since, round_began_at) = match end >= PLACES {
            true => (Some(round_began_at), began_at),
            false => (before, round_began_at),
        };
        let (findings, next) = (report.findings.len() as u64 + report.findings_more, end % PLACES);
        let last = LastCheck { at, percent, bytes_read: report.bytes_read, findings, all_read_since, round_began_at, next };
        let Ok(bytes) = serde_json::to_vec(&last) else { return };
        let temporary = layout.cache().join(format!("{}.checked.tmp", OpId::generate()));
        let written = files::open(&temporary, How::New).and_then(|mut file| {
            file.write_all(&bytes)?;
            fs::rename(&temporary, path(layout))
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::PackId, testing::TestStore};

    #[test]
    fn shares_follow_each_other_until_all_was_read_and_begin_anew_then() {
        let test = TestStore::new();
        let layout = test.store.layout();
        let block = |offset| Location { pack: PackId::new(OpId([3; 12]), 0), offset, block_bytes: 1 };
        let (mut seen, mut rounds) = (std::collections::HashMap::new(), Vec::new());
        for number in 0..10 {
            let share = Share::next(layout, Some(10));
            (0..1000).filter(|offset| share.has(block(*offset))).for_each(|offset| _ = seen.entry(offset).or_insert(number));
            let report = CheckReport { bytes_read: number, ..CheckReport::default() };
            share.note(layout, clock::timestamp(), 10, &report);
            rounds.push(last(layout).unwrap().all_read_since.is_some());
        }
        assert_eq!(seen.len(), 1000);
        assert!((0..10).all(|number| (50..200).contains(&seen.values().filter(|n| **n == number).count())));
        assert_eq!(rounds, [[false; 9].as_slice(), &[true]].concat());
        // A whole check begins and ends a round, wherever the last share ended.
        let all = Share::next(layout, Some(100));
        assert!((0..1000).all(|offset| all.has(block(offset))));
        all.note(layout, clock::timestamp(), 100, &CheckReport::default());
        assert_eq!(last(layout).unwrap().next, 0);
        assert!((0..1000).all(|offset| !Share::next(layout, None).has(block(offset))));
    }
}
