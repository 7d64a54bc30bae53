//! Blocks that build on others, and what the objects in them build on.

use std::collections::HashMap;

use super::Survey;
use crate::{
    error::Result,
    format::DEPTH_READ_MAX,
    id::{ObjectId, ObjectKey},
    pack::{Directory, Location},
};

/// A chain is followed for so many steps: more than a reader takes.
const STEPS_MAX: usize = 4 * DEPTH_READ_MAX as usize;

/// A block that builds on others.
pub(super) struct DependentBlock {
    pub(super) location: Location,
    pub(super) bases: Vec<ObjectId>,
    /// The objects that the index finds here.
    pub(super) versions: Vec<Version>,
    raw_bytes: u64,
}

/// An object in such a block.
#[derive(Clone, Copy)]
pub(super) struct Version {
    pub(super) key: ObjectKey,
    /// The number of its base among the block's.
    base: Option<u32>,
    /// The number of versions before it.
    pub(super) number: u32,
    pub(super) raw_bytes: u32,
}

/// All such blocks, and the places of their objects.
#[derive(Default)]
pub(super) struct BuiltBlocks {
    pub(super) blocks: Vec<DependentBlock>,
    places: HashMap<ObjectKey, (u32, u32)>,
    /// Bases of blocks in packs whose directories cannot be read to the end. All of them are needed.
    pub(super) of_damaged: Vec<Vec<ObjectId>>,
    /// Stored bytes of what lives by itself, in all packs; copies count.
    pub(super) live_bytes: u64,
}

impl BuiltBlocks {
    pub(super) fn add(&mut self, survey: &Survey<'_>, location: Location, directory: &Directory) -> Result<()> {
        let mut versions = Vec::new();
        for entry in &directory.entries {
            let key = entry.id.key();
            if survey.view.locate_key(&key)? == Some(location) {
                self.places.insert(key, (self.blocks.len() as u32, versions.len() as u32));
                let (base, number, raw_bytes) = (entry.base, entry.version, entry.head_bytes as u32);
                versions.push(Version { key, base, number, raw_bytes });
            }
        }
        if !versions.is_empty() {
            let (bases, raw_bytes) = (directory.bases.clone(), directory.raw_bytes() as u64);
            self.blocks.push(DependentBlock { location, bases, versions, raw_bytes });
        }
        Ok(())
    }

    /// The number of the block of an object that builds on another, and the object.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<(usize, &Version)> {
        let (block, version) = *self.places.get(key)?;
        Some((block as usize, self.blocks.get(block as usize)?.versions.get(version as usize)?))
    }

    /// The object that an object builds on.
    pub(super) fn base_of(&self, key: &ObjectKey) -> Option<ObjectId> {
        let (block, version) = self.get(key)?;
        self.blocks[block].bases.get(version.base? as usize).copied()
    }

    /// The share of an object in its block's stored bytes, if it builds on another.
    pub(super) fn stored_bytes(&self, key: &ObjectKey) -> u64 {
        let Some((block, version)) = self.get(key) else { return 0 };
        share(&self.blocks[block].location, u64::from(version.raw_bytes), self.blocks[block].raw_bytes)
    }

    /// The objects that an object builds on, at first hand and further, up to what builds on nothing.
    pub(super) fn chain(&self, key: &ObjectKey) -> impl Iterator<Item = ObjectId> {
        let first = self.base_of(key);
        std::iter::successors(first, |id| self.base_of(&id.key())).take(STEPS_MAX)
    }

    /// For each block, how many in a row have to be decoded for it.
    pub(super) fn depths(&self) -> Vec<u32> {
        let mut depths: Vec<Option<u32>> = vec![None; self.blocks.len()];
        for first in 0..self.blocks.len() {
            let mut stack = vec![(first, false)];
            while let Some((number, is_below_known)) = stack.pop() {
                let below = || self.blocks[number].bases.iter().filter_map(|base| self.places.get(&base.key()));
                if is_below_known {
                    let deepest = below().filter_map(|(block, _)| depths[*block as usize]).max();
                    depths[number] = Some(deepest.unwrap_or(0).saturating_add(1));
                } else if depths[number].is_none() {
                    // What builds on itself, in a forged store, counts as the end of a chain.
                    depths[number] = Some(0);
                    stack.push((number, true));
                    stack.extend(below().map(|(block, _)| (*block as usize, false)).filter(|(b, _)| depths[*b].is_none()));
                }
            }
        }
        depths.into_iter().map(Option::unwrap_or_default).collect()
    }
}

/// The share of so many raw bytes in a block's stored ones.
pub(super) fn share(location: &Location, raw_bytes: u64, raw_bytes_all: u64) -> u64 {
    (u128::from(location.block_bytes) * u128::from(raw_bytes) / u128::from(raw_bytes_all.max(1))) as u64
}
