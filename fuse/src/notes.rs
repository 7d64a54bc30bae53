//! What the kernel asks, told to the threads that go ahead of it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
    mpsc::{Receiver, SyncSender, sync_channel},
};

/// Notes that wait to be looked at; more are dropped, as they would be too late.
pub const QUEUE_MAX: usize = 64;

/// What was asked of the filesystem.
#[derive(Clone, Copy, Debug)]
pub enum Note {
    /// A file was read from its start.
    Read(u64),
    /// A folder was listed from its start.
    Listed(u64),
}

impl Note {
    /// The inode that was asked for.
    pub fn ino(self) -> u64 {
        let (Note::Read(ino) | Note::Listed(ino)) = self;
        ino
    }
}

/// Lists of which a listener needs to hear nothing for now. Waking a thread for each costs more than most of the lists do.
#[derive(Clone, Default)]
pub struct Unheard(Arc<(AtomicU64, AtomicU64)>);

impl Unheard {
    /// From here on, those of inodes of this range; what is still told is not wrong.
    pub fn set(&self, from: u64, until: u64) {
        self.0.0.store(from, Relaxed);
        self.0.1.store(until, Relaxed);
    }

    /// Whether a note is none to wake anybody for.
    pub fn has(&self, note: Note) -> bool {
        let Note::Listed(ino) = note else { return false };
        (self.0.0.load(Relaxed)..self.0.1.load(Relaxed)).contains(&ino)
    }
}

/// Where notes go in.
#[derive(Default)]
pub struct Notes(Vec<(SyncSender<Note>, Unheard)>);

impl Notes {
    /// Somebody who hears every note from now on, but for those that are not wanted.
    pub fn listener(&mut self) -> (Receiver<Note>, Unheard) {
        let (notes, listener) = sync_channel(QUEUE_MAX);
        let unheard = Unheard::default();
        self.0.push((notes, unheard.clone()));
        (listener, unheard)
    }

    /// Takes a note. Never waits.
    pub fn take(&self, note: Note) {
        for (listener, _) in self.0.iter().filter(|(_, unheard)| !unheard.has(note)) {
            let _ = listener.try_send(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_are_not_wanted_are_not_told_and_reads_always_are() {
        let mut notes = Notes::default();
        let ((all, _), (some, unheard)) = (notes.listener(), notes.listener());
        unheard.set(10, 20);
        for ino in [5, 10, 19, 20] {
            notes.take(Note::Listed(ino));
            notes.take(Note::Read(ino));
        }
        drop(notes);
        let told = |listener: Receiver<Note>| listener.iter().map(|note| format!("{note:?}")).collect::<Vec<_>>();
        assert_eq!(told(all).len(), 8);
        assert_eq!(told(some), ["Listed(5)", "Read(5)", "Read(10)", "Read(19)", "Listed(20)", "Read(20)"]);
    }
}
