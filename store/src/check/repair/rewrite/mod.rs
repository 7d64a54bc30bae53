//! Writing what is good into new packs, and condemning those that it was in.

mod on_bases;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use super::{RepairPlan, SourceObject};
use crate::{
    disk, errno,
    error::{Error, IoContext, Result},
    files,
    gc::{Copier, NewPacks, running_writers, sweep_condemned},
    id::{ObjectId, PackId},
    journal::Entry,
    pack::{Directory, Location, PackFile},
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
    let loose = copy(store, plan, &goes, &mut copier, progress)?;
    on_bases::write(store, &plan.survey, plan.survey.recovered.values().chain(&loose), &mut copier)?;
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
    if plan.survey.broken_recipes(store, dropped, &is_new)? != plan.broken_recipes {
        return Err(Error::Outdated("a checkpoint has meanwhile completed what was to be dropped"));
    }
    if crate::pack::lacks_any(store.layout(), &added.infos()) {
        return Err(Error::Outdated("somebody has removed the repair's pin and packs"));
    }
    // The plan's own pin only keeps gc away.
    let own = plan.pin.as_ref().map(|pin| pin.op);
    let waits_for = running_writers(store, Some(pin.op))?.into_iter().filter(|op| Some(*op) != own).collect();
    let entry = Entry::Condemn { op: pin.op, added: added.infos(), condemned: goes.into_iter().collect(), waits_for };
    added.keep();
    let kept = RetainedPacks::of(store, &plan.unread_packs)?;
    if let Err(e) = store.append(&lock, std::slice::from_ref(&entry)) {
        kept.put_back();
        return Err(e);
    }
    drop(lock);
    // All that is whole in them was copied, and what is not was read twice. gc would be kept from it by what stays lost.
    if let Err(e) = sweep_condemned(store, progress) {
        progress.notice(&format!("the damaged packs stay until gc removes them: {e}"));
    }
    Ok(())
}

/// Packs that the disk could not read in places, under names by which they stay when they are condemned.
struct RetainedPacks {
    /// Those that have no other name any more, as not every filesystem gives a file two: that name, and the pack's.
    moved: Vec<(PathBuf, PathBuf)>,
}

impl RetainedPacks {
    fn of(store: &Store, packs: &[PackId]) -> Result<Self> {
        let mut kept = RetainedPacks { moved: Vec::new() };
        for id in packs {
            let (path, aside) = (store.layout().pack(*id), store.layout().pack_aside(*id));
            let named = match files::link_aside(&path, &aside) {
                // Once it is condemned, anybody may remove it by its own name.
                Err(e) if errno::has_no_links(&e) => {
                    files::rename_aside(&path, &aside).map(|aside| kept.moved.push((aside, path.clone())))
                }
                linked => linked.map(drop),
            };
            if let Err(e) = named {
                kept.put_back();
                return Err(e).at("set aside", &path);
            }
        }
        disk::sync_folder(&store.layout().packs())?;
        Ok(kept)
    }

    /// Gives packs that are not condemned after all their own names.
    fn put_back(&self) {
        for (aside, path) in &self.moved {
            let _ = files::rename(aside, path);
        }
    }
}

/// Copies the good blocks of the packs that go, as they are stored where nothing in them is left out. Returns objects of the others.
fn copy(
    store: &Store,
    plan: &RepairPlan,
    goes: &BTreeSet<PackId>,
    copier: &mut Copier<'_, '_>,
    progress: &dyn Progress,
) -> Result<Vec<SourceObject>> {
    let (survey, mut loose) = (&plan.survey, Vec::new());
    let mut bases: BTreeMap<ObjectId, SourceObject> = BTreeMap::new();
    for (pack, blocks) in blocks(plan, goes) {
        let file = PackFile::open_unchecked(store.layout(), pack)?;
        for location in blocks {
            progress::check(progress)?;
            let directory = file.read_directory(location.offset)?;
            let waits = plan.kept_blocks.contains(&location);
            let is_kept = |id: ObjectId| survey.good.get(&id.key()) == Some(&location) && !plan.broken_recipes.contains(&id);
            let keep: Vec<bool> = directory.entries.iter().map(|entry| waits || is_kept(entry.id)).collect();
            if !waits {
                collect_bases(store, plan, &directory, &mut bases)?;
            }
            if waits || directory.bases.is_empty() || !keep.contains(&false) {
                let decode = || survey.block(store, location);
                copier.copy_block(&file, location, &directory, &keep, true, &decode)?;
                continue;
            }
            let block = survey.block(store, location)?;
            let kept = directory.entries.iter().zip(&keep).filter(|(_, keep)| **keep);
            loose.extend(kept.filter_map(|(entry, _)| SourceObject::in_block(entry.kind, entry.id, &block, (0, location))));
        }
    }
    loose.extend(bases.into_values());
    Ok(loose)
}

/// Bases that lie in packs that gc has condemned, and nowhere else.
fn collect_bases(
    store: &Store,
    plan: &RepairPlan,
    directory: &Directory,
    bases: &mut BTreeMap<ObjectId, SourceObject>,
) -> Result<()> {
    let survey = &plan.survey;
    for (kind, id) in directory.kinds_and_bases() {
        let stays = survey.good.contains_key(&id.key()) || survey.recovered.contains_key(&id.key());
        if !stays
            && !bases.contains_key(&id)
            && let Some(found) = survey.read_condemned(store, kind, id)?
        {
            // Whole: what it builds on itself may be going, too.
            bases.insert(id, SourceObject { lay: None, ..found });
        }
    }
    Ok(())
}

/// The blocks of the packs that go that hold something good, or are kept for the day on which their bases are found.
fn blocks(plan: &RepairPlan, goes: &BTreeSet<PackId>) -> BTreeMap<PackId, BTreeSet<Location>> {
    let mut blocks: BTreeMap<PackId, BTreeSet<Location>> = BTreeMap::new();
    for location in plan.survey.good.values().chain(&plan.kept_blocks).filter(|at| goes.contains(&at.pack)) {
        blocks.entry(location.pack).or_default().insert(*location);
    }
    blocks
}
