//! Copying a whole store to another folder: packs first, then the journal, so that the copy is a store at every moment, and at most an older one.
//!
//! **Order.** A pin keeps gc off. The journal's end is read and synced; the packs that it knows up to there are copied, each verified as it is
//! read back from the copy; then the journal is copied up to that end, and no further. Of a first copy, `store.json` comes last. Whatever ends it
//! early leaves a store that goes up to where it did before, and the next copy goes on.
//!
//! **What it refuses.** The copy's journal must be a beginning of the store's. If it is not, the copy is newer, or somebody wrote to it: an older
//! copy of the store, or a new store, may be in the store's place, as where a disk is not mounted. Nothing is changed then. What the copy's
//! journal tells of its own upkeep is taken off: that it was verified, checked, repaired or collected.
//!
//! **Damage.** A store whose journal is damaged is not copied. A pack that its parity gives back is copied as it was written. One that stays
//! damaged is noted in the copy, so that it is named, and looked for in the store, each time; so are packs that a check of the copy has found
//! damaged. Where the store has lost objects, as a repair may leave it, packs of the copy that have them are not given up.
//!
//! **What it never does.** It removes nothing from the copy that the store lacks; [`CopyOptions::remove_freed`] asks for packs that gc has removed
//! from the store to go from the copy as well, where neither has lost anything.

mod journal;
mod loss;
mod notes;
mod packs;
mod target;
#[cfg(test)]
mod tests;

use parhelia_name::step::Step;
use schemars::JsonSchema;
use serde::Serialize;
use std::{path::Path, sync::Arc};

use self::{journal::JournalMatch, target::Target};
use crate::{
    error::{Error, Result},
    id::PackId,
    journal::{Journal, Position},
    pin::Pin,
    progress::Progress,
    store::Store,
    view::View,
};

/// gc may remove packs in front of a copy this often before it gives up.
const TRIES_MAX: u32 = 5;

/// Options of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOptions {
    /// Make the copy where there is none. Without it, a missing copy is an error: its disk may not be mounted.
    pub make: bool,
    /// Remove packs from the copy that gc has removed from the store.
    pub remove_freed: bool,
}

/// Report of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CopyReport {
    /// True if there was no copy before.
    pub made: bool,
    /// Sequence of the journal's last entry that the copy has.
    pub sequence: u64,
    /// Checkpoints in the copy.
    pub checkpoints: u64,
    /// Packs in the copy.
    pub packs: u64,
    /// Packs that were copied.
    pub copied_packs: u64,
    /// Bytes of packs and journal that were copied.
    pub copied_bytes: u64,
    /// Packs that were removed from the copy: gc had removed them from the store.
    pub removed_packs: u64,
    /// Length of the packs that were removed, in bytes.
    pub removed_bytes: u64,
    /// Packs that are missing from the store or damaged in it, and not whole in the copy.
    #[serde(rename = "damaged_packs", serialize_with = "crate::json::length")]
    #[schemars(with = "u64")]
    pub damaged: Vec<(PackId, String)>,
    /// Files beside packs and journal that the disk cannot read, and that the copy has as they were, or not at all.
    pub left_out_files: u64,
}

impl CopyReport {
    /// Notes a file that the disk cannot read. Packs and journal can be read without it.
    fn leave_out(&mut self, fault: &str, progress: &dyn Progress) {
        self.left_out_files += 1;
        progress.warning(&format!("{fault}; it is left out of the copy"));
    }
}

/// Copies a store to a folder.
pub fn run(store: &Store, to: &Path, options: &CopyOptions, progress: &dyn Progress) -> Result<CopyReport> {
    whole_view(store, to, progress)?;
    let target = Target::open(store, to, options.make, progress)?;
    // A medium that cannot be written to has no gc either.
    let _pin = match Pin::take(&store.layout().pins(), true, "copy") {
        Err(_) if store.is_read_only() => None,
        other => Some(other?),
    };
    let mut report = CopyReport { made: target.is_new, ..CopyReport::default() };
    target.clear_leftovers()?;
    let (end, meeting) = copy_packs(store, &target, &mut report, progress)?;
    target.copy_settings(store)?;
    if meeting == JournalMatch::Upkeep {
        journal::set_back(store.layout(), &target.layout, &end)?;
    }
    report.copied_bytes += journal::copy(store.layout(), &target.layout, &end)?;
    target.copy_beside(store, &mut report, progress)?;
    target.copy_beside_journal(store, &mut report, progress)?;
    target.finish(store)?;
    verify(&target, &end, &mut report)?;
    // A store that is itself an older copy tells nothing of that.
    if store.younger().is_none() {
        store.memory.accept_copy(&target.layout, &end)?;
    }
    if options.remove_freed && report.damaged.is_empty() {
        loss::ensure_nothing_is_lost(store, &target, progress)?;
        packs::remove_freed(store, &target, &mut report)?;
    }
    Ok(report)
}

