//! Kinds of damage, each in one place of a store.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use parhelia_store::{
    OpenOptions,
    pack::{Location, ObjectKind, PackFile},
};

/// Damage of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A bit of the content on which most other blocks build.
    BaseBit,
    /// A bit of content that builds on another.
    DeltaBit,
    /// A bit of a tree.
    TreeBit,
    /// A bit of a block's own directory.
    DirectoryBit,
    /// A bit of a pack's trailer.
    TrailerBit,
    /// The longest pack is gone.
    Missing,
    /// The last pack is gone.
    SmallMissing,
    /// The second half of the longest pack is gone.
    Truncated,
}

/// A block of a store.
struct Block {
    at: Location,
    kind: ObjectKind,
    directory_end: u64,
    payload_bytes: u64,
    has_bases: bool,
    /// Number of blocks that build on something in it.
    dependents: usize,
}

impl Damage {
    /// All of them.
    pub const ALL: [Damage; 8] = [
        Damage::BaseBit,
        Damage::DeltaBit,
        Damage::TreeBit,
        Damage::DirectoryBit,
        Damage::TrailerBit,
        Damage::Missing,
        Damage::SmallMissing,
        Damage::Truncated,
    ];

    /// Damages a store.
    pub fn apply(self, root: &Path) {
        let packs = packs(root);
        let (longest, last) = (longest(&packs), packs.last().unwrap());
        match self {
            Damage::Missing => fs::remove_file(longest).unwrap(),
            Damage::SmallMissing => fs::remove_file(last).unwrap(),
            Damage::Truncated => {
                let half = fs::metadata(longest).unwrap().len() / 2;
                fs::File::options().write(true).open(longest).unwrap().set_len(half).unwrap();
            }
            Damage::TrailerBit => flip(longest, fs::metadata(longest).unwrap().len() - 20),
            _ => self.flip_in_block(root),
        }
    }

    fn flip_in_block(self, root: &Path) {
        let blocks = blocks(root);
        let is_wanted = |block: &&Block| match self {
            Damage::TreeBit => block.kind == ObjectKind::Tree,
            Damage::DeltaBit => block.kind == ObjectKind::Chunk && block.has_bases,
            _ => block.kind == ObjectKind::Chunk,
        };
        let block = blocks.iter().filter(is_wanted).max_by_key(|block| (block.dependents, block.payload_bytes)).unwrap();
        let at = match self {
            Damage::DirectoryBit => 45,
            _ => block.directory_end + block.payload_bytes / 2,
        };
        flip(&parhelia_ledger::layout(root).pack(block.at.pack), block.at.offset + at);
    }
}

/// The packs of a store, in the order of their names.
pub fn packs(root: &Path) -> Vec<PathBuf> {
    let mut packs: Vec<PathBuf> = fs::read_dir(root.join("packs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    packs.sort();
    packs
}

fn longest(packs: &[PathBuf]) -> &PathBuf {
    packs.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

/// Flips a bit of a file.
pub fn flip(path: &Path, at: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at as usize] ^= 4;
    fs::write(path, bytes).unwrap();
}

fn blocks(root: &Path) -> Vec<Block> {
    let store = parhelia_ledger::open(root, &OpenOptions::default()).unwrap();
    let (mut blocks, mut place, mut bases) = (Vec::new(), HashMap::new(), Vec::new());
    for (id, _) in store.view().packs().unwrap().into_iter().filter(|(_, state)| state.condemned.is_none()) {
        let pack = PackFile::open(store.layout(), id).unwrap();
        let scanned = pack.scan(|at, directory| {
            place.extend(directory.entries.iter().map(|entry| (entry.id, blocks.len())));
            bases.extend(directory.bases.iter().copied());
            blocks.push(Block {
                at,
                kind: directory.entries[0].kind,
                directory_end: directory.directory_end as u64,
                payload_bytes: directory.payload_bytes as u64,
                has_bases: !directory.bases.is_empty(),
                dependents: 0,
            });
            Ok(())
        });
        scanned.unwrap();
    }
    for base in bases {
        blocks[place[&base]].dependents += 1;
    }
    blocks
}
