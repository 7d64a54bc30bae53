//! Writing what is good into new packs, and condemning those that it was in.

use std::collections::{BTreeMap, BTreeSet};

use super::RepairPlan;
use crate::{
    error::{Error, Result},
    gc::{Copier, NewPacks, running_writers},
    id::{ObjectId, PackId},
    journal::Entry,
    pack::{Location, PackFile},
    pin::Pin,
    progress::{self, Phase, Progress},
    store::Store,
};

/// Writes new packs, and has the journal say that they take the place of the old ones.
pub(super) fn rewrite(store: &Store, plan: &RepairPlan, progress: &dyn Progress) -> Result<()> {
    store.check_writable()?;
    let pin = Pin::take(&store.layout().pins(), true, "repair")?;
    let goes: BTreeSet<PackId> = plan.damaged_packs.iter().chain(&plan.packs_with_broken_recipes).copied().collect();
    progress.phase(Phase::Repack, None, None);
    let mut numbers = 0;
    let mut added = NewPacks::new(store, pin.op, &mut numbers);
    let mut copier = Copier::new(&mut added)?;
    for (pack, blocks) in good_blocks(plan, &goes) {
        let file = PackFile::open_unchecked(store.layout(), pack)?;
        for location in blocks {
            progress::check(progress)?;
            let directory = file.read_directory(location.offset)?;
            let is_kept = |id: ObjectId| plan.survey.good.get(&id.key()) == Some(&location) && !plan.broken_recipes.contains(&id);
            let keep: Vec<bool> = directory.entries.iter().map(|entry| is_kept(entry.id)).collect();
            if keep.contains(&true) {
                // What blocks build on may be what goes, so that the copies build on nothing.
                let decode = || plan.survey.block(store, location);
                copier.copy_block(&file, location, &directory, &keep, false, &decode)?;
            }
        }
    }
    for found in &plan.recovered {
        copier.push(found.kind, found.id, &found.bytes, 0)?;
    }
    copier.finish()?;
    added.sync()?;
    let lock = store.lock(progress)?;
    let (view, _) = store.latest(&lock)?;
    let packs = view.packs()?;
    // What is good elsewhere was not copied, and must still be there; what was recovered took the place of what was lost.
    let needed = plan.survey.good.values().map(|at| &at.pack);
    if goes.iter().chain(needed).any(|pack| packs.get(pack).is_none_or(|state| state.condemned.is_some())) {
        return Err(Error::Outdated("garbage collection has moved what was to be repaired"));
    }
    // A checkpoint that was committed meanwhile may have completed such a recipe.
    let surveyed: BTreeSet<PackId> = plan.survey.packs.iter().copied().collect();
    let is_new = |id: ObjectId| Ok(view.locate(id)?.is_some_and(|at| !surveyed.contains(&at.pack)));
    let dropped = plan.broken_recipes.iter().copied();
    if plan.survey.broken_recipes(store, dropped, &plan.recovered, &is_new)? != plan.broken_recipes {
        return Err(Error::Outdated("a checkpoint has meanwhile completed what was to be dropped"));
    }
    if crate::pack::lacks_any(store.layout(), &added.infos()) {
        return Err(Error::Outdated("somebody has removed the repair's pin and packs"));
    }
    let waits_for = running_writers(store, Some(pin.op))?;
    let entry = Entry::Condemn { op: pin.op, added: added.infos(), condemned: goes.into_iter().collect(), waits_for };
    added.keep();
    store.append(&lock, std::slice::from_ref(&entry))?;
    Ok(())
}

fn good_blocks(plan: &RepairPlan, goes: &BTreeSet<PackId>) -> BTreeMap<PackId, BTreeSet<Location>> {
    let mut blocks: BTreeMap<PackId, BTreeSet<Location>> = BTreeMap::new();
    for location in plan.survey.good.values().filter(|at| goes.contains(&at.pack)) {
        blocks.entry(location.pack).or_default().insert(*location);
    }
    blocks
}
