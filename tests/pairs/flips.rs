//! A bit of any file of a store is flipped, and then the store is used as somebody would who does not know.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use parhelia_tests::{given_seed, long, repeated_by};

use crate::pairs::{damage::flip, verbs::Verb, world::World};

/// Rounds in the ordinary run.
const ROUNDS: u64 = 6;

/// Numbers that look random and follow from a seed.
pub struct Chance(u64);

impl Chance {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Chance(seed)
    }

    /// The next number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 += 1;
        let hash = blake3::hash(&self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        u64::from_le_bytes(*hash.as_bytes().first_chunk().unwrap()) % limit.max(1)
    }
}

/// Every file below a folder that has bytes.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => pending.push(entry.path()),
                Ok(meta) if meta.is_file() && meta.len() > 0 => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_flipped_bit_of_any_file_is_named_and_healed_and_costs_nothing_else() {
    let world = World::new();
    let seed = given_seed().unwrap_or(1);
    let mut chance = Chance::new(seed << 32);
    for round in 0..if long() > 0 { long() * 100 } else { ROUNDS } {
        let mut one = world.copy();
        let store = one.scratch.store();
        // The journal and the settings are not made twice: what is lost of them is lost.
        let is_derived = |path: &PathBuf| ["packs", "view", "cache"].iter().any(|name| path.starts_with(store.join(name)));
        let files: Vec<PathBuf> = files_below(&store).into_iter().filter(is_derived).collect();
        let path = &files[chance.below(files.len() as u64) as usize];
        let at = chance.below(fs::metadata(path).unwrap().len());
        flip(path, at);
        let what = format!("round {round} ({}): bit at {at} of {}", repeated_by(seed), path.display());
        for verb in [Verb::Create, Verb::CheckData, Verb::Create, Verb::Gc] {
            one.step(verb, &what);
        }
        let all: BTreeSet<String> = one.saved.keys().cloned().collect();
        let newest = one.newest.clone().unwrap_or_default();
        assert!(one.readable(&what).contains(&newest), "{what}: the checkpoint after the check cannot be read");
        one.step(Verb::Repair, &what);
        one.repair_all(&what);
        assert_eq!(one.readable(&what), all, "{what}");
    }
}
