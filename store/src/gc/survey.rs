//! The survey: what lives in which pack, and which packs should go.

mod bases;
mod built;
mod choice;
mod doubles;
mod flatten;
mod pinned;
mod recipes;

use parhelia_name::step::Step;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use self::{flatten::NewBases, pinned::pinned_deleted};
use super::mark::Marker;
use crate::{
    damaged::DamageSet,
    error::{Error, Result},
    id::{ObjectId, PackId, Ulid, hex},
    journal::Position,
    pack::{Entry, Location, ObjectKind, PackFile},
    progress::{self, Phase, Progress},
    record::Checkpoint,
    store::Store,
    view::View,
};

/// So many checkpoints that cannot be followed are named.
const HURT_NAMED: usize = 20;

/// Use of one pack.
#[derive(Debug)]
pub(super) struct PackUse {
    pub(super) id: PackId,
    /// Length of its file.
    pub(super) bytes: u64,
    /// Objects whose home it is and that live.
    pub(super) live_objects: u64,
    /// Their share of the pack's stored bytes.
    pub(super) live_bytes: u64,
    live_raw_bytes: u64,
    raw_bytes: u64,
    /// Stored bytes of its blocks.
    blocks_bytes: u64,
    /// Its directories cannot be read to the end, or it has known damage.
    is_damaged: bool,
    /// Something that lives in it is known to be damaged, or to build on what is.
    has_known_damage: bool,
    /// It holds a recipe that nothing needs and of which a part is missing, or a block that nothing needs and of which a base is.
    has_broken_objects: bool,
    /// Packs that may only go together with this one: those that hold dead parts of dead recipes that are here, or dead bases of dead blocks
    /// that are here, and those in which the index finds dead objects of which a second copy is here.
    leans_on: BTreeSet<PackId>,
    /// The homes of live objects of which a second copy is here.
    doubled: BTreeSet<Location>,
    /// One of those homes cannot be read, so that this pack may have the only whole copy.
    has_only_copies: bool,
}

/// Locations of everything that lives.
pub(super) struct Survey<'a> {
    /// The state of the store that was surveyed.
    pub(super) view: Arc<View>,
    /// Up to where the journal was taken in.
    pub(super) end: Position,
    /// Number of checkpoints whose objects stay.
    pub(super) checkpoints: u64,
    pub(super) marker: Marker<'a>,
    /// The packs that are not condemned; a mark's home is a number in this list.
    pub(super) packs: Vec<PackUse>,
    /// Objects that build on something else from now on, because what they build on goes; nothing where that would save too little.
    pub(super) rebased: NewBases,
    /// Objects that this lets go of: the packs that they are in, and their stored bytes.
    let_go: Vec<(PackId, u64)>,
    /// There are blocks of which it cannot be told what they build on.
    pub(super) has_unreadable_blocks: bool,
    /// Homes of objects with a second copy, and whether they could be read.
    homes: BTreeMap<Location, bool>,
}

impl<'a> Survey<'a> {
    /// Looks at the whole store, all of it.
    #[cfg(test)]
    pub(super) fn take(store: &'a Store, progress: &dyn Progress) -> Result<Self> {
        Self::of(store, &HashSet::new(), true, progress)
    }

