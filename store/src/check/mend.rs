//! Mending what must be whole before packs can be judged: the two copies of the settings, and the journal.

use std::{cell::RefCell, path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    refill::{self, Copies, End, RefillRange},
    strays::{self, Strays},
};
use crate::{
    append::Chain,
    config::{Config, SettingsFault},
    error::{Error, Result},
    event::{Actor, NewEvent, kind},
    files,
    journal::{Gap, Journal, Position, Tail, encode_entry},
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
    /// True if an earlier repair ended while it replaced a segment of the journal.
    pub is_half_done: bool,
    /// Records that a journal which was cut short lacks at its end, and that no other copy has.
    pub missing: u64,
    /// Lost records of the journal that another copy of the store has.
    pub refilled: Vec<RefillRange>,
    /// Packs and checkpoints of which the journal has lost what it told. Behind damaged places, they are found once those are mended.
    pub strays: Strays,
}

/// A damaged place of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MendedRecords {
    /// Sequence of its first record.
    pub first: u64,
    /// Number of records that are lost there; null if the journal ends with them, so that nobody knows.
    pub lost: Option<u64>,
    /// The damage, for people.
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
    /// True if there is nothing to mend. Records may be missing all the same.
    pub fn is_nothing(&self) -> bool {
        self.settings.is_none()
            && !self.is_half_done
            && self.journal.is_empty()
            && self.refilled.is_empty()
            && self.strays.is_nothing()
    }

    /// True if records of the journal are lost.
    pub fn loses_records(&self) -> bool {
        self.missing > 0 || self.journal.iter().any(|place| place.lost != Some(0))
    }

    /// True if other copies gave back less than the journal had, or nobody knows whether they did.
    pub fn is_short(&self) -> bool {
        !self.refilled.is_empty() && self.loses_records()
    }
}

/// Finds out what is to be mended, and changes nothing but the hint of records that the index knows and the journal has lost. What the journal has
/// lost is also looked for in the stores among `from`.
pub fn plan_mend(layout: &Layout, from: &[PathBuf], progress: &dyn Progress) -> Result<Mend> {
    let settings = Config::faults(layout).map_err(|e| if e.is_not_found() { store::missing(layout) } else { e })?;
    super::index::note_lost_records(layout);
    let own = Journal::of(layout);
    own.ensure_readable()?;
    let is_half_done = own.is_half_replaced().unwrap_or_default();
    let around = own.damage()?;
    let journal: Vec<_> = around.iter().flat_map(|around| &around.gaps).map(MendedRecords::of).collect();
    let copies = Copies::of(layout, from)?;
    let (mut missing, hint) = (0, own.hint());
    let (mut refilled, end) = match &around {
        Some(around) => (copies.have(&refill::of_damaged(around)), around.gaps.iter().find_map(End::of_gap)),
        None => {
            let tail = own.look_through(&Position::start(), |_| Ok(()))?;
            // What an earlier repair left is there.
            missing = if is_half_done { 0 } else { tail.missing };
            (copies.have(&refill::of_whole(&own, &tail)?), End::of_tail(&own, &tail)?)
        }
    };
    if let Some((found, _)) = end.map(|end| copies.behind(&end)).transpose()?.flatten() {
        missing = if missing == 0 { 0 } else { hint.unwrap_or(0).saturating_sub(found.last) };
        refilled.push(found);
    }
    let strays = if journal.is_empty() { strays::find(layout, progress)? } else { Strays::default() };
    Ok(Mend { settings, journal: found_elsewhere(journal, &refilled, hint), is_half_done, missing, refilled, strays })
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
    let own = Journal::of(layout);
    let (hint, followed) = (own.hint(), RefCell::new(Vec::new()));
    let copies = Copies::of(layout, from)?;
    let behind = |end: Option<End>| {
        let found = end.map(|end| copies.behind(&end)).transpose()?.flatten();
        Ok(found.map(|(found, bodies)| {
            followed.borrow_mut().push(found);
            bodies
        }))
    };
    let mended = own.mend(layout, &|gap| match behind(End::of_gap(gap))? {
        Some(bodies) => Ok(bodies),
        None => cut(layout),
    })?;
    if !followed.borrow().is_empty() {
        // Until that is said for good, it stays known that there were more.
        hint.into_iter().for_each(|last| own.raise_hint(last));
    }
    let tail = own.look_through(&Position::start(), |_| Ok(()))?;
    let mut refilled = copies.refill(&own, &refill::of_whole(&own, &tail)?)?;
    if let Some(bodies) = behind(End::of_tail(&own, &tail)?)? {
        own.append_all(tail, bodies)?;
    }
    let followed = followed.take();
    // What a copy had may be less than there was.
    let lost = followed.last().map(|found| hint.map(|hint| hint.saturating_sub(found.last)));
    if let Some(lost) = lost.filter(|lost| *lost != Some(0)) {
        note_cut(layout, hint.filter(|_| lost.is_some()), progress)?;
    }
    refilled.extend(followed);
    let strays = strays::find(layout, progress)?;
    strays.adopt(layout, progress)?;
    let journal = found_elsewhere(mended.iter().map(MendedRecords::of).collect(), &refilled, hint);
    let is_half_done = planned.is_half_done;
    // What had no place was taken for lost.
    let still_missing = if is_half_done { own.read(&Position::start())?.missing } else { planned.missing };
    let missing = if planned.journal.is_empty() { lost.flatten().unwrap_or(still_missing) } else { 0 };
    Ok(Mend { settings, journal, is_half_done, missing, refilled, strays })
}

