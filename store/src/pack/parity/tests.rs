//! Files with parity, damaged in every way.

use std::{fs::File, io::Write, os::unix::fs::FileExt};

use super::*;
use crate::{
    format::SHARD_BYTES,
    pack::trailer::{PARITY_TRAILER_BYTES, Trailer},
};

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

/// Numbers below `below`, all different.
fn numbers(seed: u64, count: usize, below: u64) -> Vec<u64> {
    let mut found = Vec::new();
    for bytes in noise(seed, 800).as_chunks().0 {
        let number = u64::from_le_bytes(*bytes) % below;
        if !found.contains(&number) && found.len() < count {
            found.push(number);
        }
    }
    assert_eq!(found.len(), count);
    found
}

/// A file that is laid out as a pack is.
struct Whole {
    file: File,
    bytes: Vec<u8>,
    shape: Shape,
}

impl Whole {
    fn new(covered_bytes: usize) -> Self {
        let covered = noise(covered_bytes as u64, covered_bytes);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&covered).unwrap();
        let mut sums = Sums::default();
        covered.chunks(1000).for_each(|part| sums.add(part));
        let trailer = Trailer::new(1, 0, covered_bytes as u64, [1; 32], true);
        let shape = trailer.parity.unwrap();
        let section = section(&file, shape, sums).unwrap();
        let bytes = [covered, trailer.encode_before_parity(), section, trailer.encode()].concat();
        assert_eq!(bytes.len() as u64, trailer.pack_bytes);
        file.write_all_at(&bytes, 0).unwrap();
        Whole { file, bytes, shape }
    }

    /// Puts other bytes into a place.
    fn damage(&self, at: u64, bytes: usize) {
        let other: Vec<u8> = self.bytes[at as usize..][..bytes].iter().map(|byte| byte ^ 0x5a).collect();
        self.file.write_all_at(&other, at).unwrap();
    }

    fn damage_shard(&self, shard: u64) {
        let (at, bytes) = self.shape.place(shard);
        self.damage(at, bytes);
    }

    fn parity_at(&self) -> u64 {
        self.shape.covered_bytes + PARITY_TRAILER_BYTES as u64
    }

    fn make_whole(&self) {
        self.file.set_len(self.bytes.len() as u64).unwrap();
        self.file.write_all_at(&self.bytes, 0).unwrap();
    }

    fn examined(&self) -> ParityReport {
        examine(&self.file, &Default::default()).unwrap().unwrap()
    }

    /// Checks that the shards which are healed are those, with the bytes that they had.
    fn assert_healed(&self, shards: &[u64]) {
        let found = self.examined();
        let mut wanted = shards.to_vec();
        wanted.sort_unstable();
        assert_eq!(found.healed.keys().copied().collect::<Vec<_>>(), wanted);
        assert_eq!(found.lost, 0);
        for (shard, bytes) in &found.healed {
            let (at, length) = self.shape.place(*shard);
            assert!(bytes == &self.bytes[at as usize..][..length], "{shard}");
        }
    }
}

const LENGTHS: [usize; 8] = [17, 63, 1000, 5_000, 70_001, 300_000, 1 << 20, (3 << 20) + 1234];

#[test]
fn any_three_shards_of_a_stripe_are_computed_from_the_others() {
    for covered in LENGTHS {
        let whole = Whole::new(covered);
        let found = whole.examined();
        assert_eq!((found.damaged, found.lost, found.healed.len()), (0, 0, 0));
        let stripes = u64::from(whole.shape.stripes);
        for seed in 0..12 {
            let stripe = seed % stripes;
            let rows = (whole.shape.shards() - stripe).div_ceil(stripes);
            let count = (seed as usize % 3 + 1).min(rows as usize);
            let shards: Vec<u64> = numbers(seed, count, rows).iter().map(|row| row * stripes + stripe).collect();
            shards.iter().for_each(|shard| whole.damage_shard(*shard));
            // Parity shards of other stripes, and as many of this one as can be done without.
            for row in (0..3).filter(|row| *row < 3 - count as u64) {
                let number = row * stripes + stripe;
                whole.damage(whole.parity_at() + number * u64::from(whole.shape.shard_bytes), 9);
            }
            whole.assert_healed(&shards);
            assert_eq!(whole.examined().damaged, 3);
            whole.make_whole();
        }
    }
}

