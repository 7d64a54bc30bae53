//! Mending what must be whole before packs can be judged: the two copies of the settings, and the journal.

use std::{path::PathBuf, time::Duration};

use super::{
    refill::{self, Copies, Refilled, Stretch},
    strays::{self, Strays},
};
use crate::{
    append::Chain,
    config::{Config, SettingsFault},
    error::{Error, Result},
    event::{Actor, NewEvent, kind},
    files,
    journal::{Entry, Gap, Journal, Position},
    layout::Layout,
    lock::WriterLock,
    progress::Progress,
    store,
    view::View,
};

/// Damage of the settings and of the journal, and what becomes of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mend {
    /// The copy of the settings that is written anew from the other.
    pub settings: Option<SettingsFault>,
    /// Damaged places of the journal.
    pub journal: Vec<MendedRecords>,
    /// Lost records of the journal that another copy of the store has.
    pub refilled: Vec<Refilled>,
    /// Packs and checkpoints of which the journal has lost what it told. Behind damaged places, they are found once those are mended.
    pub strays: Strays,
}

/// A damaged place of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MendedRecords {
    /// Sequence of its first record.
    pub first: u64,
    /// Number of records that are lost there. `None` if the journal ends with them, so that nobody knows.
    pub lost: Option<u64>,
    /// The damage in words.
    pub damage: String,
}

impl MendedRecords {
    fn of(gap: &Gap) -> Self {
        let lost = match gap.next {
            _ if !gap.loses_records() => Some(0),
            Some(next) => Some(next - gap.first),
            None => None,
        };
        MendedRecords { first: gap.first, lost, damage: gap.said() }
    }
}

impl Mend {
    /// True if there is nothing to mend.
    pub fn is_nothing(&self) -> bool {
        self.settings.is_none() && self.journal.is_empty() && self.refilled.is_empty() && self.strays.is_nothing()
    }

    /// True if records of the journal are lost.
    pub fn loses_records(&self) -> bool {
        self.journal.iter().any(|place| place.lost != Some(0))
    }
}

/// Finds out what is to be mended, and changes nothing but the hint of records that the index knows and the journal has lost. What the journal has
/// lost is also looked for in the stores among `from`.
pub fn plan_mend(layout: &Layout, from: &[PathBuf], progress: &dyn Progress) -> Result<Mend> {
    let settings = Config::faults(layout).map_err(|e| if e.is_not_found() { store::missing(layout) } else { e })?;
    let around = Journal::of(layout).damage()?;
    let journal: Vec<_> = around.iter().flat_map(|around| &around.gaps).map(MendedRecords::of).collect();
    let refilled = match Copies::of(layout, from)? {
        copies if copies.is_empty() => Vec::new(),
        copies => copies.have(&match &around {
            Some(around) => refill::of_damaged(around),
            None => lost_in(layout)?,
        }),
    };
    super::index::note_lost_records(layout);
    let strays = if journal.is_empty() { strays::find(layout, progress)? } else { Strays::default() };
    Ok(Mend { settings, journal: found_elsewhere(journal, &refilled), refilled, strays })
}

/// Mends the settings and the journal. Waits for the writer lock up to `lock_timeout`. Returns what was mended.
pub fn mend(layout: &Layout, from: &[PathBuf], lock_timeout: Duration, progress: &dyn Progress) -> Result<Mend> {
    let planned = plan_mend(layout, from, progress)?;
    if planned.is_nothing() {
        return Ok(planned);
    }
    if let Some(uid) = files::host(&layout.root) {
        return Err(Error::NotOwner { path: layout.root.clone(), uid });
    }
    Config::of(layout)?.check_writable(&layout.root)?;
    let _lock = WriterLock::take(&layout.root, lock_timeout, progress)?;
    let settings = Config::faults(layout)?;
    if settings.is_some() {
        Config::mend(layout)?;
    }
    let mended = Journal::of(layout).mend(layout, &|| cut(layout))?;
    let copies = Copies::of(layout, from)?;
    let refilled = if copies.is_empty() { Vec::new() } else { copies.refill(&Journal::of(layout), &lost_in(layout)?)? };
    let strays = strays::find(layout, progress)?;
    strays.adopt(layout, progress)?;
    let journal = found_elsewhere(mended.iter().map(MendedRecords::of).collect(), &refilled);
    Ok(Mend { settings, journal, refilled, strays })
}

