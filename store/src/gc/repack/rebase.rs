//! Copying objects that build on others without the rest of their block, or onto other bases.

use std::{collections::BTreeMap, sync::Arc};

use zstd::zstd_safe::CCtx;

use super::Copier;
use crate::{
    error::{IoContext, Result},
    format::{DATA_BLOCK_BYTES, PREFIX_BYTES_MAX},
    gc::survey::Survey,
    id::{ID_BYTES, ObjectId, ObjectKey},
    pack::{Block, BlockBuilder, Directory, Location, ObjectKind},
    store::Store,
};

/// A block that takes at most one part in so many of its raw bytes is not compared with one without bases.
const CLEAR_WIN: usize = 8;
/// Cost of a base in the block's directory and in its copy, in bytes.
const BASE_BYTES: usize = 2 * ID_BYTES;

/// An object that builds on another.
struct Later<'b> {
    kind: ObjectKind,
    id: ObjectId,
    bytes: &'b [u8],
    version: u32,
    base: ObjectKey,
    /// Its place among others if it is stored whole.
    order: (Location, u64),
}

/// Copies those objects of a block that are to be kept: onto the base that they have, if that lives, else onto the one that was chosen.
pub(super) fn copy(
    store: &Store,
    survey: &Survey<'_>,
    location: Location,
    directory: &Directory,
    keep: &[bool],
    copier: &mut Copier<'_, '_>,
) -> Result<()> {
    let block = store.block(location)?;
    let mut by_base: BTreeMap<Location, Vec<Later<'_>>> = BTreeMap::new();
    let kept = directory.entries.iter().zip(&block.objects).zip(keep).filter(|(_, keep)| **keep);
    for (entry, (kind, id, range)) in kept.map(|(object, _)| object) {
        let (bytes, new) = (block.bytes.get(range.clone()).unwrap_or_default(), survey.rebased.get(&id.key()));
        let own = entry.base.and_then(|base| directory.bases.get(base as usize)).map(|base| base.key());
        let lives = |base: &ObjectKey| survey.marker.live.contains_key(base);
        let base = own.filter(lives).or_else(|| new.and_then(|new| new.on).filter(lives));
        let order = new.map_or((location, range.start as u64), |new| new.order);
        match base.map(|base| Ok((base, survey.view.locate_key(&base)?))).transpose()? {
            Some((base, Some(at))) => {
                let later = Later { kind: *kind, id: *id, bytes, version: entry.version.max(1), base, order };
                by_base.entry(at).or_default().push(later);
            }
            _ => copier.push_in_order(order, *kind, *id, bytes, 0)?,
        }
    }
    for (at, objects) in by_base {
        copy_on(&store.block(at)?, objects, copier)?;
    }
    Ok(())
}

/// Objects of one new block.
#[derive(Default)]
struct Group<'b> {
    objects: Vec<Later<'b>>,
    builder: BlockBuilder,
    prefix: Vec<u8>,
    last_base: Option<ObjectId>,
}

impl<'b> Group<'b> {
    fn has_room_for(&self, object: &Later<'_>, base: &[u8]) -> bool {
        self.objects.is_empty()
            || self.builder.raw_bytes() + object.bytes.len() <= DATA_BLOCK_BYTES
                && self.prefix.len() + base.len() <= PREFIX_BYTES_MAX / 4
    }

    fn push(&mut self, object: Later<'b>, base: ObjectId, base_bytes: &[u8]) {
        if self.last_base.replace(base) != Some(base) {
            self.prefix.extend_from_slice(base_bytes);
        }
        self.builder.push_on(object.kind, object.id, object.bytes, base, object.version);
        self.objects.push(object);
    }
}

/// Writes objects whose bases lie in one block.
fn copy_on(bases: &Arc<Block>, objects: Vec<Later<'_>>, copier: &mut Copier<'_, '_>) -> Result<()> {
    let places: BTreeMap<ObjectKey, usize> =
        bases.objects.iter().enumerate().map(|(number, (_, id, _))| (id.key(), number)).collect();
    let mut found = Vec::with_capacity(objects.len());
    for object in objects {
        let base = places.get(&object.base).map(|number| (*number, &bases.objects[*number]));
        match base.filter(|(_, (kind, _, range))| *kind == object.kind && !range.is_empty()) {
            Some((number, (_, id, range))) => found.push((number, *id, range.clone(), object)),
            None => copier.push_in_order(object.order, object.kind, object.id, object.bytes, 0)?,
        }
    }
    // As the bases lie in their block, so that those of one base stand in a row.
    found.sort_by_key(|(number, .., object)| (*number, object.id));
    let mut group = Group::default();
    for (_, base, range, object) in found {
        let base_bytes = bases.bytes.get(range).unwrap_or_default();
        if !group.has_room_for(&object, base_bytes) {
            write(std::mem::take(&mut group), copier)?;
        }
        group.push(object, base, base_bytes);
    }
    if group.objects.is_empty() { Ok(()) } else { write(group, copier) }
}

/// Writes a block of later versions, or its objects whole where that is shorter.
fn write(mut group: Group<'_>, copier: &mut Copier<'_, '_>) -> Result<()> {
    let folder = copier.added.layout.packs();
    let coded = {
        let context = CCtx::try_create().ok_or_else(|| std::io::ErrorKind::OutOfMemory.into());
        let coded = context.and_then(|mut context| group.builder.compress_on(&mut context, &group.prefix, copier.added.level));
        coded.at("compress for", &folder)?
    };
    let is_clear = coded.len() * CLEAR_WIN <= group.builder.raw_bytes();
    let bases_bytes = group.objects.len() * BASE_BYTES;
    if is_clear
        || coded.len() + bases_bytes < group.builder.compressed_bytes(&mut copier.compressor).at("compress for", &folder)?
    {
        let (entries, bytes) = group.builder.encode_on(&coded, &copier.added.layout.keys.seal);
        return copier.write(&bytes, &entries);
    }
    group.objects.iter().try_for_each(|object| copier.push_in_order(object.order, object.kind, object.id, object.bytes, 0))
}
