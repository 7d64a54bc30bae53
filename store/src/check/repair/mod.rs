//! Repair: what is damaged is taken from wherever it is still whole, and what is whole is moved away from what is damaged.
//!
//! - *Heal*: a pack whose parity gives back all of its damage is written anew, as it was.
//! - *Survey*: every block of every pack is read. What hashes to its id is good, wherever it lies, also behind a damaged place.
//! - *Need*: follow the checkpoints. What they need and no pack has is looked for in packs that gc has condemned and not yet
//!   removed, and in the sources: other stores, and live folders.
//! - *Rewrite*: a pack with damage is condemned, as gc condemns packs, after all that is good in it was copied. So are packs with
//!   recipes that cannot be unfolded any more, which a later create would keep in the place of its own, or that have lost chunks and
//!   are not needed, which would keep gc from running. The index is derived anew.
//!
//! A recipe of which only chunks are lost stays: all the rest of its file can be read by it, and whoever stores that file again stores
//! what it lacks. What stays lost is named. It is stored again by the first create that comes upon the same content, and the checkpoints that need
//! it are whole again then; therefore the stat caches go, so that such a create reads everything. Of files that grow, it looks itself
//! whether all that it does not read is there.

mod heal;
mod need;
mod rewrite;
mod sources;
mod survey;

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;

use self::{need::Need, sources::Sources, survey::Survey};
use super::AffectedPath;
use crate::{
    damaged,
    error::{Error, Result},
    files,
    id::{ObjectId, ObjectKey, PackId},
    layout::Layout,
    pack::{Block, Location, ObjectKind},
    pin::Pin,
    progress::Progress,
    record::Checkpoint,
    store::{OpenOptions, Store},
};

/// An object that was taken from a source.
#[derive(Debug)]
struct SourceObject {
    kind: ObjectKind,
    id: ObjectId,
    bytes: Vec<u8>,
    /// The block in which it lay there.
    lay: Option<Lay>,
}

/// A place among an object's fellows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lay {
    /// The number of its store, and the block there.
    block: (usize, Location),
    /// Its offset in the block.
    at: usize,
    /// What it built on, and how many versions came before it.
    base: Option<(ObjectId, u32)>,
}

impl SourceObject {
    fn whole(kind: ObjectKind, id: ObjectId, bytes: Vec<u8>) -> Self {
        SourceObject { kind, id, bytes, lay: None }
    }

    fn in_block(kind: ObjectKind, id: ObjectId, block: &Block, place: (usize, Location)) -> Option<Self> {
        let lay = Lay { block: place, at: block.place_of(id)?, base: block.base_of(id) };
        Some(SourceObject { kind, id, bytes: block.object(id)?.to_vec(), lay: Some(lay) })
    }
}

/// An object that checkpoints need and that is nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LostObject {
    /// Id of the object: 64 hex digits.
    pub object: ObjectId,
    /// chunk, recipe, tree, table, record.
    pub kind: &'static str,
    /// Places that need it: the first of them.
    pub touches: Vec<AffectedPath>,
    /// Number of the others.
    pub touches_more: u64,
}

/// A source that is no store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchedFolder {
    /// The folder.
    pub path: PathBuf,
    /// Stores right below it, as on a disk of which the mount point was named.
    pub stores: Vec<PathBuf>,
}

/// Steps of a repair.
#[derive(Debug, Default)]
pub struct RepairPlan {
    /// Sources that are no stores, and are searched as folders of files.
    pub folders: Vec<SearchedFolder>,
    /// Packs with damage, or gone.
    pub damaged_packs: Vec<PackId>,
    /// Those of them that the disk could not read in places. Their files are kept, under a name by which they are no packs.
    pub unread_packs: Vec<PackId>,
    /// Packs with damage of which their parity gives back everything. They are written anew, as they were.
    pub healed_packs: Vec<PackId>,
    /// Whole packs that hold recipes which cannot be unfolded any more, or lack chunks and are not needed.
    pub packs_with_broken_recipes: Vec<PackId>,
    /// Objects in all of these that are whole, and are copied.
    pub kept_objects: u64,
    /// Objects that are taken from the sources.
    pub recovered_objects: u64,
    /// Objects that stay lost.
    pub lost: Vec<LostObject>,
    broken_recipes: BTreeSet<ObjectId>,
    /// Blocks that wait for a lost base.
    kept_blocks: BTreeSet<Location>,
    survey: Survey,
    pin: Option<Pin>,
}

impl RepairPlan {
    /// What is lost, and what waits for it.
    fn unreadable(&self) -> BTreeSet<ObjectKey> {
        let lost = self.lost.iter().map(|lost| lost.object);
        let waiting = self.survey.waiting_for(lost.clone()).into_iter().flat_map(|block| block.objects);
        lost.chain(waiting).map(|id| id.key()).filter(|key| !self.survey.good.contains_key(key)).collect()
    }

    /// True if packs have to be written or to go.
    pub fn changes_packs(&self) -> bool {
        !self.damaged_packs.is_empty() || !self.packs_with_broken_recipes.is_empty() || self.recovered_objects > 0
    }

