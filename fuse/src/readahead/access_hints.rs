//! Access hints: requests of the kernel, passed on to the threads that read ahead.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
    mpsc::{Receiver, SyncSender, sync_channel},
};

/// Hints that wait for a thread; more are dropped, as they would be too late.
pub const QUEUE_MAX: usize = 64;

/// A request of the kernel that says where a program is.
#[derive(Clone, Copy, Debug)]
pub enum AccessHint {
    /// A file was read from its start.
    Read(u64),
    /// A folder was listed from its start.
    Listed(u64),
}

impl AccessHint {
    /// The inode that was asked for.
    pub fn ino(self) -> u64 {
        let (AccessHint::Read(ino) | AccessHint::Listed(ino)) = self;
        ino
    }
}

/// The lists that a listener does not need for now. Waking a thread for each costs more than most of the lists do.
#[derive(Clone, Default)]
pub struct Unwanted(Arc<(AtomicU64, AtomicU64)>);

impl Unwanted {
    /// From here on, those of inodes of this range; what is still told is not wrong.
    pub fn set(&self, from: u64, until: u64) {
        self.0.0.store(from, Relaxed);
        self.0.1.store(until, Relaxed);
    }

    /// Whether the listener does not need a hint.
    pub fn has(&self, hint: AccessHint) -> bool {
        let AccessHint::Listed(ino) = hint else { return false };
        (self.0.0.load(Relaxed)..self.0.1.load(Relaxed)).contains(&ino)
    }
}

/// The listeners that get the hints.
#[derive(Default)]
pub struct AccessHints(Vec<(SyncSender<AccessHint>, Unwanted)>);

impl AccessHints {
    /// Adds a listener, which gets every hint from now on but those that it does not want.
    pub fn listener(&mut self) -> (Receiver<AccessHint>, Unwanted) {
        let (hints, listener) = sync_channel(QUEUE_MAX);
        let unwanted = Unwanted::default();
        self.0.push((hints, unwanted.clone()));
        (listener, unwanted)
    }

    /// Passes a hint on. Never waits.
    pub fn take(&self, hint: AccessHint) {
        for (listener, _) in self.0.iter().filter(|(_, unwanted)| !unwanted.has(hint)) {
            let _ = listener.try_send(hint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_are_not_wanted_are_not_told_and_reads_always_are() {
        let mut hints = AccessHints::default();
        let ((all, _), (some, unwanted)) = (hints.listener(), hints.listener());
        unwanted.set(10, 20);
        for ino in [5, 10, 19, 20] {
            hints.take(AccessHint::Listed(ino));
            hints.take(AccessHint::Read(ino));
        }
        drop(hints);
        let told = |listener: Receiver<AccessHint>| listener.iter().map(|hint| format!("{hint:?}")).collect::<Vec<_>>();
        assert_eq!(told(all).len(), 8);
        assert_eq!(told(some), ["Listed(5)", "Read(5)", "Read(10)", "Read(19)", "Listed(20)", "Read(20)"]);
    }
}
