//! Checking a store: is everything there, and is it what was written? Damage is named with the checkpoints and paths that it touches,
//! and never keeps the rest from being checked.

mod index;
mod known;
mod mend;
mod parts;
mod paths;
mod reach;
mod refill;
mod repair;
mod report;
mod salvage;
mod share;
mod strays;
mod structure;
#[cfg(test)]
mod tests;
pub(crate) mod verify;

pub use index::rebuild_index;
pub use mend::{Mend, MendedRecords, mend, plan_mend};
pub use parts::Lack;
pub use refill::RefillRange;
pub use repair::{LostObject, RepairPlan, SearchedFolder, plan_repair, repair};
pub use report::{AffectedPath, CheckReport, Finding, FindingKind, Hurt, HurtCheckpoint};
pub use salvage::{DamagedPack, SalvageReport, SalvagedCheckpoint, salvage};
pub use share::{LastCheck, has_new_damage, last};
pub use strays::Strays;
pub use verify::{Problem, VerifyLevel, VerifyReport, verify, verify_new, verify_up_to};

use self::share::Share;
use crate::{
    clock,
    config::Config,
    damaged,
    error::{Error, Result},
    id::ObjectId,
    layout::Layout,
    pack::Location,
    pin::Pin,
    progress::Progress,
    record::Checkpoint,
    store::{OpenOptions, Store},
};
use parhelia_name::step::Step;

/// Options of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Of how many blocks in a hundred the data are read and hashed again; `None` for none. The next check reads others, until all were read.
    pub read_data_percent: Option<u8>,
}

/// Checks the store in a folder. Fails only where there is no store, where it is too new, or where the caller asked to stop; damage is
/// in the report.
pub fn run(layout: &Layout, options: &CheckOptions, progress: &dyn Progress) -> Result<CheckReport> {
    run_naming(layout, options, &mut |_| Ok(()), progress)
}

/// As [`run`]; each path that damage touches is given to `hurt` as it is found, of the newest checkpoint first. The report counts them.
pub fn run_naming(
    layout: &Layout,
    options: &CheckOptions,
    hurt: &mut dyn FnMut(&Hurt) -> Result<()>,
    progress: &dyn Progress,
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    // Keeps condemned packs where they are while they may still be read. A medium that cannot be written to has no gc either.
    let mut pin = Pin::take(&layout.pins(), true, "check").ok();
    let Some(store) = open(layout, &mut report)? else {
        share::note_found(layout, &report);
        return Ok(report);
    };
    match damaged::ensure_packs_are_there(&store) {
        // Each of them would be damage of its own, and of all that checkpoints need.
        Err(Error::Damage(message)) => {
            report.add(FindingKind::Missing, message);
            share::note_found(layout, &report);
            return Ok(report);
        }
        other => other?,
    }
    if let Some(fault) = Config::faults(layout)? {
        let message = format!("{}; its other copy is whole and counts; {} writes it anew", fault.reason, Step::Repair);
        report.add(FindingKind::Config, message);
    }
    let view = store.view();
    let checkpoints = match view.checkpoints() {
        Ok(checkpoints) => checkpoints,
        Err(e) => {
            report.add(FindingKind::Index, e.to_string());
            &[]
        }
    };
    if let Some(pin) = &mut pin {
        let _ = pin.add(checkpoints.iter().map(|c| c.record.id));
    }
    structure::check_journal(layout, &view, checkpoints, &mut report)?;
    let (share, began_at) = (Share::next(layout, options.read_data_percent), clock::timestamp());
    let packs = structure::check_packs(&store, &view, share, &mut report, progress)?;
    structure::check_index(&view, &packs, &mut report, progress)?;
    // Where the index is wrong, packs and journal still tell whether everything is there.
    let store = match report.rebuild_index {
        true => Store::open_without_index(&layout.root, &OpenOptions::with(layout)).unwrap_or(store),
        false => store,
    };
    let damaged = check_reach(&store, &packs, checkpoints, &mut report, hurt, progress)?;
    let over = structure::over(&view, &packs, share)?;
    damaged::note(&store, packs.undecodable().chain(damaged), Some(&over));
    match options.read_data_percent {
        Some(percent) => share.note(layout, began_at, percent, &report, packs.damaged.is_empty()),
        None => share::note_found(layout, &report),
    }
    Ok(report)
}

/// Objects that checkpoints need, by their trees and recipes, and that no pack is known to hold, or cannot be read. Of content, only the place is
/// looked up.
pub(crate) fn unreadable(store: &Store, progress: &dyn Progress) -> Result<Vec<ObjectId>> {
    let view = store.view();
    let mut reach = reach::Reach::new(store, reach::Trust::Index(None));
    for checkpoint in view.checkpoints()? {
        reach.checkpoint(checkpoint, progress)?;
    }
    Ok(reach.bad.into_keys().collect())
}

/// Opens the store, without RocksDB if that does not work.
fn open(layout: &Layout, report: &mut CheckReport) -> Result<Option<Store>> {
    let (root, options) = (&layout.root, OpenOptions::with(layout));
    let error = match Store::open_with_index(root, &options).and_then(|store| store.view().packs().map(|_| store)) {
        Ok(store) => return Ok(Some(store)),
        Err(e) => e,
    };
    match error {
        Error::Corrupt { ref place, .. } if *place == layout.config() => {
            report.add(FindingKind::Config, error.to_string());
            return structure::check_without_config(layout, report).map(|()| None);
        }
        Error::Index { .. } | Error::Corrupt { .. } => {}
        e => return Err(e),
    }
    Config::of(layout)?;
    match Store::open_without_index(root, &options) {
        Ok(store) => {
            report.add(FindingKind::Index, error.to_string());
            Ok(Some(store))
        }
        // The index cannot be made anew either, so that nothing is said of it.
        Err(e) => {
            report.add(FindingKind::Journal, e.to_string());
            structure::check_without_config(layout, report).map(|()| None)
        }
    }
}

/// Follows every checkpoint. Returns the damaged blocks that this came upon.
fn check_reach(
    store: &Store,
    packs: &structure::Packs,
    checkpoints: &[Checkpoint],
    report: &mut CheckReport,
    hurt: &mut dyn FnMut(&Hurt) -> Result<()>,
    progress: &dyn Progress,
) -> Result<Vec<Location>> {
    let mut reach = reach::Reach::new(store, reach::Trust::Packs(packs));
    for checkpoint in checkpoints {
        reach.checkpoint(checkpoint, progress)?;
    }
    report.checkpoints = checkpoints.len() as u64;
    report.trees = reach.trees();
    let damaged = reach.damaged_blocks();
    let named = reach.findings(checkpoints, hurt, progress)?;
    report.hurt = named.hurt;
    for finding in named.findings {
        report.push(finding);
    }
    Ok(damaged)
}
