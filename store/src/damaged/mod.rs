//! What is known to be damaged: blocks that cannot be decoded, packs that are gone or torn, and every object that builds on either. A create
//! takes all of it for lost, and so stores it again where it comes upon the same content. gc leaves it where it is.
//!
//! Objects are kept by their ids as well as by their places, because blocks move: gc may copy one while somebody finds what it builds on
//! damaged. The list is derived data, in `cache/`: one that is lost, or does not decode, is made anew by the next check.

mod dependents;
mod missing;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fs, io::Write, path::PathBuf, time::SystemTime};

pub(crate) use self::missing::{ensure_packs_are_there, note_missing_packs};
use crate::{
    codec::{DecodeError, Decoder, put_uint},
    error::Result,
    files::{self, How},
    format::{DAMAGED_MAGIC, DAMAGED_MAGIC_1},
    id::{ObjectId, ObjectKey, OpId, PackId},
    layout::Layout,
    lock::IndexLock,
    pack::Location,
    statcache,
    store::Store,
};

/// Stands in the list for a pack as a whole: no block begins at 0.
pub(crate) fn whole(pack: PackId) -> Location {
    Location { pack, offset: 0, block_bytes: 0 }
}

/// Blocks and objects that are known to be damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DamageSet {
    blocks: BTreeSet<Location>,
    /// Objects that were found nowhere else than in such blocks.
    objects: BTreeSet<ObjectKey>,
}

fn path(layout: &Layout) -> PathBuf {
    layout.cache().join("damaged")
}

impl DamageSet {
    /// The list as it is now; empty where there is none.
    pub fn read(layout: &Layout) -> Self {
        let bytes = files::open(&path(layout), How::Read).and_then(|file| files::read_all(&file, file.metadata()?.len()));
        let bytes = bytes.unwrap_or_default();
        let Some((body, crc)) = bytes.split_last_chunk::<4>() else { return DamageSet::default() };
        match crc32c::crc32c(body) == u32::from_le_bytes(*crc) {
            true => Self::decode(body).unwrap_or_default(),
            false => DamageSet::default(),
        }
    }

    fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(body);
        let magic = d.array::<8>("magic")?;
        // The first form had blocks alone.
        if magic != DAMAGED_MAGIC && magic != DAMAGED_MAGIC_1 {
            return Err(DecodeError("magic"));
        }
        let block = |d: &mut Decoder<'_>| {
            Ok(Location { pack: PackId(d.array("pack")?), offset: d.uint("offset")?, block_bytes: d.uint32("length")? })
        };
        let blocks = (0..d.count(18, "blocks")?).map(|_| block(&mut d)).collect::<Result<_, DecodeError>>()?;
        let mut objects = BTreeSet::new();
        if magic == DAMAGED_MAGIC {
            objects = (0..d.count(size_of::<ObjectKey>(), "objects")?).map(|_| d.array("object")).collect::<Result<_, _>>()?;
        }
        d.finish("damaged")?;
        Ok(DamageSet { blocks, objects })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = DAMAGED_MAGIC.to_vec();
        put_uint(&mut out, self.blocks.len() as u64);
        for block in &self.blocks {
            out.extend_from_slice(&block.pack.0);
            put_uint(&mut out, block.offset);
            put_uint(&mut out, u64::from(block.block_bytes));
        }
        put_uint(&mut out, self.objects.len() as u64);
        self.objects.iter().for_each(|key| out.extend_from_slice(key));
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// The time at which the list was written; none where there is none.
    pub fn noted_at(layout: &Layout) -> Option<SystemTime> {
        fs::symlink_metadata(path(layout)).and_then(|meta| meta.modified()).ok()
    }

    /// True if none is known.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.objects.is_empty()
    }

    /// The packs that hold such blocks.
    pub fn packs(&self) -> impl Iterator<Item = PackId> + '_ {
        self.blocks.iter().map(|block| block.pack)
    }

    /// True if the block at a place is, or its pack as a whole.
    pub fn has_block(&self, at: Location) -> bool {
        self.blocks.contains(&at) || self.blocks.contains(&whole(at.pack))
    }

    /// True if an object is, which the index finds at a place.
    pub fn has(&self, id: ObjectId, at: Location) -> bool {
        self.has_key(&id.key(), at)
    }

    /// The same, by the index's key.
    pub fn has_key(&self, key: &ObjectKey, at: Location) -> bool {
        !self.is_empty() && (self.objects.contains(key) || self.has_block(at))
    }

    fn write(&self, layout: &Layout) -> std::io::Result<()> {
        let path = path(layout);
        if self.is_empty() {
            return files::remove(&path);
        }
        let temporary = layout.cache().join(format!("{}.damaged.tmp", OpId::generate()));
        let written = files::open(&temporary, How::New).and_then(|mut file| {
            file.write_all(&self.encode())?;
            files::rename(&temporary, &path)
        });
        if written.is_err() {
            let _ = files::remove(&temporary);
        }
        written
    }
}

