//! The numbers of sessions, tags and checkpoints, from which inode numbers are made. Whoever has one keeps it as long as the mount lives, and
//! nobody else gets it, as the kernel may know its inodes.

use std::collections::{HashMap, hash_map::Entry};

use parhelia_store::id::Ulid;

use crate::filesystem::store::inode::CHECKPOINT_MAX;

/// Numbers given so far.
#[derive(Default)]
pub struct Numbers {
    sessions: HashMap<String, u64>,
    tag_folders: HashMap<String, u64>,
    tag_links: HashMap<(String, u64), u64>,
    checkpoints: HashMap<u64, Ulid>,
    /// Checkpoints whose number is not their sequence.
    moved: HashMap<Ulid, u64>,
}

impl Numbers {
    /// The number of a session.
    pub fn session(&mut self, name: &str) -> u64 {
        let next = self.sessions.len() as u64;
        match self.sessions.get(name) {
            Some(number) => *number,
            None => *self.sessions.entry(name.to_owned()).or_insert(next),
        }
    }

    /// The number of a folder of tags, by its path. They begin at 1, which leaves 0 for the topmost one.
    pub fn tag_folder(&mut self, path: &str) -> u64 {
        let next = self.tag_folders.len() as u64 + 1;
        *self.tag_folders.entry(path.to_owned()).or_insert(next)
    }

    /// The number of the link at a path under `by-tag` to a checkpoint, which is given by number.
    pub fn tag_link(&mut self, path: &str, checkpoint: u64) -> u64 {
        let next = self.tag_links.len() as u64;
        *self.tag_links.entry((path.to_owned(), checkpoint)).or_insert(next)
    }

    /// The number of a checkpoint: the sequence of its commit, so that it is the same in the next mount. But a commit that could not be
    /// synced is taken back, and another one takes its sequence; that one has a number from the end. `None` where there is none left.
    pub fn checkpoint(&mut self, sequence: u64, id: Ulid) -> Option<u64> {
        if let Some(number) = self.moved.get(&id) {
            return Some(*number);
        }
        if (1..=CHECKPOINT_MAX).contains(&sequence) {
            match self.checkpoints.entry(sequence) {
                Entry::Vacant(free) => {
                    free.insert(id);
                    return Some(sequence);
                }
                Entry::Occupied(taken) if *taken.get() == id => return Some(sequence),
                Entry::Occupied(_) => {}
            }
        }
        let number = (1..=CHECKPOINT_MAX).rev().find(|number| !self.checkpoints.contains_key(number))?;
        self.checkpoints.insert(number, id);
        self.moved.insert(id, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_once() {
        let mut numbers = Numbers::default();
        let [a, b, c, d] = [(); 4].map(|()| Ulid::generate());
        assert_eq!([a, a].map(|id| numbers.checkpoint(1, id)), [Some(1); 2]);
        assert_eq!(numbers.checkpoint(2, b), Some(2));
        assert_eq!([c, c].map(|id| numbers.checkpoint(2, id)), [Some(CHECKPOINT_MAX); 2], "another one of the same sequence");
        assert_eq!(numbers.checkpoint(CHECKPOINT_MAX, d), Some(CHECKPOINT_MAX - 1));
        assert_eq!(numbers.checkpoint(u64::MAX, Ulid::generate()), Some(CHECKPOINT_MAX - 2));
        assert_eq!((numbers.checkpoint(1, a), numbers.checkpoint(2, b)), (Some(1), Some(2)));
        assert_eq!(["x", "y", "x"].map(|name| numbers.session(name)), [0, 1, 0]);
    }
}
