//! Records that a journal has lost and that the journal of another copy of the store still has. They fill a gap where the chain of hashes fits
//! at both of its ends, so that they are the very records that stood there; at the journal's end, they follow where it fits.

use parhelia_name::step::Step;
use std::path::PathBuf;

use crate::{
    error::{Error, Result},
    format::JOURNAL_SEGMENT_BYTES,
    journal::{Around, Gap, Journal, Position, Tail, Writer},
    layout::Layout,
    store::Store,
    view,
};

/// Records that another copy of the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefillRange {
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

/// The end of a journal that has lost its last records, or may have.
pub(super) struct End {
    /// Sequence of the first of them.
    first: u64,
    /// Chain hash of the record before them.
    hash: String,
    /// The bytes that there are of the first of them, where nothing else shows that it was committed.
    torn: Vec<u8>,
}

impl End {
    /// The end of a journal with damage behind which nothing whole follows.
    pub(super) fn of_gap(gap: &Gap) -> Option<Self> {
        gap.open_end().map(|(first, hash)| End { first, hash, torn: Vec::new() })
    }

    /// The end of a journal that was cut short, or whose last append was.
    pub(super) fn of_tail(journal: &Journal, tail: &Tail) -> Result<Option<Self>> {
        if tail.missing == 0 && tail.torn_bytes == 0 {
            return Ok(None);
        }
        let is_lost = tail.missing > 0 || tail.is_doubtful;
        let torn = if is_lost { Vec::new() } else { journal.torn(tail)? };
        Ok(Some(End { first: tail.end.sequence + 1, hash: tail.end.hash.clone(), torn }))
    }
}

/// Other copies of a store.
pub(super) struct Copies {
    copies: Vec<(PathBuf, Journal)>,
    /// A record that the index proves: a copy with another one in its place has gone on by itself.
    proved: Option<Position>,
}

impl Copies {
    /// Those among `from` that are stores of the same id.
    pub(super) fn of(layout: &Layout, from: &[PathBuf]) -> Result<Self> {
        let mut copies = Vec::new();
        for path in from.iter().filter(|path| Layout::has_settings_at(path)) {
            let store = Store::open_like(path, layout)?;
            if crate::config::Config::of(layout).is_ok_and(|config| config.id == store.config().id) {
                copies.push((path.clone(), Journal::of(store.layout())));
            }
        }
        let proved = if copies.is_empty() { None } else { view::index_position(layout) };
        Ok(Copies { copies, proved })
    }

    /// The first copy that has these records, and their bodies.
    fn find(&self, lost: &Stretch) -> Option<(RefillRange, Vec<Vec<u8>>)> {
        let mut found = self.copies.iter().filter_map(|(path, journal)| {
            let bodies = read(journal, lost).ok().flatten()?;
            Some((RefillRange { first: lost.first, last: lost.last, from: path.clone() }, bodies))
        });
        found.next()
    }

    /// Records that follow the journal's last one, from the copy that has most of them: which they are, and their bodies. Fails where copies tell
    /// different things.
    pub(super) fn behind(&self, end: &End) -> Result<Option<(RefillRange, Vec<Vec<u8>>)>> {
        let mut best: Option<(RefillRange, Vec<Vec<u8>>)> = None;
        for (path, journal) in &self.copies {
            let bodies = behind(journal, end).unwrap_or_default();
            let last = end.first + bodies.len() as u64 - 1;
            if last < end.first || !self.is_proved(journal, end.first, last) {
                continue;
            }
            let found = RefillRange { first: end.first, last, from: path.clone() };
            match &best {
                Some((other, others)) if others.iter().zip(&bodies).any(|(one, another)| one != another) => {
                    return Err(Error::Refused(format!(
                        "the copies at {} and {} tell different things behind record {}: one of them was written to by itself; name only the one that \
                         is right with {}",
                        other.from.display(),
                        path.display(),
                        end.first - 1,
                        Step::From
                    )));
                }
                Some((_, others)) if others.len() >= bodies.len() => {}
                _ => best = Some((found, bodies)),
            }
        }
        Ok(best)
    }

    /// False where the index proves that another record stands among these.
    fn is_proved(&self, journal: &Journal, first: u64, last: u64) -> bool {
        let among = self.proved.as_ref().filter(|proved| (first..=last).contains(&proved.sequence));
        among.is_none_or(|proved| journal.place_behind(proved.sequence).is_ok_and(|place| place.hash == proved.hash))
    }

    /// Lost records that copies have.
    pub(super) fn have(&self, lost: &[Stretch]) -> Vec<RefillRange> {
        lost.iter().filter_map(|lost| Some(self.find(lost)?.0)).collect()
    }

    /// Writes what copies have into the gaps of a journal that reads to its end. The caller holds the writer lock.
    pub(super) fn refill(&self, journal: &Journal, lost: &[Stretch]) -> Result<Vec<RefillRange>> {
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

/// The records behind the end of another journal, where the one before them is the same.
fn behind(journal: &Journal, end: &End) -> Result<Vec<Vec<u8>>> {
    let place = place_before(journal, end.first)?;
    let mut bodies = Vec::new();
    if place.sequence + 1 == end.first && place.hash == end.hash {
        journal.look_through(&place, |raw| {
            bodies.push(raw.body.to_vec());
            Ok(())
        })?;
    }
    // Of another record, so that nothing was lost here, and the copy has gone on by itself.
    if bodies.first().is_some_and(|body| !journal.frame(&place, body).starts_with(&end.torn)) {
        bodies.clear();
    }
    Ok(bodies)
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
