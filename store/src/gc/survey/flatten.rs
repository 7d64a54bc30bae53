//! Chains of versions of which the first ones are dead: the oldest version that lives is stored whole in their place, and the others build
//! on what lives, so that nothing dead is kept for them. `docs/decisions/0010-flattening.md` has the reasons and the figures.
//!
//! The versions of one object are a tree: each builds on an earlier one, and the first is stored whole. Those that live, in order, get new
//! bases as creators choose them: the n-th one is built on that whose number is one less in the lowest of n's base-4 digits that is not 0.
//!
//! **No chain of blocks becomes longer.** A new base lies in a block that was less deep than the object's own, or is stored whole. So blocks
//! that are made of one old block's objects build on less deep ones, and those that are copied as they are, too.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    Survey,
    built::{BuiltBlocks, share},
};
use crate::{
    error::Result,
    id::{ObjectId, ObjectKey, PackId},
    pack::{Location, PackFile},
    store::Store,
};

/// Flattening has to save so much of what lives, in percent: packs are written anew for it.
const SAVES_PERCENT_MIN: u64 = 4;

/// So many versions are considered as bases, beside the nearest one that the object builds on already, and the oldest.
const CANDIDATES_MAX: usize = 8;

/// The new base of an object whose old one goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gc) struct NewBase {
    /// The base; `None` where the object is stored whole.
    pub(in crate::gc) on: Option<ObjectKey>,
    /// Place of the first version, and its offset in its block: what was side by side stays so.
    pub(in crate::gc) order: (Location, u64),
    /// An estimate of how much longer it is as stored, in bytes.
    pub(super) grows_bytes: i64,
}

/// The new bases of objects that live.
pub(in crate::gc) type NewBases = HashMap<ObjectKey, NewBase>;

/// New bases, and what they let go of.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) rebased: NewBases,
    /// Dead objects that nothing builds on any more: the packs that they are in, and their stored bytes.
    pub(super) let_go: Vec<(PackId, u64)>,
}

/// The first version of an object, which is stored whole.
#[derive(Clone, Copy)]
struct First {
    order: (Location, u64),
    stored_bytes: u64,
    raw_bytes: u64,
}

/// Chooses new bases. None where too little would be saved.
pub(super) fn plan(survey: &Survey<'_>, store: &Store, built: &BuiltBlocks) -> Result<Plan> {
    let mut families = families(survey, built);
    let firsts = read_firsts(survey, store, families.keys())?;
    let (depths, mut plan, mut saved) = (built.depths(), Plan::default(), 0);
    for (first, versions) in &mut families {
        let Some(at) = firsts.get(first) else { continue };
        versions.sort_unstable();
        let family = Family { survey, built, depths: &depths, first: *first, at: *at };
        let (rebased, gone, saves) = family.rebase(versions);
        if saves > 0 {
            saved += saves as u64;
            plan.rebased.extend(rebased);
            for (key, stored_bytes) in gone {
                plan.let_go.extend(survey.view.locate_key(&key)?.map(|at| (at.pack, stored_bytes)));
            }
        }
    }
    let is_worth = saved * 100 >= (built.live_bytes + saved) * SAVES_PERCENT_MIN;
    Ok(if is_worth { plan } else { Plan::default() })
}

/// The versions that live, with their numbers, of each first version from which something dead leads to one of them.
fn families(survey: &Survey<'_>, built: &BuiltBlocks) -> BTreeMap<ObjectKey, Vec<(u32, ObjectKey)>> {
    let first_of = |key: &ObjectKey| built.chain(key).last().map(|id| id.key());
    let live = || built.blocks.iter().flat_map(|block| &block.versions).filter(|version| survey.marker.lives(&version.key));
    let mut families = BTreeMap::new();
    for version in live() {
        if built.base_of(&version.key).is_some_and(|base| !survey.marker.lives(&base.key()))
            && let Some(first) = first_of(&version.key)
        {
            families.insert(first, Vec::new());
        }
    }
    for version in live() {
        if let Some(versions) = first_of(&version.key).and_then(|first| families.get_mut(&first)) {
            versions.push((version.number, version.key));
        }
    }
    families
}