    /// True if anything is to be done beside making the index anew.
    pub fn is_needed(&self) -> bool {
        self.changes_packs() || !self.healed_packs.is_empty() || !self.lost.is_empty()
    }
}

/// Finds out what can be repaired, and changes nothing. `from` are stores, and folders that hold what was captured once.
pub fn plan_repair(layout: &Layout, from: &[PathBuf], progress: &dyn Progress) -> Result<RepairPlan> {
    super::index::note_lost_records(layout);
    let store = Store::open_without_index(&layout.root, &OpenOptions::with(layout))?;
    let mut pin = Pin::take(&store.layout().pins(), true, "repair").ok();
    if from.is_empty() {
        damaged::ensure_packs_are_there(&store)?;
    }
    let view = store.refresh()?;
    let checkpoints = view.checkpoints()?;
    if let Some(pin) = &mut pin {
        pin.add(checkpoints.iter().map(|c| c.record.id))?;
    }
    let mut healed_packs = heal::find(&store, progress)?;
    let mut survey = Survey::take(&store, progress)?;
    let mut sources = Sources::open(from, layout)?;
    let folders = sources.searched_folders();
    let lost = recover(&store, &mut survey, &mut sources, checkpoints, progress)?;
    let recovered_objects = survey.recovered.len() as u64;
    // Blocks that wait hold what is lost for as long as nobody has their bases; where nothing of it is needed, they go.
    let kept_blocks = survey.waiting_for(lost.iter().map(|lost| lost.object));
    let keeps = |pack: &PackId| kept_blocks.iter().any(|block| block.at.pack == *pack);
    survey.damaged = std::mem::take(&mut survey.damaged).into_iter().filter(|id| !survey.intact(*id) || !keeps(id)).collect();
    healed_packs.retain(|pack| !survey.damaged.contains(pack));
    let broken_recipes = survey.broken_recipes(&store, survey.recipes.iter().copied(), &|_| Ok(false))?;
    let mut packs_with_broken_recipes: BTreeSet<PackId> = BTreeSet::new();
    packs_with_broken_recipes.extend(broken_recipes.iter().filter_map(|id| survey.good.get(&id.key())).map(|at| at.pack));
    packs_with_broken_recipes.retain(|pack| !survey.damaged.contains(pack));
    let goes = |pack: &PackId| survey.damaged.contains(pack) || packs_with_broken_recipes.contains(pack);
    let moved = survey.good.values().filter(|at| goes(&at.pack)).count();
    Ok(RepairPlan {
        folders,
        damaged_packs: survey.damaged.iter().copied().collect(),
        unread_packs: survey.unread.intersection(&survey.damaged).copied().collect(),
        healed_packs,
        packs_with_broken_recipes: packs_with_broken_recipes.into_iter().collect(),
        kept_objects: (moved - broken_recipes.len().min(moved)) as u64,
        recovered_objects,
        lost,
        kept_blocks: kept_blocks.into_iter().map(|block| block.at).collect(),
        broken_recipes,
        survey,
        pin,
    })
}

/// Takes whatever checkpoints need, and no pack has, from the sources. What was found may be what intact blocks waited for, and what is decoded then
/// what others wait for: until nothing new comes of it. Returns what stays lost.
fn recover(
    store: &Store,
    survey: &mut Survey,
    sources: &mut Sources,
    checkpoints: &[Checkpoint],
    progress: &dyn Progress,
) -> Result<Vec<LostObject>> {
    loop {
        let mut need = Need::new(store, survey, sources);
        for checkpoint in checkpoints {
            need.follow(checkpoint, progress)?;
        }
        let lost = need.finish();
        if lost.is_empty() {
            return Ok(lost);
        }
        let waiting = survey.waiting_for(lost.iter().map(|lost| lost.object));
        for (id, kind) in survey.missing_bases(&waiting) {
            if let Some(found) = sources.find_base(store, kind, id) {
                survey.recovered.insert(id.key(), found);
            }
        }
        if !survey.decode_all_waiting(store, progress)? {
            return Ok(lost);
        }
    }
}

/// Does what a plan says, and derives the index anew. Waits for the writer lock up to `lock_timeout`, each of the two times that it is
/// needed.
pub fn repair(layout: &Layout, plan: &RepairPlan, lock_timeout: Duration, progress: &dyn Progress) -> Result<()> {
    if let Some(uid) = files::host(&layout.root) {
        return Err(Error::NotOwner { path: layout.root.clone(), uid });
    }
    let unreadable: BTreeSet<ObjectKey> = plan.unreadable();
    damaged::set(layout, &unreadable, true)?;
    if plan.changes_packs() || !plan.healed_packs.is_empty() {
        let store = Store::open_without_index(&layout.root, &OpenOptions { lock_timeout, ..OpenOptions::with(layout) })?;
        heal::rewrite(&store, &plan.healed_packs, progress)?;
        if plan.changes_packs() {
            rewrite::rewrite(&store, plan, progress)?;
        }
    }
    // Also where an earlier repair has done all but this.
    if plan.changes_packs() || !plan.lost.is_empty() {
        crate::statcache::forget_all(layout)?;
    }
    super::rebuild_index(layout, lock_timeout, progress)?;
    damaged::set(layout, &unreadable, false)
}
