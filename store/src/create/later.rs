//! Objects that are later versions of what the store has: they are compressed with those as prefix, so that a version costs what was
//! edited.
//!
//! Of its earlier versions, the n-th one builds on that whose number is one less in the lowest of n's digits, in base 4, that is not 0: the
//! 21st (111 in base 4) on the 20th (110), that on the 16th (100), and that on the first, number 0, which is stored whole. So a chain is as
//! long as the sum of n's digits, and most steps of a chain go back by one version. (Subversion has such skip deltas in base 2.)
//!
//! Objects whose bases lie in one block go into one block. So whoever reads one of them decodes a chain of blocks, not a tree of them, and
//! at most [`DEPTH_MAX`] of them: what would come behind that builds on the first version in the chain.

use std::{collections::HashMap, sync::Arc};

use super::packs::PackSink;
use crate::{
    error::Result,
    format::{DATA_BLOCK_BYTES, DEPTH_MAX, PREFIX_BYTES_MAX},
    id::ObjectId,
    pack::{Block, BlockBuilder, Location, ObjectKind},
};

/// A block that takes at most one part in so many of its raw bytes is not compared with one without bases.
const CLEAR_WIN: usize = 8;
/// Room in memory that an object takes beside its bytes.
const OBJECT_BYTES: usize = 160;
/// Bases are held until they have so many bytes together.
const BASES_BYTES: usize = 16 << 20;
/// Cost of a base in the block's directory and in its copy, in bytes.
const BASE_BYTES: usize = 2 * crate::id::ID_BYTES;

/// Destination of an object that is no smaller on its base.
#[derive(Clone, Copy)]
pub(super) enum Instead {
    /// Among the small files, by its likeness.
    Small([u8; 24]),
    /// Among the chunks of large files.
    Large,
    /// Among trees and recipes; so many bytes at its end are ids.
    Meta(usize),
}

/// A later version of an object.
pub(super) struct Later {
    pub(super) kind: ObjectKind,
    pub(super) id: ObjectId,
    pub(super) bytes: Vec<u8>,
    pub(super) base: ObjectId,
    pub(super) instead: Instead,
}

/// Later versions, by the block in which their bases lie.
#[derive(Default)]
pub(super) struct LaterVersions {
    groups: HashMap<Location, Vec<Later>>,
    bytes: usize,
}

/// Objects of one block, with their bases, which lie in one block.
struct Group {
    objects: Vec<Later>,
    builder: BlockBuilder,
    prefix: Vec<u8>,
}

impl LaterVersions {
    pub(super) fn add(&mut self, base_at: Location, later: Later) {
        self.bytes += later.bytes.len() + OBJECT_BYTES;
        self.groups.entry(base_at).or_default().push(later);
    }

    pub(super) fn join(&mut self, other: LaterVersions) {
        self.bytes += other.bytes;
        for (at, objects) in other.groups {
            self.groups.entry(at).or_default().extend(objects);
        }
    }

    /// Raw bytes gathered so far.
    pub(super) fn raw_bytes(&self) -> usize {
        self.bytes
    }

    /// Writes all of them that are smaller on their bases, and returns the others.
    pub(super) fn write(self, packs: &PackSink<'_>, compressor: &mut zstd::bulk::Compressor<'_>) -> Result<Vec<Later>> {
        let mut others = Vec::new();
        let mut groups = Vec::new();
        let mut by_block: Vec<_> = self.groups.into_iter().collect();
        by_block.sort_unstable_by_key(|(at, _)| *at);
        for (at, objects) in by_block {
            gather(packs, at, objects, &mut groups, &mut others)?;
            if groups.iter().map(|group: &Group| group.prefix.len()).sum::<usize>() >= BASES_BYTES {
                others.extend(write_groups(std::mem::take(&mut groups), packs, compressor)?);
            }
        }
        others.extend(write_groups(groups, packs, compressor)?);
        Ok(others)
    }
}

/// Writes the groups that are smaller on their bases, and returns the objects of the others.
fn write_groups(groups: Vec<Group>, packs: &PackSink<'_>, compressor: &mut zstd::bulk::Compressor<'_>) -> Result<Vec<Later>> {
    let mut encoded = Vec::with_capacity(groups.len());
    {
        // Behind the prefixes, which it borrows.
        let mut context = packs.compression_context()?;
        for group in &groups {
            let coded = packs.compressed(group.builder.compress_on(&mut context, &group.prefix, packs.level()))?;
            let is_clear = coded.len() * CLEAR_WIN <= group.builder.raw_bytes();
            let bases_bytes = group.objects.len() * BASE_BYTES;
            let wins = is_clear || coded.len() + bases_bytes < packs.compressed(group.builder.compressed_bytes(compressor))?;
            encoded.push(wins.then_some(coded));
        }
    }
    let mut others = Vec::new();
    for (mut group, coded) in groups.into_iter().zip(encoded) {
        match coded {
            Some(coded) => packs.write_on_bases(&mut group.builder, &coded)?,
            None => others.extend(group.objects),
        }
    }
    Ok(others)
}