/// Losses of the journal between records that it has.
fn lost_in(layout: &Layout) -> Result<Vec<Stretch>> {
    let journal = Journal::of(layout);
    refill::of_whole(&journal, &journal.look_through(&Position::start(), |_| Ok(()))?)
}

/// Damaged places of the journal, where what other copies have is not lost.
fn found_elsewhere(mut journal: Vec<MendedRecords>, refilled: &[Refilled]) -> Vec<MendedRecords> {
    for place in &mut journal {
        if let Some(found) = refilled.iter().find(|found| found.first == place.first) {
            place.lost = Some(0);
            place.damage.push_str(&format!("; the journal of {} has what stood there", found.from.display()));
        }
    }
    journal
}

/// The event that says for good that the journal's last records are lost.
fn cut(layout: &Layout) -> Result<Entry> {
    let view = View::from_journal(layout)?;
    let mut chain = Chain::new(&view)?;
    chain.add(&NewEvent::new(kind::JOURNAL_CUT, "journal", Actor::program("store")))?;
    chain.entries.pop().ok_or_else(|| Error::Invalid("an event was not made".into()))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;
    use crate::{
        OpenOptions, Store,
        check::{CheckOptions, run},
        testing::{TestStore, files},
    };

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A store whose checkpoints stand in the journal alone, and the offsets of its records.
    fn store() -> (TestStore, PathBuf, Vec<usize>) {
        let test = TestStore::new();
        for seed in 0..5 {
            test.checkpoint(&files(seed, 3));
        }
        let path = test.store.layout().journal().join("00000000000000000001.log");
        let bytes = fs::read(&path).unwrap();
        let (mut at, mut offsets) = (64, Vec::new());
        while at < bytes.len() {
            offsets.push(at);
            at += 48 + u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
        }
        (test, path, offsets)
    }

    fn opened(test: &TestStore) -> Store {
        Store::open(test.store.path(), &OpenOptions::default()).unwrap()
    }

    #[test]
    fn one_flipped_bit_anywhere_in_the_journal_is_read_past_named_and_set_right() {
        let (test, path, offsets) = store();
        let (good, ids) = (fs::read(&path).unwrap(), test.ids());
        for at in
            (0..good.len()).filter(|at| at % 13 == 0 || *at < 64 || offsets.iter().any(|from| (*from..from + 48).contains(at)))
        {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).unwrap();
            let store = opened(&test);
            let found: Vec<_> = store.checkpoints().unwrap().iter().map(|c| c.record.id).collect();
            assert_eq!(found, ids, "byte {at}");
            assert!(store.view().damage().is_some(), "byte {at}");
            let refused = store.append_events(&[NewEvent::new("note", "x", Actor::program("test"))], &()).unwrap_err();
            assert!(refused.is_damage() && refused.to_string().contains("check --repair"), "byte {at}: {refused}");
            assert_eq!(fs::read(&path).unwrap(), bytes, "byte {at}");
            assert!(!run(test.store.layout(), &CheckOptions::default(), &()).unwrap().is_clean());
            let mended = mend(test.store.layout(), &[], PATIENCE, &()).unwrap();
            assert!(!mended.is_nothing() && !mended.loses_records(), "byte {at}: {mended:?}");
            assert_eq!(fs::read(&path).unwrap(), good, "byte {at}");
        }
        assert!(run(test.store.layout(), &CheckOptions::default(), &()).unwrap().is_clean());
        assert!(mend(test.store.layout(), &[], PATIENCE, &()).unwrap().is_nothing());
    }

    #[test]
    fn what_is_whole_before_and_behind_lost_records_is_read_and_stays_as_it_is() {
        let (test, path, offsets) = store();
        let (good, ids) = (fs::read(&path).unwrap(), test.ids());
        assert_eq!(offsets.len(), 5);
        let synced = test.store.layout().journal().join("synced");
        let hint = fs::read(&synced).unwrap();
        for lost in [0..1, 1..2, 1..4, 3..4, 4..5] {
            let mut bytes = good.clone();
            let end = offsets.get(lost.end).copied().unwrap_or(good.len());
            // Damage that reaches from the middle of one record into another's head.
            bytes[offsets[lost.start] + 60..end - 20].fill(b'#');
            fs::write(&path, &bytes).unwrap();
            let kept: Vec<_> = (0..5).filter(|i| !lost.contains(i)).map(|i| ids[i]).collect();
            let listed = |store: &Store| store.checkpoints().unwrap().iter().map(|c| c.record.id).collect::<Vec<_>>();
            assert_eq!(listed(&opened(&test)), kept, "{lost:?}");
            let mended = mend(test.store.layout(), &[], PATIENCE, &()).unwrap();
            assert!(mended.loses_records(), "{lost:?}");
            // A segment that begins with lost records is set aside.
            let damaged = if lost.start == 0 { path.with_extension("damaged") } else { path.clone() };
            assert_eq!(fs::read(&damaged).unwrap(), bytes, "{lost:?}: damaged bytes stay");
            let store = opened(&test);
            // In the order in which they were committed: what was lost stands where it was.
            assert_eq!(listed(&store), ids, "{lost:?}");
            assert!(store.view().damage().is_none());
            let numbered = store.checkpoints().unwrap().into_iter().filter(|c| kept.contains(&c.record.id));
            assert!(numbered.into_iter().all(|c| ids[c.sequence as usize - 1] == c.record.id), "no record gets another number");
            // Packs that only the lost records named belong to the store again, and so do the checkpoints in them.
            assert_eq!(mended.strays.checkpoints, lost.clone().map(|i| ids[i]).collect::<Vec<_>>());
            store.append_events(&[NewEvent::new("note", "x", Actor::program("test"))], &()).unwrap();
            let report = run(test.store.layout(), &CheckOptions::default(), &()).unwrap();
            assert!(report.is_clean(), "{lost:?}: {:?}", report.findings);
            for file in fs::read_dir(test.store.layout().journal()).unwrap().map(|file| file.unwrap().path()) {
                let is_new = file != path && file.extension().is_some_and(|ending| ending == "log");
                if is_new {
                    fs::remove_file(file).unwrap();
                }
            }
            fs::write(&path, &good).unwrap();
            fs::write(&synced, &hint).unwrap();
        }
    }

    #[test]
    fn records_that_another_copy_of_the_journal_has_are_not_lost() {
        for (lost, is_mended_before) in [(0..1, false), (1..3, false), (3..4, true), (0..2, true)] {
            let (test, path, offsets) = store();
            let (good, ids) = (fs::read(&path).unwrap(), test.ids());
            let copy = test.store.path().with_file_name("copy");
            assert!(std::process::Command::new("cp").arg("-a").args([test.store.path(), &copy]).status().unwrap().success());
            let mut bytes = good.clone();
            bytes[offsets[lost.start] + 60..offsets[lost.end] - 20].fill(b'#');
            fs::write(&path, &bytes).unwrap();
            let from = [copy];
            if is_mended_before {
                Journal::of(test.store.layout()).mend(test.store.layout(), &|| cut(test.store.layout())).unwrap();
            }
            let expected = Refilled { first: lost.start as u64 + 1, last: lost.end as u64, from: from[0].clone() };
            assert_eq!(plan_mend(test.store.layout(), &from, &()).unwrap().refilled, std::slice::from_ref(&expected));
            let mended = mend(test.store.layout(), &from, PATIENCE, &()).unwrap();
            assert!(mended.refilled == [expected] && !mended.loses_records(), "{mended:?}");
            let listed: Vec<_> = opened(&test).checkpoints().unwrap().iter().map(|c| (c.record.id, c.sequence)).collect();
            assert_eq!(listed, ids.iter().copied().zip(1..).collect::<Vec<_>>());
            let report = run(test.store.layout(), &CheckOptions::default(), &()).unwrap();
            assert!(report.is_clean() && report.notes.is_empty(), "{lost:?}: {:?} {:?}", report.findings, report.notes);
            assert!(mend(test.store.layout(), &from, PATIENCE, &()).unwrap().is_nothing());
        }
    }
}
