//! The structure: journal, packs, and whether the index says what they say.

mod index;
mod journal;

use parhelia_name::step::Step;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

pub(super) use self::{index::check_index, journal::check_journal};
use super::{CheckReport, Finding, FindingKind, share::Share};
use crate::{
    damaged,
    error::{Error, Result},
    files,
    gc::sweep::forgotten,
    healed,
    id::{ObjectId, ObjectKey, PackId},
    journal::{Journal, Position},
    layout::Layout,
    pack::{Location, ObjectKind, PackFile},
    progress::{self, Phase, Progress},
    record::Checkpoint,
    store::Store,
    threads,
    view::{PackState, View},
};

/// Knowledge of the packs after they were read.
#[derive(Default)]
pub(super) struct Packs {
    /// Objects that lie where the index says.
    pub(super) confirmed: HashSet<ObjectKey>,
    /// Blocks whose data are damaged.
    pub(super) bad_blocks: BTreeSet<Location>,
    /// Packs that could not be read to the end.
    pub(super) damaged: BTreeSet<PackId>,
    /// Those of them that are gone or torn, so that not all blocks in them can be found.
    lost: BTreeSet<PackId>,
    /// Blocks that cannot be decoded for want of what they build on.
    without_base: BTreeSet<Location>,
    /// Blocks that build on others.
    on_bases: Vec<OnBases>,
    /// Objects in blocks that cannot be decoded for want of what they build on, and that lie nowhere else as far as the index says.
    pub(super) without_bases: HashSet<ObjectKey>,
}

/// The objects of a block, and what they build on.
struct OnBases {
    at: Location,
    objects: Vec<ObjectKey>,
    /// Those that the index does not find. It leaves out what cannot be decoded.
    not_indexed: Vec<ObjectKey>,
    bases: Vec<ObjectId>,
}

/// Every pack: its length, its digest, its directories, and its data as far as asked.
pub(super) fn check_packs(
    store: &Store,
    view: &View,
    share: Share,
    report: &mut CheckReport,
    progress: &dyn Progress,
) -> Result<Packs> {
    let layout = store.layout();
    let known = view.packs()?;
    let current: BTreeMap<PackId, PackState> =
        known.iter().filter(|(_, s)| s.condemned.is_none()).map(|(i, s)| (*i, s.clone())).collect();
    progress.phase(Phase::Check, None, Some(current.values().map(|state| state.bytes).sum()));
    let mut packs = Packs::default();
    let mut not_indexed = 0u64;
    let noted = healed::list(layout);
    noted.iter().filter(|id| !current.contains_key(id)).for_each(|id| healed::forget(layout, *id));
    for (id, state) in &current {
        let is_noted = noted.contains(id);
        let mut pass = Pass { store, view, share, packs: &mut packs, report, not_indexed: &mut not_indexed, is_noted, progress };
        if let Err(e) = pass.pack(*id, state) {
            match e {
                Error::Cancelled => return Err(e),
                e => {
                    packs.damaged.insert(*id);
                    if e.is_damage() {
                        packs.lost.insert(*id);
                        healed::forget(layout, *id);
                    }
                    report.push(Finding { pack: Some(*id), ..Finding::new(FindingKind::Pack, e.fault()) });
                }
            }
        }
    }
    packs.drop_without_bases(view)?;
    not_indexed += packs.on_bases.iter().map(|block| block.not_indexed.len() as u64).sum::<u64>();
    if not_indexed > 0 {
        report
            .add(FindingKind::Index, format!("the index lacks {not_indexed} objects of the packs; run {}", Step::RebuildInCheck));
    }
    note_strangers(layout, view, report);
    Ok(packs)
}

impl Packs {
    /// Blocks of which nothing can be read, and packs whose blocks cannot all be found.
    pub(super) fn undecodable(&self) -> impl Iterator<Item = Location> + '_ {
        let packs = self.lost.iter().map(|pack| damaged::whole(*pack));
        self.bad_blocks.union(&self.without_base).copied().chain(packs)
    }

    /// Takes back that objects were confirmed which cannot be decoded, because a base of their block is not there, or damaged.
    fn drop_without_bases(&mut self, view: &View) -> Result<()> {
        loop {
            let mut dropped = Vec::new();
            for (number, block) in self.on_bases.iter().enumerate() {
                let mut is_lost = false;
                for base in &block.bases {
                    let place = view.locate(*base).ok().flatten();
                    let is_good = self.confirmed.contains(&base.key()) && place.is_some_and(|at| !self.bad_blocks.contains(&at));
                    is_lost |= !is_good;
                }
                dropped.extend(is_lost.then_some(number));
            }
            if dropped.is_empty() {
                return Ok(());
            }
            for number in dropped.into_iter().rev() {
                let block = self.on_bases.swap_remove(number);
                self.without_base.insert(block.at);
                for key in block.objects {
                    self.confirmed.remove(&key);
                    self.without_bases.insert(key);
                }
                self.without_bases.extend(block.not_indexed);
            }
        }
    }
}

