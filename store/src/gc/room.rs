//! Working on a full disk: the ballast is given up for the few bytes that a deletion needs, and made again afterwards.

use crate::{error::Result, filesystem, format::BALLAST_BYTES, layout::Layout, store};

/// The ballast is made again when this many times its length are free.
const FREE_FACTOR: u64 = 2;

/// Room to write in.
pub(crate) struct Room {
    layout: Layout,
    was_full: bool,
}

impl Room {
    pub(crate) fn new(layout: &Layout) -> Self {
        Room { layout: layout.clone(), was_full: false }
    }

    /// Gives up the ballast.
    pub(crate) fn release(&mut self) {
        self.was_full = true;
        let _ = std::fs::remove_file(self.layout.ballast());
    }

    /// Does something small, once more without the ballast if the disk is full.
    pub(crate) fn make<T>(&mut self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        match work() {
            Err(e) if e.is_disk_full() => {
                self.release();
                work()
            }
            other => other,
        }
    }

    /// Makes the ballast again if there is room. Says whether the disk was full.
    pub(crate) fn give_back(&mut self) -> bool {
        let missing = !self.layout.ballast().exists();
        let free = filesystem::free_bytes(&self.layout.root).unwrap_or(0);
        if missing && free >= BALLAST_BYTES * FREE_FACTOR {
            store::make_ballast(&self.layout);
        }
        self.was_full
    }
}