/// Damaged places of the journal, where what other copies have is not lost. `hint` names the last record that there was, where anything does.
fn found_elsewhere(mut journal: Vec<MendedRecords>, refilled: &[RefillRange], hint: Option<u64>) -> Vec<MendedRecords> {
    for place in &mut journal {
        let Some(found) = refilled.iter().find(|found| found.first == place.first) else { continue };
        place.lost = match place.lost {
            Some(_) => Some(0),
            None => hint.map(|hint| hint.saturating_sub(found.last)),
        };
        let what = match place.lost {
            Some(0) => "what stood there".to_owned(),
            _ => format!("the records up to {}", found.last),
        };
        place.damage.push_str(&format!("; the journal of {} has {what}", found.from.display()));
    }
    journal
}

/// Says for good, behind what a copy had of the journal's last records, that there were more.
fn note_cut(layout: &Layout, last: Option<u64>, progress: &dyn Progress) -> Result<()> {
    let journal = Journal::of(layout);
    last.into_iter().for_each(|last| journal.raise_hint(last));
    let tail = journal.read(&Position::start())?;
    let view = View::of_journal(layout, &tail)?;
    let mut chain = Chain::new(&view)?;
    chain.note_lost(&tail, progress)?;
    if chain.entries.is_empty() {
        chain.add(&NewEvent::new(kind::JOURNAL_CUT, "journal", Actor::program("store")))?;
    }
    journal.append(&Tail { records: Vec::new(), ..tail }, &chain.entries).map(drop)
}