/// Copies the packs that the journal knows, and returns the end up to which it does. Starts over where gc removes one meanwhile.
fn copy_packs(
    store: &Store,
    target: &Target,
    report: &mut CopyReport,
    progress: &dyn Progress,
) -> Result<(Position, JournalMatch)> {
    for _ in 0..TRIES_MAX {
        let view = whole_view(store, &target.layout.root, progress)?;
        let end = view.end().clone();
        if !store.is_read_only() {
            Journal::of(store.layout()).sync_up_to(end.sequence)?;
        }
        let meeting = journal::meet(store.layout(), &target.layout, &end)?;
        loss::ensure_none_is_spread(store, target, &view, progress)?;
        report.damaged.clear();
        report.left_out_files = 0;
        let gone = packs::copy(store, target, &view.packs()?, report, progress)?;
        if gone.is_empty() || !Journal::of(store.layout()).has_collected_since(&end)? {
            report.damaged.extend(gone.into_iter().map(|id| (id, "it is missing".to_owned())));
            report.sequence = end.sequence;
            if let (JournalMatch::Upkeep, Some((pack, fault))) = (meeting, report.damaged.first()) {
                let (from, to) = (store.layout().root.display(), target.layout.root.display());
                return Err(Error::Damage(format!(
                    "cannot copy the store at {from} to {to}: the copy's journal goes its own way, and the store has damage that the copy may \
                     make up for: pack {pack}: {fault}\n{} takes from there what is lost; then copy again",
                    Step::RepairFrom(Some(target.layout.root.clone()))
                )));
            }
            return Ok((end, meeting));
        }
    }
    Err(Error::Overtaken { tries: TRIES_MAX })
}

/// The state of the store. Fails where its journal is damaged, or was cut short: the copy may have what is lost there.
fn whole_view(store: &Store, to: &Path, progress: &dyn Progress) -> Result<Arc<View>> {
    let view = store.refresh()?;
    let damage = match view.damage() {
        Some(damage) => damage.fault(),
        // An append may just be arriving.
        None if view.lacks_records() && lacks_records(store, progress)? => {
            "its journal was cut short, or lacks what was committed last".to_owned()
        }
        None => return Ok(view),
    };
    let (from, to) = (store.layout().root.display(), to.display());
    Err(Error::Damage(format!(
        "cannot copy the store at {from} to {to}: {damage}\n{} says what can be mended, and a copy may have the rest; nothing was copied",
        Step::PlanRepair
    )))
}

/// True if records are missing while nobody writes.
fn lacks_records(store: &Store, progress: &dyn Progress) -> Result<bool> {
    let _lock = if store.is_read_only() { None } else { Some(store.lock(progress)?) };
    Ok(store.reopen()?.lacks_records())
}

/// Opens the copy, and looks whether it has what its journal knows.
fn verify(target: &Target, end: &Position, report: &mut CopyReport) -> Result<()> {
    let copy = target.reopened()?;
    let view = copy.view();
    if view.end() != end {
        let (has, wanted) = (view.end().sequence, end.sequence);
        return Err(Error::Refused(format!(
            "the copy goes up to journal entry {has}, and not to {wanted}: somebody else writes to it"
        )));
    }
    report.checkpoints = view.checkpoints()?.len() as u64;
    let known = view.packs()?;
    report.packs = known.len() as u64;
    for (id, state) in known {
        let found = std::fs::symlink_metadata(target.layout.pack(id)).map(|meta| meta.len());
        if !matches!(found, Ok(bytes) if bytes == state.bytes) && report.damaged.iter().all(|(damaged, _)| *damaged != id) {
            report.damaged.push((id, "the copy does not have it whole".into()));
        }
    }
    Ok(())
}
