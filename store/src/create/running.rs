//! BLAKE3 of what only grows: a hash that can be put down and taken up again at a later length, without what was hashed before.
//!
//! BLAKE3 is a tree over 1 KiB pieces. Its nodes over whole groups of [`GROUP_BYTES`] never change once more input follows them, so that
//! they are all that has to be kept: one for each bit of the number of groups.

use blake3::{
    Hasher,
    hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root},
};

use crate::{
    id::BlobId,
    keys::{BlobHasher, Ids},
};

/// Bytes of a group. At most this many have to be hashed again when a hash is taken up.
pub const GROUP_BYTES: u64 = 256 << 10;

/// Takes bytes and makes a blob's id of them.
pub trait Digest {
    /// Adds bytes to what is hashed.
    fn take(&mut self, bytes: &[u8]);
}

impl Digest for BlobHasher {
    fn take(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

/// Whole groups that were hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Their number.
    pub count: u64,
    /// Nodes over them, from left to right; each over a power of two of groups, fewer than the one before.
    pub nodes: Vec<ChainingValue>,
}

impl Groups {
    /// Bytes that they cover.
    pub fn bytes(&self) -> u64 {
        self.count * GROUP_BYTES
    }

    /// True if there are as many nodes as there must be.
    pub fn is_sound(&self) -> bool {
        self.nodes.len() == self.count.count_ones() as usize && self.count.leading_zeros() > 20
    }

    fn push(&mut self, node: ChainingValue, mode: Mode<'_>) {
        let mut node = node;
        for _ in 0..self.count.trailing_ones() {
            if let Some(left) = self.nodes.pop() {
                node = merge_subtrees_non_root(&left, &node, mode);
            }
        }
        self.nodes.push(node);
        self.count += 1;
    }
}

/// A hash under way.
pub struct RunningHash {
    groups: Groups,
    /// Of the group at hand, which is never empty once there was any input: the last one must stay open.
    group: Hasher,
    /// Bytes that are passed over first.
    skip: u64,
    ids: Ids,
}

fn group_at(groups: &Groups, ids: &Ids) -> Hasher {
    let mut hasher = ids.blob_hasher().into_inner();
    hasher.set_input_offset(groups.bytes());
    hasher
}

impl RunningHash {
    /// Goes on behind whole groups. The first `skip` bytes that are given lie before their end.
    pub fn resume(ids: &Ids, groups: Groups, skip: u64) -> Self {
        RunningHash { group: group_at(&groups, ids), groups, skip, ids: ids.clone() }
    }

    /// The hash of everything, and the groups from which it can be taken up.
    pub fn finish(self) -> (BlobId, Groups) {
        let mode = self.ids.blob_mode();
        let hash = match self.groups.nodes.split_first() {
            None if self.group.count() == 0 => return (BlobId::EMPTY, self.groups),
            None => self.group.finalize(),
            Some((first, others)) => {
                let mut right = self.group.finalize_non_root();
                for left in others.iter().rev() {
                    right = merge_subtrees_non_root(left, &right, mode);
                }
                merge_subtrees_root(first, &right, mode)
            }
        };
        (BlobId(*hash.as_bytes()), self.groups)
    }
}

impl Digest for RunningHash {
    fn take(&mut self, bytes: &[u8]) {
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
        self.skip -= skipped as u64;
        let mut bytes = &bytes[skipped..];
        while !bytes.is_empty() {
            let room = GROUP_BYTES - self.group.count();
            if room == 0 {
                self.groups.push(self.group.finalize_non_root(), self.ids.blob_mode());
                self.group = group_at(&self.groups, &self.ids);
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(room as usize));
            self.group.update(now);
            bytes = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{blob_id, ids};

    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn taken_up_at_any_lengths_it_is_the_hash_of_all(
            lengths in proptest::collection::vec(1usize..900_000, 1..8), back in 0u64..300_000, piece in 1usize..400_000
        ) {
            let all = content(lengths.iter().sum());
            let (mut groups, mut end) = (Groups::default(), 0);
            for length in lengths {
                end += length;
                let from = groups.bytes().saturating_sub(back);
                let mut hash = RunningHash::resume(&ids(), groups.clone(), groups.bytes() - from);
                all[from as usize..end].chunks(piece).for_each(|bytes| hash.take(bytes));
                let (id, next) = hash.finish();
                prop_assert_eq!(id, blob_id(&all[..end]));
                prop_assert!(next.is_sound() && next.bytes() < end as u64);
                groups = next;
            }
        }
    }

    #[test]
    fn groups_have_a_node_for_each_bit_of_their_number_which_has_a_limit() {
        let sound = |count: u64, nodes: usize| Groups { count, nodes: vec![[0; 32]; nodes] }.is_sound();
        assert!(sound(0, 0) && sound(5, 2) && sound(1 << 42, 1));
        assert!(!sound(0, 1) && !sound(5, 1) && !sound(5, 3) && !sound(1 << 43, 1) && !sound(1 << 43, 2));
    }

    #[test]
    fn lengths_around_whole_groups() {
        let all = content(9 * GROUP_BYTES as usize + 5);
        for groups in 1..=9u64 {
            for around in [-1i64, 0, 1] {
                let length = (groups * GROUP_BYTES) as i64 + around;
                let mut hash = RunningHash::resume(&ids(), Groups::default(), 0);
                hash.take(&all[..length as usize]);
                let (id, kept) = hash.finish();
                assert_eq!(id, blob_id(&all[..length as usize]));
                assert_eq!(kept.count, (length as u64 - 1) / GROUP_BYTES);
            }
        }
    }
}