    /// Looks at the whole store. Live are the checkpoints that exist, but for those `without`, and deleted ones that are pinned. With
    /// `flatten`, objects may get other bases.
    pub(super) fn of(store: &'a Store, without: &HashSet<Ulid>, flatten: bool, progress: &dyn Progress) -> Result<Self> {
        let view = store.refresh()?;
        let all = view.checkpoints()?;
        let pinned = pinned_deleted(store, &view, all)?;
        let roots: Vec<&Checkpoint> = all.iter().filter(|checkpoint| !without.contains(&checkpoint.record.id)).collect();
        progress.phase(Phase::Mark, Some(roots.iter().map(|c| c.record.workspace.entries).sum()), None);
        let mut marker = Marker::new(store, view.clone());
        let mut hurt: Vec<(String, Error)> = Vec::new();
        for checkpoint in &roots {
            match marker.checkpoint(checkpoint, progress) {
                Err(e) if e.is_damage() => hurt.push((checkpoint.id(), e)),
                other => other?,
            }
        }
        if let Some((_, error)) = hurt.first() {
            let named: Vec<&str> = hurt.iter().take(HURT_NAMED).map(|(id, _)| id.as_str()).collect();
            let more = match hurt.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named = named.join(", ");
            progress.warning(&format!(
                "gc removes nothing, because nobody knows what these checkpoints need: {named}{more} ({error}); {} may bring \
                 back what they lack; without a copy, gc works again once they are deleted",
                Step::RepairFrom(None)
            ));
            return Err(hurt.swap_remove(0).1);
        }
        let mut checkpoints = roots.len() as u64;
        for checkpoint in &pinned {
            checkpoints += u64::from(marker.deleted_checkpoint(checkpoint, progress)?);
        }
        let known = view.packs()?.into_iter().filter(|(_, state)| state.condemned.is_none());
        let packs = known.map(|(id, state)| PackUse::new(id, state.bytes)).collect();
        let end = view.end().clone();
        let (rebased, let_go, homes) = Default::default();
        let mut survey = Survey { view, end, checkpoints, marker, packs, rebased, let_go, has_unreadable_blocks: false, homes };
        survey.mark_bases(store, flatten, progress)?;
        survey.find_homes(store)?;
        let dead_recipes = survey.read_directories(store, progress)?;
        for (pack, location, id) in dead_recipes {
            progress::check(progress)?;
            survey.judge_recipe(store, pack, location, id)?;
        }
        survey.weigh();
        Ok(survey)
    }

    /// Completes the sums: what lives has its share of its pack's other bytes, and what gets another base takes more.
    fn weigh(&mut self) {
        for pack in &mut self.packs {
            let (other, live) = (pack.bytes.saturating_sub(pack.blocks_bytes), pack.live_bytes);
            pack.live_bytes += (u128::from(other) * u128::from(live) / u128::from(pack.blocks_bytes.max(1))) as u64;
        }
        for (key, new) in &self.rebased {
            if let Some(pack) = self.marker.live.get(key).and_then(|mark| self.packs.get_mut(mark.home()?)) {
                pack.live_bytes = pack.live_bytes.saturating_add_signed(new.grows_bytes);
            }
        }
    }

    fn find_homes(&mut self, store: &Store) -> Result<()> {
        let numbers: HashMap<PackId, usize> = self.packs.iter().enumerate().map(|(i, pack)| (pack.id, i)).collect();
        let (live, packs) = (&mut self.marker.live, &mut self.packs);
        self.view.each_object(|key, location| {
            let Some(mark) = live.get_mut(&key).filter(|mark| mark.home().is_none()) else { return Ok(()) };
            let reason = || format!("it places {} in the pack {}, which the journal does not know", hex(&key), location.pack);
            let Some(&pack) = numbers.get(&location.pack) else {
                return Err(Error::Index { path: store.layout().view(), reason: reason() });
            };
            mark.set_home(pack);
            packs[pack].live_objects += 1;
            Ok(())
        })?;
        self.marker.pass_over_lost_records();
        match self.marker.live.iter().find(|(_, mark)| mark.home().is_none()) {
            Some((key, _)) => Err(Error::Missing { kind: "object", id: hex(key) }),
            None => Ok(()),
        }
    }

