//! Working on a full disk: the ballast is given up for the few bytes that a deletion needs, and made again afterwards.

use super::{Choice, GcOptions, survey::Survey};
use crate::{error::Result, files, filesystem, format::BALLAST_BYTES, layout::Layout, store};

/// Bytes that copies leave free.
const RESERVE_BYTES: u64 = 256 << 10;
/// Room for copies below which nothing is copied.
const COPIES_BYTES_MIN: u64 = 16 << 10;

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
        let _ = files::remove_top(&self.layout.ballast());
    }

    /// Bytes that copies may take: the rest is for the journal and the index.
    fn copied_bytes_max(&self) -> u64 {
        filesystem::free_bytes(&self.layout.root).map_or(u64::MAX, |free| free.saturating_sub(RESERVE_BYTES))
    }

    /// As much of a choice as can be copied into the room that there is.
    pub(super) fn fit(&mut self, survey: &Survey<'_>, chosen: &Choice) -> Choice {
        let wanted = survey.copied_bytes(chosen);
        // The copies may be a little longer than they are estimated.
        if wanted == 0 || wanted.saturating_add(wanted / 16) <= self.copied_bytes_max() {
            return chosen.clone();
        }
        self.release();
        survey.choose_within(chosen, self.copied_bytes_max() / 16 * 15)
    }

    /// Less than was tried and did not fit.
    pub(super) fn fit_less(&mut self, survey: &Survey<'_>, chosen: &Choice, tried: &Choice) -> Choice {
        self.release();
        let half = survey.copied_bytes(tried) / 2;
        match half >= COPIES_BYTES_MIN {
            true => survey.choose_within(chosen, half.min(self.copied_bytes_max())),
            false => survey.choose(&GcOptions::no_repack()),
        }
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