/// Makes groups of objects whose last versions lie in the block `at`. What has no base that can be read goes to `others`.
fn gather(
    packs: &PackSink<'_>,
    at: Location,
    objects: Vec<Later>,
    groups: &mut Vec<Group>,
    others: &mut Vec<Later>,
) -> Result<()> {
    let Some(block) = readable(packs.base_block(at))? else {
        others.extend(objects);
        return Ok(());
    };
    let mut found = Vec::with_capacity(objects.len());
    for object in objects {
        let on = readable(base_among(packs, at, &block, object.kind, object.base))?;
        match on.filter(|on| on.block.object(on.base).is_some_and(|bytes| !bytes.is_empty())) {
            Some(on) => found.push((on.at, on.block, on.version, Later { base: on.base, ..object })),
            None => others.push(object),
        }
    }
    // As the bases lie in their blocks, so that what is alike stays near.
    found.sort_by_cached_key(|(at, block, _, object)| (*at, block.place_of(object.base), object.id));
    let mut group = Group::empty();
    let mut group_at = at;
    for (at, block, version, object) in found {
        if at != group_at && !group.objects.is_empty() {
            groups.push(std::mem::replace(&mut group, Group::empty()));
        }
        group_at = at;
        let base = block.object(object.base).unwrap_or_default();
        let is_new_base = group.objects.last().is_none_or(|last| last.base != object.base);
        let is_full = group.builder.raw_bytes() + object.bytes.len() > DATA_BLOCK_BYTES
            || group.prefix.len() + base.len() > PREFIX_BYTES_MAX / 4;
        if is_full && !group.objects.is_empty() {
            groups.push(std::mem::replace(&mut group, Group::empty()));
        }
        if is_new_base || group.objects.is_empty() {
            group.prefix.extend_from_slice(base);
        }
        group.builder.push_on(object.kind, object.id, &object.bytes, object.base, version);
        group.objects.push(object);
    }
    if !group.objects.is_empty() {
        groups.push(group);
    }
    Ok(())
}

/// A version that a new one builds on.
struct On {
    base: ObjectId,
    at: Location,
    block: Arc<Block>,
    /// Number of versions before the new one.
    version: u32,
}

/// The version of an object that the next one builds on. The last version, `last`, lies in the block `at`.
fn base_among(packs: &PackSink<'_>, at: Location, block: &Arc<Block>, kind: ObjectKind, last: ObjectId) -> Result<On> {
    let number = |block: &Block, id| block.base_of(id).map_or(0, |(_, version)| version);
    let version = number(block, last).saturating_add(1);
    // Two bits a digit.
    let wanted = version - (1 << (version.trailing_zeros() & !1));
    let mut on = On { base: last, at, block: block.clone(), version };
    // Blocks are shared, so that one may be deeper than this object's own chain.
    let is_deep = block.depth >= DEPTH_MAX;
    while let Some((below, _)) = on.block.base_of(on.base).filter(|(_, version)| is_deep || *version > wanted) {
        let (at, block) = packs.base_object_block(kind, below)?;
        on = On { base: below, at, block, version };
    }
    Ok(on)
}

/// `None` where a base is damaged or gone: then it is not built upon.
fn readable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(e) if e.is_damage() => Ok(None),
        Err(e) => Err(e),
    }
}

impl Group {
    fn empty() -> Self {
        Group { objects: Vec::new(), builder: BlockBuilder::default(), prefix: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{OpId, PackId};

    #[test]
    fn what_waits_in_memory_is_counted() {
        let at = Location { pack: PackId::new(OpId::generate(), 0), offset: 0, block_bytes: 1 };
        let id = crate::testing::blob_id(b"object").object();
        let later = |bytes| Later { kind: ObjectKind::Chunk, id, bytes: vec![0; bytes], base: id, instead: Instead::Large };
        let (mut one, mut other) = (LaterVersions::default(), LaterVersions::default());
        assert_eq!(one.raw_bytes(), 0);
        one.add(at, later(1000));
        one.add(at, later(500));
        other.add(at, later(7));
        one.join(other);
        assert_eq!(one.raw_bytes(), 1507 + 3 * OBJECT_BYTES);
    }
}
