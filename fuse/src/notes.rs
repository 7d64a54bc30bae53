//! What the kernel asks, told to the threads that go ahead of it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

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

/// Where notes go in.
#[derive(Default)]
pub struct Notes(Vec<SyncSender<Note>>);

impl Notes {
    /// Somebody who hears every note from now on.
    pub fn listener(&mut self) -> Receiver<Note> {
        let (notes, listener) = sync_channel(QUEUE_MAX);
        self.0.push(notes);
        listener
    }

    /// Takes a note. Never waits.
    pub fn take(&self, note: Note) {
        for listener in &self.0 {
            let _ = listener.try_send(note);
        }
    }
}
