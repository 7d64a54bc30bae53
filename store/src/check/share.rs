//! Shares of the data that checks read in turn, so that a small one a day reads all of it in the end. What was read last is noted in
//! `cache/checked`: where that is lost, the next check begins anew.

use std::{io::Write, path::PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::CheckReport;
use crate::{
    clock,
    damaged::DamageSet,
    files::{self, How},
    id::OpId,
    layout::Layout,
    pack::Location,
};

/// Blocks are spread over so many places, by a hash of where they lie.
const PLACES: u32 = 1 << 16;

/// The last check that read data, how far such checks have come, and what was found last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCheck {
    /// Its time.
    pub at: Timestamp,
    /// The share of the data that it read, in percent.
    pub percent: u8,
    /// Stored bytes that it read and hashed.
    pub bytes_read: u64,
    /// Problems that were found last: by it, by a check since that read no data, or by a verification.
    pub findings: u64,
    /// The time at which they were found. Absent where this check found them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_at: Option<Timestamp>,
    /// All data that the store had at this time have been read since. Absent until as much was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_read_since: Option<Timestamp>,
    /// The beginning of the round that is under way.
    round_began_at: Timestamp,
    /// The place at which the next share begins.
    next: u32,
    /// True if packs could not be read in the round that is under way.
    #[serde(default, skip_serializing_if = "is_false")]
    round_lacks: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl LastCheck {
    /// True if it read data. Where no check did, it stands for one that did not.
    pub fn read_data(&self) -> bool {
        self.percent > 0
    }

    /// The time at which the findings were found.
    pub fn found_at(&self) -> Timestamp {
        self.found_at.unwrap_or(self.at)
    }
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

/// The last check of a store, as far as it is known.
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

    /// Notes that it was read, but for packs that could not be where `is_read` says so. Where the store cannot be written to, the same share is
    /// read again.
    pub(super) fn note(self, layout: &Layout, began_at: Timestamp, percent: u8, report: &CheckReport, is_read: bool) {
        let before = last(layout).filter(LastCheck::read_data);
        let (at, end) = (clock::timestamp(), self.from + self.places);
        let goes_on = before.as_ref().filter(|_| self.from > 0);
        let round_began_at = goes_on.map_or(began_at, |last| last.round_began_at);
        let round_lacks = !is_read || goes_on.is_some_and(|last| last.round_lacks);
        let before = before.and_then(|last| last.all_read_since);
        let (all_read_since, round_began_at, round_lacks) = match end >= PLACES {
            true if round_lacks => (before, began_at, !is_read && end > PLACES),
            true => (Some(round_began_at), began_at, false),
            false => (before, round_began_at, round_lacks),
        };
        let (bytes_read, findings, next) = (report.bytes_read, report.findings_count(), end % PLACES);
        let found_at = None;
        write(
            layout,
            &LastCheck { at, percent, bytes_read, findings, found_at, all_read_since, round_began_at, next, round_lacks },
        );
    }
}

/// Notes what a check found that read no data.
pub(super) fn note_found(layout: &Layout, report: &CheckReport) {
    note_findings(layout, |_| report.findings_count());
}

/// Notes what a verification found.
pub(super) fn note_problems(layout: &Layout, problems: u64) {
    note_findings(layout, |known| known.max(problems));
}

fn note_findings(layout: &Layout, findings: impl Fn(u64) -> u64) {
    let (before, now) = (last(layout), clock::timestamp());
    let none = LastCheck {
        at: now,
        percent: 0,
        bytes_read: 0,
        findings: 0,
        found_at: None,
        all_read_since: None,
        round_began_at: now,
        next: 0,
        round_lacks: false,
    };
    let before = before.unwrap_or(none);
    write(layout, &LastCheck { findings: findings(before.findings), found_at: Some(now), ..before });
}

fn write(layout: &Layout, last: &LastCheck) {
    let Ok(bytes) = serde_json::to_vec(last) else { return };
    let temporary = layout.cache().join(format!("{}.checked.tmp", OpId::generate()));
    let written = files::open(&temporary, How::New).and_then(|mut file| {
        file.write_all(&bytes)?;
        files::rename(&temporary, &path(layout))
    });
    if written.is_err() {
        let _ = files::remove(&temporary);
    }
}

/// True if damage was noted since the last check.
pub fn has_new_damage(layout: &Layout) -> bool {
    let noted_at = DamageSet::noted_at(layout).and_then(|at| Timestamp::try_from(at).ok());
    noted_at.is_some_and(|at| last(layout).is_none_or(|last| at > last.found_at()))
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
            share.note(layout, clock::timestamp(), 10, &report, true);
            rounds.push(last(layout).unwrap().all_read_since.is_some());
        }
        assert_eq!(seen.len(), 1000);
        assert!((0..10).all(|number| (50..200).contains(&seen.values().filter(|n| **n == number).count())));
        assert_eq!(rounds, [[false; 9].as_slice(), &[true]].concat());
        // A whole check begins and ends a round, wherever the last share ended.
        let all = Share::next(layout, Some(100));
        assert!((0..1000).all(|offset| all.has(block(offset))));
        all.note(layout, clock::timestamp(), 100, &CheckReport::default(), true);
        assert_eq!(last(layout).unwrap().next, 0);
        assert!((0..1000).all(|offset| !Share::next(layout, None).has(block(offset))));
    }

    #[test]
    fn findings_are_those_of_the_last_look_and_what_could_not_be_read_is_not_called_read() {
        let test = TestStore::new();
        let layout = test.store.layout();
        let found = |count: u64| CheckReport { findings_more: count, ..CheckReport::default() };
        note_found(layout, &found(3));
        assert!(last(layout).is_some_and(|last| last.findings == 3 && !last.read_data()));
        let whole = || Share::next(layout, Some(100));
        whole().note(layout, clock::timestamp(), 100, &found(2), false);
        assert!(last(layout).is_some_and(|last| last.findings == 2 && last.read_data() && last.all_read_since.is_none()));
        whole().note(layout, clock::timestamp(), 100, &found(0), true);
        let read = last(layout).unwrap();
        assert!(read.findings == 0 && read.all_read_since.is_some());
        note_problems(layout, 4);
        note_problems(layout, 1);
        let problems = last(layout).unwrap();
        assert_eq!((problems.findings, problems.at, problems.all_read_since), (4, read.at, read.all_read_since));
        assert!(problems.found_at() >= read.at);
        // A pack that was missing in one share of a round is not read by the others.
        for is_read in [false, true] {
            Share { from: u32::from(is_read) * PLACES / 2, places: PLACES / 2 }.note(
                layout,
                clock::timestamp(),
                50,
                &found(0),
                is_read,
            );
        }
        assert_eq!(last(layout).unwrap().all_read_since, read.all_read_since);
    }
}