struct Pass<'a> {
    store: &'a Store,
    view: &'a View,
    share: Share,
    packs: &'a mut Packs,
    report: &'a mut CheckReport,
    not_indexed: &'a mut u64,
    /// True if the pack was read by its parity before.
    is_noted: bool,
    progress: &'a dyn Progress,
}

impl Pass<'_> {
    fn pack(&mut self, id: PackId, state: &PackState) -> Result<()> {
        self.report.packs += 1;
        let path = self.store.layout().pack(id);
        let file = PackFile::open(self.store.layout(), id)?;
        let mut sampled = Vec::new();
        let info = file.scan_blocks(false, |location, directory| {
            progress::check(self.progress)?;
            self.report.blocks += 1;
            self.report.objects += directory.entries.len() as u64;
            let (mut objects, mut not_indexed) = (Vec::new(), Vec::new());
            for entry in &directory.entries {
                match self.place(entry.id)? {
                    Some(place) if place == location => objects.push(entry.id.key()),
                    Some(_) => {}
                    None => not_indexed.push(entry.id.key()),
                }
            }
            self.packs.confirmed.extend(&objects);
            match directory.bases.is_empty() {
                true => *self.not_indexed += not_indexed.len() as u64,
                false => self.packs.on_bases.push(OnBases { at: location, objects, not_indexed, bases: directory.bases.clone() }),
            }
            match self.share.has(location) {
                true => sampled.push(location),
                false => self.progress.advance(0, u64::from(location.block_bytes)),
            }
            Ok(())
        });
        // What the directories gave before they broke off is read all the same.
        self.data(&file, &sampled)?;
        let info = info?;
        file.check_copies()?;
        if info.bytes != state.bytes || info.digest != state.digest {
            return Err(Error::Corrupt {
                what: "pack".into(),
                place: path,
                reason: "it is not the one that was committed".into(),
            });
        }
        self.parity(id, &file)
    }

    /// Names a pack that is damaged in places that its parity makes up for. What is not read by blocks is read here: parity and checksums.
    fn parity(&mut self, id: PackId, file: &PackFile) -> Result<()> {
        let layout = self.store.layout();
        let is_read = self.share.has(damaged::whole(id));
        if !(is_read || self.is_noted || file.was_healed()) {
            return Ok(());
        }
        let Some(examined) = file.examine()?.filter(|examined| examined.damaged > 0) else {
            healed::forget(layout, id);
            return Ok(());
        };
        // Parity does not make up for what is lost.
        match examined.lost {
            0 => healed::note(layout, id),
            _ => healed::forget(layout, id),
        }
        let (kind, outcome) = match examined.lost {
            0 => (FindingKind::Healed, "its parity gives back what was written there".to_owned()),
            _ if examined.damaged == 1 => (FindingKind::Pack, "its parity does not give back what was written there".to_owned()),
            lost => (FindingKind::Pack, format!("its parity does not give back what was written in {lost} of them")),
        };
        let places = match examined.damaged {
            1 => "1 place".to_owned(),
            several => format!("{several} places"),
        };
        let message = format!("{} is damaged in {places}; {outcome}", layout.pack(id).display());
        self.report.push(Finding { pack: Some(id), ..Finding::new(kind, message) });
        Ok(())
    }

    /// Location of an object in the index.
    fn place(&self, id: ObjectId) -> Result<Option<Location>> {
        match self.view.locate(id) {
            Err(Error::Index { .. }) => Ok(None),
            found => found,
        }
    }

    /// Reads blocks and hashes what is in them, on every processor.
    fn data(&mut self, file: &PackFile, sampled: &[Location]) -> Result<()> {
        let (next, bad) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let progress = self.progress;
        let read = || -> Result<()> {
            while let Some(location) = sampled.get(next.fetch_add(1, Ordering::Relaxed)) {
                progress::check(progress)?;
                match file.read_block(*location).and_then(|read| self.store.decode(read)) {
                    Err(Error::Cancelled) => return Err(Error::Cancelled),
                    Err(e) => bad.lock().unwrap_or_else(PoisonError::into_inner).push((*location, e)),
                    Ok(_) => {}
                }
                progress.advance(0, u64::from(location.block_bytes));
            }
            Ok(())
        };
        let number = thread::available_parallelism().map_or(2, usize::from).min(sampled.len());
        threads::together(number.saturating_sub(1), read).into_iter().collect::<Result<()>>()?;
        self.report.blocks_read += sampled.len() as u64;
        self.report.bytes_read += sampled.iter().map(|location| u64::from(location.block_bytes)).sum::<u64>();
        let mut bad = bad.into_inner().unwrap_or_else(PoisonError::into_inner);
        bad.sort_by_key(|(location, _)| *location);
        for (location, e) in bad {
            self.packs.bad_blocks.insert(location);
            self.report.push(Finding { pack: Some(location.pack), ..Finding::new(FindingKind::Pack, e.fault()) });
        }
        Ok(())
    }
}