/// The body of the event that says for good that the journal's last records are lost.
fn cut(layout: &Layout) -> Result<Vec<Vec<u8>>> {
    let view = View::from_journal(layout)?;
    let mut chain = Chain::new(&view)?;
    chain.add(&NewEvent::new(kind::JOURNAL_CUT, "journal", Actor::program("store")))?;
    chain.entries.iter().map(|entry| encode_entry(entry, 0)).collect()
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
            assert!(refused.is_damage() && refused.to_string().contains("a repair of the store"), "byte {at}: {refused}");
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
    fn last_records_that_another_copy_of_the_journal_has_are_not_lost() {
        for kept in 0..5 {
            let (test, path, offsets) = store();
            let (good, ids) = (fs::read(&path).unwrap(), test.ids());
            let copy = test.store.path().with_file_name("copy");
            assert!(std::process::Command::new("cp").arg("-a").args([test.store.path(), &copy]).status().unwrap().success());
            let mut bytes = good.clone();
            bytes[offsets[kept] + 60..].fill(b'#');
            fs::write(&path, &bytes).unwrap();
            let (layout, from) = (test.store.layout(), [copy]);
            let expected = RefillRange { first: kept as u64 + 1, last: 5, from: from[0].clone() };
            assert_eq!(plan_mend(layout, &from, &()).unwrap().refilled, std::slice::from_ref(&expected));
            let mended = mend(layout, &from, PATIENCE, &()).unwrap();
            assert!(mended.refilled == [expected] && !mended.loses_records(), "{mended:?}");
            let listed: Vec<_> = opened(&test).checkpoints().unwrap().iter().map(|c| (c.record.id, c.sequence)).collect();
            assert_eq!(listed, ids.iter().copied().zip(1..).collect::<Vec<_>>());
            let end = |layout: &Layout| Journal::of(layout).look_through(&Position::start(), |_| Ok(())).unwrap().end;
            let other = end(Store::open(&from[0], &OpenOptions::default()).unwrap().layout());
            assert_eq!((end(layout).sequence, end(layout).hash), (other.sequence, other.hash));
            let report = run(layout, &CheckOptions::default(), &()).unwrap();
            assert!(report.is_clean(), "{kept}: {:?} {:?}", report.findings, report.notes);
            assert!(mend(layout, &from, PATIENCE, &()).unwrap().is_nothing());
        }
    }

    /// A copy of the store, with the first records of its journal alone.
    fn copy(test: &TestStore, name: &str, length: usize) -> PathBuf {
        let copy = test.store.path().with_file_name(name);
        assert!(std::process::Command::new("cp").arg("-a").args([test.store.path(), &copy]).status().unwrap().success());
        let journal = Layout::new(&copy).journal();
        let segment = journal.join("00000000000000000001.log");
        let bytes = fs::read(&segment).unwrap();
        fs::write(segment, &bytes[..length]).unwrap();
        fs::remove_file(journal.join("synced")).unwrap();
        copy
    }

    fn cuts(layout: &Layout) -> usize {
        let tail = Journal::of(layout).read(&Position::start()).unwrap();
        let is_cut = |entry: &crate::journal::Entry| matches!(entry, crate::journal::Entry::Event(event) if event.kind == kind::JOURNAL_CUT);
        tail.records.iter().filter(|logged| is_cut(&logged.entry)).count()
    }

    #[test]
    fn what_a_copy_does_not_have_of_the_last_records_is_lost_and_said_to_be() {
        for is_cut_short in [false, true] {
            let (test, path, offsets) = store();
            let (good, ids, layout) = (fs::read(&path).unwrap(), test.ids(), test.store.layout());
            let (short, longer, whole) =
                (copy(&test, "a", offsets[3]), copy(&test, "b", offsets[4]), copy(&test, "c", good.len()));
            let hurt = || match is_cut_short {
                true => fs::write(&path, &good[..offsets[2] + 30]).unwrap(),
                false => {
                    fs::write(&path, [&good[..offsets[2] + 60], &vec![b'#'; good.len() - offsets[2] - 60]].concat()).unwrap()
                }
            };
            let (hint_path, hint) = (layout.journal().join("synced"), fs::read(layout.journal().join("synced")).unwrap());
            hurt();
            // The one with the most records counts, in whatever order they are named.
            for from in [[short.clone(), longer.clone()], [longer.clone(), short.clone()]] {
                let planned = plan_mend(layout, &from, &()).unwrap();
                assert_eq!(planned.refilled, [RefillRange { first: 3, last: 4, from: longer.clone() }], "{is_cut_short}");
                assert!(planned.is_short(), "{planned:?}");
            }
            assert_eq!(plan_mend(layout, &[], &()).unwrap().missing, if is_cut_short { 3 } else { 0 });
            let mended = mend(layout, &[short.clone(), longer.clone()], PATIENCE, &()).unwrap();
            assert!(mended.is_short() && mended.loses_records(), "{mended:?}");
            let lost = if is_cut_short { Some(mended.missing) } else { mended.journal[0].lost };
            assert_eq!((lost, cuts(layout)), (Some(1), 1), "{mended:?}");
            // Its checkpoint comes back all the same, as a pack has it.
            assert_eq!(mended.strays.checkpoints, [ids[4]]);
            assert!(run(layout, &CheckOptions::default(), &()).unwrap().is_clean());
            for file in fs::read_dir(layout.journal()).unwrap().map(|file| file.unwrap().path()) {
                let is_new = file != path && file.extension().is_some_and(|ending| ending == "log");
                is_new.then(|| fs::remove_file(file).unwrap());
            }
            hurt();
            fs::write(&hint_path, &hint).unwrap();
            let mended = mend(layout, &[short, longer, whole], PATIENCE, &()).unwrap();
            assert!(!mended.is_short() && !mended.loses_records() && mended.refilled[0].last == 5, "{mended:?}");
            assert_eq!(cuts(layout), 0);
            let listed: Vec<_> = opened(&test).checkpoints().unwrap().iter().map(|c| (c.record.id, c.sequence)).collect();
            assert_eq!(listed, ids.iter().copied().zip(1..).collect::<Vec<_>>());
        }
    }

    #[test]
    fn copies_that_tell_different_things_are_not_chosen_between() {
        let (test, path, offsets) = store();
        let (good, layout) = (fs::read(&path).unwrap(), test.store.layout());
        let (whole, other) = (copy(&test, "a", good.len()), copy(&test, "b", offsets[3]));
        let own = Store::open(&other, &OpenOptions::default()).unwrap();
        own.append_events(&[NewEvent::new("note", "x", Actor::program("test"))], &()).unwrap();
        fs::write(&path, [&good[..offsets[3] + 60], &vec![b'#'; good.len() - offsets[3] - 60]].concat()).unwrap();
        let hurt = fs::read(&path).unwrap();
        for from in [[whole.clone(), other.clone()], [other, whole.clone()]] {
            for refused in [plan_mend(layout, &from, &()), mend(layout, &from, PATIENCE, &())] {
                assert!(refused.as_ref().is_err_and(|e| e.to_string().contains("tell different things")), "{refused:?}");
            }
        }
        assert_eq!(fs::read(&path).unwrap(), hurt);
        assert!(!mend(layout, &[whole], PATIENCE, &()).unwrap().loses_records());
    }

    #[test]
    fn an_append_that_was_cut_off_is_completed_by_a_copy_that_has_it_and_by_no_other() {
        let (test, path, offsets) = store();
        let (good, layout) = (fs::read(&path).unwrap(), test.store.layout());
        let (whole, other) = (copy(&test, "a", good.len()), copy(&test, "b", offsets[3]));
        let own = Store::open(&other, &OpenOptions::default()).unwrap();
        own.append_events(&[NewEvent::new("note", "x", Actor::program("test"))], &()).unwrap();
        // What an append left that was taken back, or cut off; nothing tells of another record.
        for torn in [&[0][..], &good[offsets[3]..offsets[3] + 30]] {
            fs::write(&path, [&good[..offsets[3]], torn].concat()).unwrap();
            Journal::of(layout).write_hint(3);
            let (planned, mended) =
                (plan_mend(layout, std::slice::from_ref(&other), &()), mend(layout, std::slice::from_ref(&other), PATIENCE, &()));
            assert!(planned.unwrap().refilled.is_empty() && mended.unwrap().refilled.is_empty(), "{torn:?}");
            let tail = Journal::of(layout).read(&Position::start()).unwrap();
            assert!(
                !tail.records.iter().any(|logged| matches!(&logged.entry, crate::journal::Entry::Event(e) if e.kind == "note"))
            );
        }
        fs::write(&path, &good[..offsets[3] + 30]).unwrap();
        fs::read_dir(layout.journal()).unwrap().map(|file| file.unwrap().path()).for_each(|file| {
            let is_new = file != path && file.extension().is_some_and(|ending| ending == "log");
            is_new.then(|| fs::remove_file(file).unwrap());
        });
        Journal::of(layout).write_hint(3);
        let mended = mend(layout, &[other, whole.clone()], PATIENCE, &()).unwrap();
        assert_eq!(mended.refilled, [RefillRange { first: 4, last: 5, from: whole }]);
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
                Journal::of(test.store.layout()).mend(test.store.layout(), &|_| cut(test.store.layout())).unwrap();
            }
            let expected = RefillRange { first: lost.start as u64 + 1, last: lost.end as u64, from: from[0].clone() };
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