#[test]
fn a_run_of_sectors_is_healed() {
    let whole = Whole::new(8 << 20);
    let run = 3 * u64::from(whole.shape.stripes);
    assert_eq!((whole.shape.shard_bytes, run), (SHARD_BYTES, 48));
    for first in [0, 777, whole.shape.shards() - run] {
        let shards: Vec<u64> = (first..first + run).collect();
        shards.iter().for_each(|shard| whole.damage_shard(*shard));
        whole.assert_healed(&shards);
        whole.make_whole();
    }
}

#[test]
fn more_is_named_as_lost_and_other_stripes_are_healed() {
    let whole = Whole::new(2 << 20);
    let stripes = u64::from(whole.shape.stripes);
    (0..4).for_each(|row| whole.damage_shard(row * stripes + 1));
    whole.damage_shard(2);
    let found = whole.examined();
    assert_eq!((found.lost, found.damaged), (4, 5));
    assert_eq!(found.healed.into_keys().collect::<Vec<_>>(), [2]);
}

#[test]
fn every_damaged_byte_behind_the_blocks_is_noticed_and_costs_nothing() {
    let whole = Whole::new(3000);
    for at in whole.shape.covered_bytes..whole.bytes.len() as u64 {
        whole.damage(at, 1);
        whole.damage_shard(7);
        let found = whole.examined();
        assert!(found.damaged >= 1, "{at}");
        whole.assert_healed(&[7]);
        whole.file.write_all_at(&whole.bytes[at as usize..][..1], at).unwrap();
    }
}

#[test]
fn a_sector_at_either_end_of_the_parity_may_be_lost() {
    let whole = Whole::new((4 << 20) - 100);
    let end = whole.bytes.len() as u64;
    // The first one has the last bytes that are covered, and the trailer before the parity.
    for (at, bytes) in [((4 << 20) - 4096, 4096), (end - 5000, 5000)] {
        whole.damage(at, bytes);
        let found = whole.examined();
        assert!(found.damaged > 0 && found.lost == 0, "{at}: {found:?}");
        for (shard, healed) in &found.healed {
            let (at, length) = whole.shape.place(*shard);
            assert!(healed == &whole.bytes[at as usize..][..length]);
        }
        assert_eq!(found.healed.len(), usize::from(at < whole.shape.covered_bytes));
        whole.make_whole();
    }
    // An end that is cut off leaves the first trailer.
    whole.file.set_len(end - 20_000).unwrap();
    whole.damage_shard(9);
    let found = whole.examined();
    assert_eq!(found.trailer.pack_bytes, end);
}

#[test]
fn what_reads_back_differently_is_not_given_parity() {
    let mut file = tempfile::tempfile().unwrap();
    let mut bytes = noise(1, 50_000);
    let mut sums = Sums::default();
    sums.add(&bytes);
    bytes[44_444] ^= 1;
    file.write_all(&bytes).unwrap();
    assert!(section(&file, Shape::of(50_000), sums).is_err());
}

#[test]
fn parity_is_what_the_format_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/format/vectors.json");
    let vectors: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let vector = &vectors["parity"];
    let number = |field: &str| u32::try_from(vector[field].as_u64().unwrap()).unwrap();
    let (shard_bytes, stripes, rows) = (number("shard_length"), number("stripes"), number("rows") as u8);
    let shape = Shape { covered_bytes: 1000, shard_bytes, stripes, rows };
    shape.check().unwrap();
    let mut content = vec![0; 1000];
    blake3::Hasher::new().update(b"parhelia").finalize_xof().fill(&mut content);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    let hex: String = section_again(&file, shape).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, vector["bytes"].as_str().unwrap());
}
