//! Records that a journal has lost and that the journal of another copy of the store still has. They fill a gap where the chain of hashes fits
//! at both of its ends, so that they are the very records that stood there.

use std::path::PathBuf;

use crate::{
    error::Result,
    format::JOURNAL_SEGMENT_BYTES,
    journal::{Around, Journal, Position, Tail, Writer},
    layout::Layout,
    store::{OpenOptions, Store},
};

/// Records that another copy of the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refilled {
    /// Sequence of the first of them.
    pub first: u64,
    /// Sequence of the last of them.
    pub last: u64,
    /// The copy.
    pub from: PathBuf,
}

/// Records that are lost between two that are not.
pub(super) struct Stretch {
    first: u64,
    last: u64,
    /// Chain hash of the record before them.
    before: String,
    /// Chain hash of the last of them.
    end: String,
}

/// Other copies of a store.
pub(super) struct Copies(Vec<(PathBuf, Journal)>);

impl Copies {
    /// Those among `from` that are stores of the same id.
    pub(super) fn of(layout: &Layout, from: &[PathBuf]) -> Result<Self> {
        let mut copies = Vec::new();
        for path in from.iter().filter(|path| path.join("store.json").exists()) {
            let store = Store::open(path, &OpenOptions::with(layout))?;
            if crate::config::Config::of(layout).is_ok_and(|config| config.id == store.config().id) {
                copies.push((path.clone(), Journal::of(store.layout())));
            }
        }
        Ok(Copies(copies))
    }

    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first copy that has these records, and their bodies.
    fn find(&self, lost: &Stretch) -> Option<(Refilled, Vec<Vec<u8>>)> {
        let mut found = self.0.iter().filter_map(|(path, journal)| {
            let bodies = read(journal, lost).ok().flatten()?;
            Some((Refilled { first: lost.first, last: lost.last, from: path.clone() }, bodies))
        });
        found.next()
    }

    /// Lost records that copies have.
    pub(super) fn have(&self, lost: &[Stretch]) -> Vec<Refilled> {
        lost.iter().filter_map(|lost| Some(self.find(lost)?.0)).collect()
    }

    /// Writes what copies have into the gaps of a journal that reads to its end. The caller holds the writer lock.
    pub(super) fn refill(&self, journal: &Journal, lost: &[Stretch]) -> Result<Vec<Refilled>> {
        let mut refilled = Vec::new();
        for lost in lost {
            let Some((found, bodies)) = self.find(lost) else { continue };
            // One segment has to take them.
            let bytes: u64 = bodies.iter().map(|body| body.len() as u64).sum();
            if bytes >= JOURNAL_SEGMENT_BYTES / 2 || journal.segments()?.contains(&lost.first) {
                continue;
            }
            let mut writer = Writer::in_gap(journal, &place_before(journal, lost.first)?);
            for body in bodies {
                writer.add(body)?;
            }
            if writer.hash() == lost.end {
                writer.finish_in_gap()?;
                refilled.push(found);
            }
        }
        Ok(refilled)
    }
}

/// The place behind which a gap begins.
pub(super) fn place_before(journal: &Journal, first: u64) -> Result<Position> {
    if first == 1 { Ok(Position::start()) } else { journal.place_behind(first - 1) }
}

/// The lost stretches of a journal that was read around damage.
pub(super) fn of_damaged(around: &Around) -> Vec<Stretch> {
    around.gaps.iter().filter_map(|gap| gap.between()).map(stretch).collect()
}

/// The lost stretches of a journal that reads to its end.
pub(super) fn of_whole(journal: &Journal, tail: &Tail) -> Result<Vec<Stretch>> {
    let ends = |(first, last): &(u64, u64)| {
        let (before, end) = (place_before(journal, *first)?.hash, journal.beginning_of(last + 1)?.hash);
        Ok(stretch((*first, *last, before, end)))
    };
    tail.lost.iter().map(ends).collect()
}

fn stretch((first, last, before, end): (u64, u64, String, String)) -> Stretch {
    Stretch { first, last, before, end }
}

fn read(journal: &Journal, lost: &Stretch) -> Result<Option<Vec<Vec<u8>>>> {
    let place = place_before(journal, lost.first)?;
    if place.sequence + 1 != lost.first || place.hash != lost.before {
        return Ok(None);
    }
    let mut bodies = Vec::new();
    let tail = journal.look_up_to(&place, lost.last, |raw| {
        bodies.push(raw.body.to_vec());
        Ok(())
    })?;
    let is_all = bodies.len() as u64 == lost.last + 1 - lost.first;
    Ok((is_all && tail.end.hash == lost.end).then_some(bodies))
}