/// Finds first versions. What cannot be read is left out, and what builds on it stays as it is.
fn read_firsts<'k>(
    survey: &Survey<'_>,
    store: &Store,
    keys: impl Iterator<Item = &'k ObjectKey>,
) -> Result<HashMap<ObjectKey, First>> {
    let mut places: BTreeMap<Location, HashSet<ObjectKey>> = BTreeMap::new();
    for key in keys {
        if let Some(at) = survey.view.locate_key(key)? {
            places.entry(at).or_default().insert(*key);
        }
    }
    let mut firsts = HashMap::new();
    let mut file: Option<PackFile> = None;
    for (location, keys) in places {
        if file.as_ref().is_none_or(|file| file.id != location.pack) {
            file = PackFile::open(store.layout(), location.pack).ok();
        }
        let directory = file.as_ref().and_then(|file| file.read_directory(location.offset).ok());
        let Some(directory) = directory.filter(|directory| directory.bases.is_empty()) else { continue };
        let mut offset = 0;
        for entry in &directory.entries {
            let raw_bytes = (entry.head_bytes + entry.tail_bytes) as u64;
            if keys.contains(&entry.id.key()) {
                let stored_bytes = share(&location, raw_bytes, directory.raw_bytes() as u64);
                firsts.insert(entry.id.key(), First { order: (location, offset), stored_bytes, raw_bytes });
            }
            offset += raw_bytes;
        }
    }
    Ok(firsts)
}

/// The versions of one object.
struct Family<'a> {
    survey: &'a Survey<'a>,
    built: &'a BuiltBlocks,
    depths: &'a [u32],
    first: ObjectKey,
    at: First,
}

impl Family<'_> {
    fn lives(&self, key: &ObjectKey) -> bool {
        self.survey.marker.lives(key)
    }

    /// New bases of those of these versions whose base is dead, the dead ones with their stored bytes, and how many bytes that saves.
    fn rebase(&self, versions: &[(u32, ObjectKey)]) -> (Vec<(ObjectKey, NewBase)>, HashMap<ObjectKey, u64>, i64) {
        let mut live: Vec<ObjectKey> = self.lives(&self.first).then_some(self.first).into_iter().collect();
        live.extend(versions.iter().map(|(_, key)| *key));
        let (mut rebased, mut whole, mut gone) = (Vec::new(), HashSet::new(), HashMap::new());
        let (mut before, mut after) = (0, 0);
        for (number, key) in live.iter().enumerate() {
            let mut dead = self.built.chain(key).map(ObjectId::key).take_while(|base| !self.lives(base)).peekable();
            if *key == self.first || dead.peek().is_none() {
                continue;
            }
            for base in dead {
                let stored = if base == self.first { self.at.stored_bytes } else { self.built.stored_bytes(&base) };
                before += if gone.insert(base, stored).is_none() { stored as i64 } else { 0 };
            }
            let stored = self.built.stored_bytes(key) as i64;
            let on = self.base_among(&live[..number], key, &whole);
            let bytes = on.map_or(i64::MAX, |on| self.distance(key, &on)).min(self.whole_bytes(key));
            if on.is_none() {
                whole.insert(*key);
            }
            (before, after) = (before + stored, after + bytes);
            rebased.push((*key, NewBase { on, order: self.at.order, grows_bytes: bytes - stored }));
        }
        (rebased, gone, before - after)
    }

    /// The base of an object behind `earlier` ones that live; none if it has to be stored whole.
    fn base_among(&self, earlier: &[ObjectKey], key: &ObjectKey, whole: &HashSet<ObjectKey>) -> Option<ObjectKey> {
        let oldest = *earlier.first()?;
        // Two bits a digit.
        let wanted = earlier.len() - (1 << (earlier.len().trailing_zeros() & !1));
        let depth = |key: &ObjectKey| match whole.contains(key) {
            true => 0,
            false => self.built.get(key).map_or(0, |(block, _)| self.depths[block]),
        };
        let own = depth(key);
        let nearest = self.built.chain(key).map(ObjectId::key).find(|base| self.lives(base));
        let candidates = earlier[wanted..=wanted].iter().chain(earlier.iter().rev()).copied();
        candidates.take(CANDIDATES_MAX).chain(nearest).chain([oldest]).find(|base| depth(base) < own)
    }

    /// An estimate of the bytes that an object takes on another version: all that was changed on the way from one to the other. It may be
    /// less, where the way leads back and forth.
    fn distance(&self, key: &ObjectKey, other: &ObjectKey) -> i64 {
        let up =
            |key: &ObjectKey| -> Vec<ObjectKey> { [*key].into_iter().chain(self.built.chain(key).map(ObjectId::key)).collect() };
        let (from, to) = (up(key), up(other));
        let shared: HashSet<&ObjectKey> = from.iter().filter(|key| to.contains(key)).collect();
        let on_the_way = from.iter().chain(&to).filter(|key| !shared.contains(key));
        let changed: i64 = on_the_way.map(|key| self.built.stored_bytes(key) as i64).sum();
        changed.max(self.built.stored_bytes(key) as i64)
    }

    /// An estimate of the bytes that an object takes by itself.
    fn whole_bytes(&self, key: &ObjectKey) -> i64 {
        let raw = self.built.get(key).map_or(0, |(_, version)| u64::from(version.raw_bytes));
        let like_first = u128::from(self.at.stored_bytes) * u128::from(raw) / u128::from(self.at.raw_bytes.max(1));
        (like_first as i64).max(self.built.stored_bytes(key) as i64)
    }
}
