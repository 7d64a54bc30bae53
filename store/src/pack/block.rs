//! A decoded block: objects that are stored together.

use std::{
    ops::{Range, RangeInclusive},
    sync::{Mutex, OnceLock, PoisonError},
};

use crate::{
    format::{DATA_BLOCK_BYTES, LARGE_BLOCK_BYTES, META_BLOCK_BYTES},
    id::{ObjectId, ObjectKind},
};

/// Among so many objects one is looked for in turn.
const FEW_OBJECTS: usize = 32;

/// A decoded block: every object's bytes, whole and in order.
#[derive(Debug)]
pub struct Block {
    /// Kind, id and place of each object in `bytes`.
    pub objects: Vec<(ObjectKind, ObjectId, Range<usize>)>,
    /// Bytes of all objects, one after the other.
    pub bytes: Vec<u8>,
    /// The base of each object, and how many versions came before it; empty where no object has one.
    pub bases: Vec<Option<(ObjectId, u32)>>,
    /// Number of blocks in a row that have to be decoded before this one.
    pub depth: u32,
    /// The numbers of the objects, ordered by id; made when an object is looked for among many.
    by_id: OnceLock<Vec<u32>>,
}

impl Block {
    /// A block that is decoded by itself.
    pub fn plain(objects: Vec<(ObjectKind, ObjectId, Range<usize>)>, bytes: Vec<u8>) -> Self {
        Block { objects, bytes, bases: Vec::new(), depth: 0, by_id: OnceLock::new() }
    }

    /// The number of an object, if it is in this block.
    fn number_of(&self, id: ObjectId) -> Option<usize> {
        if self.objects.len() <= FEW_OBJECTS {
            return self.objects.iter().position(|(_, i, _)| *i == id);
        }
        let id_of = |number: &u32| self.objects[*number as usize].1;
        let by_id = self.by_id.get_or_init(|| {
            let mut numbers: Vec<u32> = (0..self.objects.len() as u32).collect();
            numbers.sort_unstable_by_key(id_of);
            numbers
        });
        let found = by_id.binary_search_by_key(&id, id_of).ok()?;
        Some(by_id[found] as usize)
    }

    /// Offset of an object's bytes, if it is in this block.
    pub fn place_of(&self, id: ObjectId) -> Option<usize> {
        self.number_of(id).map(|number| self.objects[number].2.start)
    }

    /// The base of an object, if it has one, and how many versions came before the object.
    pub fn base_of(&self, id: ObjectId) -> Option<(ObjectId, u32)> {
        *self.bases.get(self.number_of(id)?)?
    }

    /// The bytes of one object, if it is in this block.
    pub fn object(&self, id: ObjectId) -> Option<&[u8]> {
        self.bytes.get(self.objects[self.number_of(id)?].2.clone())
    }
}

/// Rooms of blocks that are no more, for the next ones.
static SPARE_ROOMS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
const SPARE_ROOMS_MAX: usize = 8;

/// Lengths of rooms that are kept: as our blocks of data. Others may be small, and are many, or are somebody else's, and of any length.
const SPARE_ROOM_BYTES: RangeInclusive<usize> = DATA_BLOCK_BYTES..=2 * LARGE_BLOCK_BYTES;

/// Memory for the bytes of a block. Blocks come and go in a cache, and most are a little longer than one of two lengths: rounded up, what
/// one leaves is room for the next. From the allocator it would come either with holes between the blocks, or fresh from the system, which
/// costs more than decoding what compresses well.
pub(super) fn room_for(bytes: usize) -> Vec<u8> {
    if !SPARE_ROOM_BYTES.contains(&bytes) {
        return Vec::with_capacity(bytes);
    }
    let capacity = bytes.next_multiple_of(META_BLOCK_BYTES);
    let fits = capacity..=capacity + capacity / 8;
    let mut spare = SPARE_ROOMS.lock().unwrap_or_else(PoisonError::into_inner);
    match spare.iter().position(|room| fits.contains(&room.capacity())) {
        Some(at) => spare.swap_remove(at),
        None => Vec::with_capacity(capacity),
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut room = std::mem::take(&mut self.bytes);
        if SPARE_ROOM_BYTES.contains(&room.capacity()) {
            room.clear();
            let mut spare = SPARE_ROOMS.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() == SPARE_ROOMS_MAX {
                spare.remove(0);
            }
            spare.push(room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_kept_in_the_length_of_our_blocks_alone() {
        for bytes in [600, DATA_BLOCK_BYTES + 9, LARGE_BLOCK_BYTES + 700, 9 * LARGE_BLOCK_BYTES] {
            for _ in 0..2 * SPARE_ROOMS_MAX {
                let mut room = room_for(bytes);
                assert!(room.is_empty() && (bytes..=bytes * 5 / 4).contains(&room.capacity()), "{bytes}: {}", room.capacity());
                room.push(1);
                drop(Block::plain(Vec::new(), room));
            }
        }
        let spare = SPARE_ROOMS.lock().unwrap();
        assert!(spare.len() <= SPARE_ROOMS_MAX && spare.iter().all(|room| SPARE_ROOM_BYTES.contains(&room.capacity())));
    }
}
