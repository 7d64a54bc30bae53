//! Objects that cannot be decoded because they lie in damaged blocks, or build on what does.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::DamageSet;
use crate::{
    error::Result,
    id::ObjectKey,
    pack::{Location, PackFile},
    store::Store,
    view::View,
};

/// Blocks of the store, as far as their directories can be read.
#[derive(Default)]
struct Blocks {
    /// The objects of each block that the index finds there.
    objects: HashMap<Location, Vec<ObjectKey>>,
    /// The blocks that build on an object.
    on: HashMap<ObjectKey, Vec<Location>>,
}

/// Every object that lies in `found` or in what is `known` already as far as the index finds it there, and everything that builds on those, at first or second
/// hand. Reads the directories of all packs: this is done only where something new was found.
pub(super) fn objects_in(store: &Store, known: &DamageSet, found: &BTreeSet<Location>) -> BTreeSet<ObjectKey> {
    let seeds = DamageSet { blocks: known.blocks.union(found).copied().collect(), objects: known.objects.clone() };
    let view = store.view();
    let blocks = read(store, &view);
    let mut pending: Vec<ObjectKey> = seeds.objects.iter().copied().collect();
    // A pack that is gone has no directories, and a damaged one has not all of them: the index tells what lay there.
    let _ = view.each_object(|key, at| {
        let is_home = seeds.has_block(at) && view.locate_key(&key)? == Some(at);
        pending.extend(is_home.then_some(key));
        Ok(())
    });
    let mut objects = BTreeSet::new();
    let mut followed: HashSet<Location> = HashSet::new();
    while let Some(key) = pending.pop() {
        if !objects.insert(key) {
            continue;
        }
        for at in blocks.on.get(&key).into_iter().flatten().filter(|at| followed.insert(**at)) {
            pending.extend(blocks.objects.get(at).into_iter().flatten());
        }
    }
    objects
}

fn read(store: &Store, view: &View) -> Blocks {
    let mut blocks = Blocks::default();
    for (pack, _) in view.packs().unwrap_or_default().into_iter().filter(|(_, state)| state.condemned.is_none()) {
        let _ = PackFile::open(store.layout(), pack).and_then(|file| {
            file.scan(|at, directory| {
                if directory.bases.is_empty() {
                    return Ok(());
                }
                let keys = directory.entries.iter().map(|entry| entry.id.key());
                let at_home = keys.map(|key| -> Result<_> { Ok((view.locate_key(&key)? == Some(at)).then_some(key)) });
                let objects = at_home.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
                blocks.objects.insert(at, objects);
                directory.bases.iter().for_each(|base| blocks.on.entry(base.key()).or_default().push(at));
                Ok(())
            })
        });
    }
    blocks
}
