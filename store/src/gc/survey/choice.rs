//! Decides which packs go.

use std::collections::{BTreeSet, HashMap};

use super::{PackUse, Survey};
use crate::{
    gc::{Choice, GcOptions},
    id::PackId,
};

/// A pack shorter than this is small.
const SMALL_PACK_BYTES: u64 = 4 << 20;

/// More small packs than this are copied together.
const SMALL_PACKS_MAX: usize = 16;

/// Copies that gain less are not missed.
const GAINED_BYTES_MIN: u64 = 16 << 10;

impl<'a> Survey<'a> {
    /// Decides which packs go.
    pub(crate) fn choose(&self, options: &GcOptions) -> Choice {
        let mut choice = Choice::default();
        let mut small = Vec::new();
        for pack in &self.packs {
            if pack.has_only_copies {
                continue;
            } else if pack.live_objects == 0 {
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
        let mut condemned = choice.all();
        if options.repacks() {
            self.add_leaning(&mut choice, &mut condemned);
            if let Some(percent) = options.unused_percent_max {
                self.add_until_little_is_unused(percent, &mut choice, &condemned);
            }
            condemned = choice.all();
            self.add_leaning(&mut choice, &mut condemned);
        }
        self.spare_what_is_leaned_on(&mut condemned);
        choice.retain(&condemned);
        choice
    }

    /// Of what [`Survey::choose`] has chosen, what can go if no more than so many bytes are copied: first whatever frees most for each byte.
    pub(crate) fn choose_within(&self, chosen: &Choice, copied_bytes_max: u64) -> Choice {
        let all = chosen.all();
        let use_of: HashMap<PackId, &PackUse> = self.packs.iter().map(|pack| (pack.id, pack)).collect();
        let sum = |packs: &BTreeSet<PackId>, of: &dyn Fn(&PackUse) -> u64| -> u64 { packs.iter().map(|id| of(use_of[id])).sum() };
        let copied = |packs: &BTreeSet<PackId>| sum(packs, &|pack| pack.live_bytes);
        let mut groups: Vec<(u64, u64, BTreeSet<PackId>)> = Vec::new();
        for group in self.groups(&all) {
            let (copied, bytes) = (copied(&group), sum(&group, &|pack| pack.bytes));
            if bytes > copied {
                groups.push((copied, bytes - copied, group));
            }
        }
        groups.sort_by(|(copied, freed, _), (other_copied, other_freed, _)| {
            (u128::from(*copied) * u128::from(*other_freed)).cmp(&(u128::from(*other_copied) * u128::from(*freed)))
        });
        let (mut goes, mut left) = (BTreeSet::new(), copied_bytes_max);
        for (_, _, group) in groups {
            let more: BTreeSet<PackId> = group.difference(&goes).copied().collect();
            if let Some(rest) = left.checked_sub(copied(&more)) {
                left = rest;
                goes.extend(more);
            }
        }
        let mut within = chosen.clone();
        within.retain(&goes);
        within
    }

    /// Bytes that are copied for a choice, by estimate.
    pub(crate) fn copied_bytes(&self, choice: &Choice) -> u64 {
        self.packs.iter().filter(|pack| choice.repack.contains(&pack.id)).map(|pack| pack.live_bytes).sum()
    }

    /// Bytes of the packs that are copied.
    fn repacked_bytes(&self, choice: &Choice) -> u64 {
        self.packs.iter().filter(|pack| choice.repack.contains(&pack.id)).map(|pack| pack.bytes).sum()
    }

    /// Bytes that new bases let go of in packs that are not copied.
    pub(crate) fn freed_by_new_bases(&self, choice: &Choice) -> u64 {
        self.let_go.iter().filter(|(pack, _)| choice.delete.contains(pack)).map(|(_, bytes)| bytes).sum()
    }

    /// Bytes that the copies take the place of.
    pub(crate) fn replaced_bytes(&self, choice: &Choice) -> u64 {
        self.repacked_bytes(choice) + self.freed_by_new_bases(choice)
    }

    /// Number of packs that `chosen` copies and `done` does not; 0 where copying them would gain next to nothing.
    pub(crate) fn left_packs(&self, chosen: &Choice, done: &Choice) -> u64 {
        let left: BTreeSet<PackId> = chosen.all().difference(&done.all()).copied().collect();
        let gains = self.packs.iter().filter(|pack| left.contains(&pack.id)).map(PackUse::unused_bytes).sum::<u64>();
        if gains < GAINED_BYTES_MIN { 0 } else { left.len() as u64 }
    }

    /// True if something broken goes by it, which is worth more than bytes.
    pub(crate) fn is_repair(&self, choice: &Choice) -> bool {
        self.packs.iter().any(|pack| pack.has_broken_objects && choice.repack.contains(&pack.id))
    }

    /// Copies packs with the least alive as long as what stays has too much that nothing needs.
    fn add_until_little_is_unused(&self, percent: u8, choice: &mut Choice, condemned: &BTreeSet<PackId>) {
        let live_bytes: u64 = self.packs.iter().map(|pack| pack.live_bytes).sum();
        let unused_max = live_bytes / 100 * u64::from(percent) + live_bytes % 100 * u64::from(percent) / 100;
        let mut stay: Vec<&PackUse> = self
            .packs
            .iter()
            .filter(|pack| !condemned.contains(&pack.id) && !pack.must_stay() && pack.unused_bytes() > 0)
            .collect();
        stay.sort_by_key(|pack| (u128::from(pack.live_bytes) * 1_000_000 / u128::from(pack.bytes.max(1)), pack.id));
        let mut unused: u64 = stay.iter().map(|pack| pack.unused_bytes()).sum();
        for pack in stay {
            if unused <= unused_max {
                return;
            }
            unused -= pack.unused_bytes();
            choice.repack.insert(pack.id);
        }
    }

    /// Copies what leans on packs that go.
    fn add_leaning(&self, choice: &mut Choice, condemned: &mut BTreeSet<PackId>) {
        while let Some(pack) = self.packs.iter().find(|pack| !pack.must_stay() && pack.leans_on_any(condemned)) {
            choice.repack.insert(pack.id);
            condemned.insert(pack.id);
        }
    }

    /// For each of these packs, it and those that have to go with it.
    fn groups(&self, all: &BTreeSet<PackId>) -> Vec<BTreeSet<PackId>> {
        let mut leaning: HashMap<PackId, Vec<PackId>> = HashMap::new();
        for pack in self.packs.iter().filter(|pack| all.contains(&pack.id)) {
            pack.leans_on.iter().for_each(|on| leaning.entry(*on).or_default().push(pack.id));
        }
        let with_leaning = |pack: &PackId| {
            let (mut group, mut pending) = (BTreeSet::new(), vec![*pack]);
            while let Some(pack) = pending.pop() {
                if group.insert(pack) {
                    pending.extend(leaning.get(&pack).into_iter().flatten());
                }
            }
            group
        };
        all.iter().map(with_leaning).collect()
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
    /// True if it cannot be copied, or is not to be.
    fn must_stay(&self) -> bool {
        self.is_damaged || self.has_only_copies
    }

    fn leans_on_any(&self, condemned: &BTreeSet<PackId>) -> bool {
        !condemned.contains(&self.id) && self.leans_on.iter().any(|id| condemned.contains(id))
    }

    /// Bytes that nothing needs.
    fn unused_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.live_bytes)
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

    const BELOW_70: GcOptions = GcOptions::below(70);
    const CONSOLIDATE: GcOptions = GcOptions { consolidate: true, ..GcOptions::below(0) };

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
    fn packs_with_the_least_alive_are_copied_until_little_is_unused() {
        let sized = |shares: [u64; 4]| {
            let mut packs = packs(SMALL_PACK_BYTES, shares);
            packs.iter_mut().for_each(|pack| pack.live_bytes = pack.bytes * pack.live_raw_bytes / 1000);
            packs
        };
        let unused = |percent| GcOptions { unused_percent_max: Some(percent), ..GcOptions::no_repack() };
        // 15, 25, 5 and 0 percent of a pack are unused: 45 of 355.
        let shares = [850, 750, 950, 1000];
        assert_eq!(chosen(sized(shares), &unused(13)), (vec![], vec![]));
        assert_eq!(chosen(sized(shares), &unused(12)), (vec![], vec![1]));
        assert_eq!(chosen(sized(shares), &unused(5)), (vec![], vec![0, 1]));
        assert_eq!(chosen(sized(shares), &unused(0)), (vec![], vec![0, 1, 2]));
        assert_eq!(chosen(sized(shares), &GcOptions::no_repack()), (vec![], vec![]));
        let mut damaged = sized(shares);
        damaged[1].is_damaged = true;
        assert_eq!(chosen(damaged, &unused(0)), (vec![], vec![0, 2]));
    }

    #[test]
    fn as_much_goes_as_can_be_copied_and_what_frees_most_comes_first() {
        let test = TestStore::new();
        let mut survey = Survey::take(&test.store, &()).unwrap();
        survey.packs = packs(1000, [0, 100, 600, 400, 0, 900]);
        survey.packs.iter_mut().for_each(|pack| pack.live_bytes = pack.live_raw_bytes);
        let ids: Vec<PackId> = survey.packs.iter().map(|pack| pack.id).collect();
        // The fifth is dead, but goes only with the last.
        survey.packs[5].leans_on.insert(ids[4]);
        let options = GcOptions { repack_below_percent: 100, ..GcOptions::no_repack() };
        let all = survey.choose(&options);
        assert_eq!(survey.copied_bytes(&all), 2000);
        let within = |bytes| {
            let choice = survey.choose_within(&all, bytes);
            assert!(survey.copied_bytes(&choice) <= bytes);
            let mut spared = choice.all();
            survey.spare_what_is_leaned_on(&mut spared);
            assert_eq!(spared, choice.all());
            assert!(choice.delete.is_subset(&all.delete) && choice.repack.is_subset(&all.repack));
            (0..6).filter(|number| choice.all().contains(&ids[*number])).collect::<Vec<usize>>()
        };
        assert_eq!(within(0), [0]);
        assert_eq!(within(100), [0, 1]);
        assert_eq!(within(499), [0, 1]);
        assert_eq!(within(500), [0, 1, 3]);
        // 900 bytes for 1,100 are better than 600 for 400.
        assert_eq!(within(1500), [0, 1, 3, 4, 5]);
        assert_eq!(within(2000), [0, 1, 2, 3, 4, 5]);
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
