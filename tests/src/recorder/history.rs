//! History of operations, in order, and the disks that a power cut could have left.

use std::{collections::HashMap, path::PathBuf};

use super::disk::{Disk, Ino, Op};

/// Something that happened, and where.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The operation.
    pub op: Op,
    /// The path in the recorder that it concerns.
    pub path: PathBuf,
}

/// Effects of a power cut on what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All of it is lost.
    Lost,
    /// All of it is there.
    Kept,
    /// All of it is there, but of the last write only so many thousandths.
    Torn(usize),
    /// Some of it is there, as a number decides: any of the writes, as bytes or as zeros, and any of the names.
    Some(u64),
}

/// Everything that happened.
pub struct History {
    base: Disk,
    /// In order.
    pub entries: Vec<Entry>,
    /// For each entry, the sync that made it durable.
    synced_by: Vec<usize>,
}

/// The inodes whose sync makes an operation durable.
fn covered_by(op: &Op) -> [Option<Ino>; 2] {
    match op {
        Op::Name(folder, ..) | Op::Unname(folder, ..) => [Some(*folder), None],
        Op::Rename((from, _), (to, _), _) | Op::Exchange((from, _), (to, _)) => [Some(*from), Some(*to)],
        Op::Write(ino, ..) | Op::Length(ino, _) => [Some(*ino), None],
        // An inode is nothing without a name; modes and times are not what this is about.
        Op::Make(..) | Op::Attributes(..) | Op::Sync(_) | Op::FailedSync(_) => [None, None],
    }
}

impl History {
    pub(super) fn new(base: Disk, entries: Vec<Entry>) -> Self {
        let mut next_sync: HashMap<Ino, usize> = HashMap::new();
        let mut synced_by = vec![usize::MAX; entries.len()];
        for (i, entry) in entries.iter().enumerate().rev() {
            match entry.op {
                Op::Sync(ino) => _ = next_sync.insert(ino, i),
                Op::FailedSync(ino) => _ = next_sync.remove(&ino),
                _ => {}
            }
            let syncs = covered_by(&entry.op).into_iter().flatten().filter_map(|ino| next_sync.get(&ino).copied());
            synced_by[i] = syncs.min().unwrap_or(usize::MAX);
        }
        History { base, entries, synced_by }
    }

    /// True if the entry is lost for certain, or may be, if the power goes before entry `n`.
    fn may_be_lost(&self, i: usize, n: usize) -> bool {
        covered_by(&self.entries[i].op)[0].is_some() && self.synced_by[i] >= n
    }

    /// Number of entries before `n` that a power cut there could lose.
    pub fn unsynced(&self, n: usize) -> usize {
        (0..n).filter(|i| self.may_be_lost(*i, n)).count()
    }

    /// The disk after a power cut just before entry `n`.
    pub fn image(&self, n: usize, cut: Cut) -> Disk {
        let mut disk = self.base.clone();
        let mut dice = Dice(match cut {
            Cut::Some(seed) => seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n as u64,
            _ => 0,
        });
        for (i, entry) in self.entries[..n].iter().enumerate() {
            if !self.may_be_lost(i, n) {
                disk.apply(&entry.op);
                continue;
            }
            match (cut, &entry.op) {
                (Cut::Lost, _) => {}
                (Cut::Torn(thousandths), Op::Write(ino, offset, data)) if i + 1 == n => {
                    let cut = data.len() * thousandths / 1000;
                    disk.apply(&Op::Write(*ino, *offset, data[..cut].to_vec()));
                }
                (Cut::Kept | Cut::Torn(_), op) => disk.apply(op),
                (Cut::Some(_), op) => match (dice.roll() % 4, op) {
                    (0, _) => {}
                    // The length reached the disk, the bytes did not.
                    (1, Op::Write(ino, offset, data)) => disk.apply(&Op::Write(*ino, *offset, vec![0; data.len()])),
                    (1, _) => {}
                    _ => disk.apply(op),
                },
            }
        }
        disk
    }
}

/// Numbers that look random and follow from a seed (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