    /// Sums up what lives in each pack. Returns the recipes that nothing reads.
    fn read_directories(&mut self, store: &Store, progress: &dyn Progress) -> Result<Vec<(usize, Location, ObjectId)>> {
        let mut dead_recipes = Vec::new();
        let known = DamageSet::read(store.layout());
        let live = &mut self.marker.live;
        for (number, pack) in self.packs.iter_mut().enumerate() {
            progress::check(progress)?;
            let view = &self.view;
            let file = PackFile::open(store.layout(), pack.id);
            let scanned = file.and_then(|file| {
                file.scan(|location, directory| {
                    for base in directory.bases.iter().filter(|base| !live.contains_key(&base.key())) {
                        match view.locate(*base)? {
                            Some(home) if home.pack == pack.id => {}
                            Some(home) => _ = pack.leans_on.insert(home.pack),
                            None => pack.has_broken_objects = true,
                        }
                    }
                    let (mut raw, mut alive) = (0, 0);
                    for entry in &directory.entries {
                        let bytes = (entry.head_bytes + entry.tail_bytes) as u64;
                        raw += bytes;
                        match live.get_mut(&entry.id.key()) {
                            Some(mark) => {
                                if mark.home() == Some(number) && mark.see() {
                                    alive += bytes;
                                    continue;
                                }
                                let home = view.locate(entry.id)?.filter(|home| home.pack != pack.id);
                                pack.doubled.extend(home);
                            }
                            None => {
                                let home = view.locate(entry.id)?.map(|home| home.pack).filter(|home| *home != pack.id);
                                pack.leans_on.extend(home);
                            }
                        }
                        if entry.kind == ObjectKind::RecipeRoot {
                            dead_recipes.push((number, location, entry.id));
                        }
                    }
                    // Moved, it would pass for whole with whoever knows it by its place, and its pack's bytes may still be of use.
                    let is_known = |entry: &Entry| live.contains_key(&entry.id.key()) && known.has(entry.id, location);
                    pack.has_known_damage |= alive > 0 && !known.is_empty() && directory.entries.iter().any(is_known);
                    pack.raw_bytes += raw;
                    pack.blocks_bytes += u64::from(location.block_bytes);
                    pack.live_raw_bytes += alive;
                    pack.live_bytes += (u128::from(location.block_bytes) * u128::from(alive) / u128::from(raw.max(1))) as u64;
                    Ok(())
                })
            });
            match scanned {
                Ok(_) if pack.has_known_damage => {
                    progress.notice(&format!("pack {} holds known damage, or builds on it, and is left as it is", pack.id));
                    pack.is_damaged = true;
                }
                Ok(_) => {}
                Err(Error::Corrupt { what, reason, .. }) => {
                    progress.notice(&format!("pack {} is damaged ({what}: {reason}) and is left as it is", pack.id));
                    pack.is_damaged = true;
                }
                Err(e) if e.is_not_found() && !self.view.is_stale()? => {
                    progress.notice(&format!("pack {} is missing", pack.id));
                    pack.is_damaged = true;
                }
                Err(e) => return Err(e),
            }
        }
        self.check_all_seen(store)?;
        Ok(dead_recipes)
    }

    /// Fails where the index places a live object in a pack that does not hold it.
    fn check_all_seen(&self, store: &Store) -> Result<()> {
        let unseen = |mark: &super::mark::Mark| !mark.is_seen() && mark.home().is_some_and(|home| !self.packs[home].is_damaged);
        if let Some((key, mark)) = self.marker.live.iter().find(|(_, mark)| unseen(mark)) {
            let pack = mark.home().map(|home| self.packs[home].id.to_string()).unwrap_or_default();
            let reason = format!("it places {} in the pack {pack}, which does not hold it", hex(key));
            return Err(Error::Index { path: store.layout().view(), reason });
        }
        Ok(())
    }
}

impl PackUse {
    fn new(id: PackId, bytes: u64) -> Self {
        PackUse {
            id,
            bytes,
            live_objects: 0,
            live_bytes: 0,
            live_raw_bytes: 0,
            raw_bytes: 0,
            blocks_bytes: 0,
            is_damaged: false,
            has_known_damage: false,
            has_broken_objects: false,
            leans_on: BTreeSet::new(),
            doubled: BTreeSet::new(),
            has_only_copies: false,
        }
    }
}