/// Tells of a place whether what was damaged there is gone, or was read now and is whole.
type IsOver<'o> = &'o dyn Fn(Location) -> bool;

/// Takes note of blocks that were found damaged, with all that builds on them, and forgets what `is_over`. Who finds new ones has every file
/// read by the next create: a stat cache would vouch for what is in them. Where the store cannot be written to, nothing is noted. Says
/// whether anything is new.
pub(crate) fn note(store: &Store, found: impl IntoIterator<Item = Location>, is_over: Option<IsOver<'_>>) -> bool {
    let layout = store.layout();
    let found: BTreeSet<Location> = found.into_iter().collect();
    let known = DamageSet::read(layout);
    if found.is_subset(&known.blocks) && (known.is_empty() || is_over.is_none()) {
        return false;
    }
    let found = DamageSet { objects: dependents::objects_in(store, &still(store, known, is_over), &found), blocks: found };
    let Ok(_lock) = IndexLock::take(&layout.root) else { return false };
    let known = DamageSet::read(layout);
    let is_new = !found.blocks.is_subset(&known.blocks) || !found.objects.is_subset(&known.objects);
    let mut next = still(store, known.clone(), is_over);
    next.blocks.extend(found.blocks);
    next.objects.extend(found.objects);
    if next == known || next.write(layout).is_err() {
        return false;
    }
    if is_new {
        let _ = statcache::forget_all(layout);
    }
    is_new
}

/// What of it is not over.
fn still(store: &Store, mut known: DamageSet, is_over: Option<IsOver<'_>>) -> DamageSet {
    if let Some(is_over) = is_over {
        let view = store.view();
        known.blocks.retain(|block| !is_over(*block));
        // What the index finds nowhere is not reused, whatever it is.
        known.objects.retain(|key| view.locate_key(key).is_ok_and(|at| at.is_some_and(|at| !is_over(at))));
    }
    known
}

/// Replaces the list by objects that a repair, which has read everything, knows to be lost; `adds` to it before that repair is done.
pub(crate) fn set(layout: &Layout, objects: &BTreeSet<ObjectKey>, adds: bool) -> Result<()> {
    let _lock = IndexLock::take(&layout.root)?;
    let mut next = if adds { DamageSet::read(layout) } else { DamageSet::default() };
    next.objects.extend(objects);
    // Worth nothing where it cannot be written.
    let _ = next.write(layout);
    Ok(())
}

/// Forgets a pack in whose place there is a whole one by now.
pub(crate) fn forget_pack(layout: &Layout, pack: PackId) -> Result<()> {
    if DamageSet::read(layout).packs().all(|damaged| damaged != pack) {
        return Ok(());
    }
    let _lock = IndexLock::take(&layout.root)?;
    let mut next = DamageSet::read(layout);
    next.blocks.retain(|block| block.pack != pack);
    if next.blocks.is_empty() {
        // They were damaged because such blocks were.
        next.objects.clear();
    }
    let _ = next.write(layout);
    Ok(())
}

/// Forgets objects that were stored again just now.
pub(crate) fn heal(layout: &Layout, stored: impl Iterator<Item = ObjectKey>) {
    let known = DamageSet::read(layout);
    let healed: BTreeSet<ObjectKey> = match known.objects.is_empty() {
        true => BTreeSet::new(),
        false => stored.filter(|key| known.objects.contains(key)).collect(),
    };
    if healed.is_empty() {
        return;
    }
    let Ok(_lock) = IndexLock::take(&layout.root) else { return };
    let mut next = DamageSet::read(layout);
    next.objects.retain(|key| !healed.contains(key));
    let _ = next.write(layout);
}