/// Tells whether a block that was damaged is gone, or was read now and is whole.
pub(super) fn over<'p>(view: &View, packs: &'p Packs, share: Share) -> Result<impl Fn(Location) -> bool + use<'p>> {
    let known = view.packs()?;
    Ok(move |at: Location| {
        let is_gone = known.get(&at.pack).is_none_or(|state| state.condemned.is_some());
        let is_bad = packs.damaged.contains(&at.pack) || packs.bad_blocks.contains(&at) || packs.without_base.contains(&at);
        let is_looked_at = at == damaged::whole(at.pack) || share.has(at);
        is_gone || is_looked_at && !is_bad
    })
}

/// Files in the packs' folder that the journal does not know.
fn note_strangers(layout: &Layout, view: &View, report: &mut CheckReport) {
    let Ok(files) = files::list(&layout.packs()) else { return };
    let Ok(known) = view.packs() else { return };
    let strangers = files.iter().filter(|path| Layout::pack_of(path).is_none_or(|id| !known.contains_key(&id))).count();
    if strangers == 0 {
        return;
    }
    let place = layout.packs();
    let kept = forgotten(layout, || Ok(known)).map(|(_, kept)| kept).unwrap_or_default();
    let others = strangers - kept.packs.len().min(strangers);
    if others > 0 {
        report.notes.push(format!("{others} files in {} belong to runs that did not commit, or not yet", place.display()));
    }
    if !kept.packs.is_empty() {
        let of = |c: &Checkpoint| format!("{} of session {} ({})", c.id(), c.record.session, c.record.created_at);
        let checkpoints: Vec<String> = kept.checkpoints.iter().map(of).collect();
        let (packs, place, checkpoints) = (kept.packs.len(), place.display(), checkpoints.join(", "));
        match kept.is_journal_older {
            true => report.add(
                FindingKind::Journal,
                format!(
                    "the journal does not know {packs} whole packs in {place}, as if it were an older copy; gc keeps them. They hold {checkpoints}. \
                     Put the newer journal back, finish {} that was interrupted, or have {} take them in",
                    Step::Copy,
                    Step::Repair
                ),
            ),
            false => report.notes.push(format!(
                "the journal does not know {packs} whole packs in {place}: a run did not end, or a record was lost. gc keeps them, and {} takes them in. They hold {checkpoints}",
                Step::Repair
            )),
        }
    }
}

/// Checks everything that can be checked when nothing tells which packs there should be: every pack by itself.
pub(super) fn check_without_config(layout: &Layout, report: &mut CheckReport) -> Result<()> {
    if let Err(e) = Journal::of(layout).read(&Position::start()) {
        let message = e.to_string();
        if !report.findings.iter().any(|finding| finding.message == message) {
            report.add(FindingKind::Journal, message);
        }
    }
    let Ok(files) = files::list(&layout.packs()) else { return Ok(()) };
    for path in files {
        let Some(id) = Layout::pack_of(&path) else { continue };
        report.packs += 1;
        if let Err(e) = PackFile::open(layout, id)
            .and_then(|file| file.scan_blocks(true, |_, _| Ok(())).map(|_| file))
            .and_then(|file| file.check_copies())
        {
            report.push(Finding { pack: Some(id), ..Finding::new(FindingKind::Pack, e.fault()) });
        }
    }
    Ok(())
}

/// The name of an object's kind in messages.
pub(super) fn describe(kind: ObjectKind, id: ObjectId) -> String {
    format!("{} {id}", kind.name())
}
