//! Decides which packs go.

use std::collections::BTreeSet;

use super::{PackUse, Survey};
use crate::{
    gc::{Choice, GcOptions},
    id::PackId,
};

/// A pack shorter than this is small.
const SMALL_PACK_BYTES: u64 = 4 << 20;

/// More small packs than this are copied together.
const SMALL_PACKS_MAX: usize = 16;

impl<'a> Survey<'a> {
    /// Decides which packs go.
    pub(crate) fn choose(&self, options: &GcOptions) -> Choice {
        let mut choice = Choice::default();
        let mut small = Vec::new();
        for pack in &self.packs {
            if pack.live_objects == 0 {
                choice.delete.insert(pack.id);
            } else if pack.is_damaged {
                continue;
            } else if pack.is_below(options.repack_below_percent) || pack.has_broken_objects && options.repacks() {
                choice.repack.insert(pack.id);
            } else if pack.bytes < SMALL_PACK_BYTES {
                small.push(pack.id);
            }
        }
        if options.consolidate && small.len() > SMALL_PACKS_MAX {
            choice.repack.extend(small);
        }
        let mut condemned: BTreeSet<PackId> = choice.delete.union(&choice.repack).copied().collect();
        if options.repacks() {
            while let Some(pack) = self.packs.iter().find(|pack| !pack.is_damaged && pack.leans_on_any(&condemned)) {
                choice.repack.insert(pack.id);
                condemned.insert(pack.id);
            }
        }
        self.spare_what_is_leaned_on(&mut condemned);
        choice.delete.retain(|id| condemned.contains(id));
        choice.repack.retain(|id| condemned.contains(id));
        choice
    }

    /// Takes out of `condemned` what packs that stay lean on.
    pub(crate) fn spare_what_is_leaned_on(&self, condemned: &mut BTreeSet<PackId>) {
        loop {
            let staying = self.packs.iter().filter(|pack| !condemned.contains(&pack.id));
            let needed: Vec<PackId> =
                staying.flat_map(|pack| &pack.leans_on).filter(|id| condemned.contains(*id)).copied().collect();
            if needed.is_empty() {
                return;
            }
            needed.iter().for_each(|id| {
                condemned.remove(id);
            });
        }
    }
}

impl PackUse {
    fn leans_on_any(&self, condemned: &BTreeSet<PackId>) -> bool {
        !condemned.contains(&self.id) && self.leans_on.iter().any(|id| condemned.contains(id))
    }

    fn is_below(&self, percent: u8) -> bool {
        self.live_raw_bytes * 100 < self.raw_bytes * u64::from(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::OpId, testing::TestStore};

    /// The numbers of the packs that are deleted, and of those that are repacked.
    fn chosen(packs: Vec<PackUse>, options: &GcOptions) -> (Vec<usize>, Vec<usize>) {
        let test = TestStore::new();
        let mut survey = Survey::take(&test.store, &()).unwrap();
        survey.packs = packs;
        let choice = survey.choose(options);
        let numbers = |ids: BTreeSet<PackId>| {
            let number = |id: &PackId| survey.packs.iter().position(|pack| pack.id == *id).unwrap();
            ids.iter().map(number).collect()
        };
        (numbers(choice.delete), numbers(choice.repack))
    }

    /// Packs of which these shares of a thousand live.
    fn packs<const N: usize>(bytes: u64, shares: [u64; N]) -> Vec<PackUse> {
        let (op, mut packs) = (OpId::generate(), Vec::new());
        for (number, live_raw_bytes) in shares.into_iter().enumerate() {
            let pack = PackUse::new(PackId::new(op, number as u32), bytes);
            packs.push(PackUse { live_objects: live_raw_bytes, live_raw_bytes, raw_bytes: 1000, ..pack });
        }
        packs
    }

    const BELOW_70: GcOptions = GcOptions { repack_below_percent: 70, consolidate: false };
    const CONSOLIDATE: GcOptions = GcOptions { repack_below_percent: 0, consolidate: true };

    #[test]
    fn packs_with_little_alive_are_copied_and_those_with_nothing_go() {
        let large = SMALL_PACK_BYTES;
        let shares = || packs(large, [0, 1, 699, 700, 1000]);
        assert_eq!(chosen(shares(), &BELOW_70), (vec![0], vec![1, 2]));
        assert_eq!(chosen(shares(), &GcOptions::no_repack()), (vec![0], vec![]));
        // A damaged one is not copied; what is broken is.
        let mut odd = packs(large, [0, 1, 1000, 1000]);
        (odd[0].is_damaged, odd[1].is_damaged, odd[2].has_broken_objects) = (true, true, true);
        assert_eq!(chosen(odd, &BELOW_70), (vec![0], vec![2]));
        let mut broken = packs(large, [1000]);
        broken[0].has_broken_objects = true;
        assert_eq!(chosen(broken, &GcOptions::no_repack()), (vec![], vec![]));
    }

    #[test]
    fn small_packs_are_copied_together_once_there_are_many() {
        let all: Vec<usize> = (0..=SMALL_PACKS_MAX).collect();
        let many = || packs(SMALL_PACK_BYTES - 1, [1000; SMALL_PACKS_MAX + 1]);
        assert_eq!(chosen(many(), &CONSOLIDATE), (vec![], all));
        assert_eq!(chosen(many(), &BELOW_70), (vec![], vec![]));
        assert_eq!(chosen(packs(SMALL_PACK_BYTES - 1, [1000; SMALL_PACKS_MAX]), &CONSOLIDATE), (vec![], vec![]));
        assert_eq!(chosen(packs(SMALL_PACK_BYTES, [1000; SMALL_PACKS_MAX + 1]), &CONSOLIDATE), (vec![], vec![]));
    }

    #[test]
    fn a_pack_goes_with_those_that_lean_on_it_or_not_at_all() {
        // The last leans on the one before, and that on the first; nothing leans on the second.
        let leaning = || {
            let mut packs = packs(SMALL_PACK_BYTES, [0, 0, 1000, 1000]);
            let ids: Vec<PackId> = packs.iter().map(|pack| pack.id).collect();
            packs[2].leans_on.insert(ids[0]);
            packs[3].leans_on.insert(ids[2]);
            packs
        };
        assert_eq!(chosen(leaning(), &GcOptions::no_repack()), (vec![1], vec![]));
        assert_eq!(chosen(leaning(), &BELOW_70), (vec![0, 1], vec![2, 3]));
        // One that stays keeps what it leans on, and that keeps what it leans on in turn.
        let mut damaged = leaning();
        damaged[3].is_damaged = true;
        assert_eq!(chosen(damaged, &BELOW_70), (vec![1], vec![]));
    }
}
