//! Observers for a time in which the agent has the terminal, and for one in which the start can be called off.

use std::sync::atomic::{AtomicBool, Ordering};

use parhelia_store::{
    id::Ulid,
    progress::{Phase, Progress},
};

use parhelia_host::{Error, Observer, notice::Notice};

/// Passes on warnings alone.
pub(super) struct Quiet<'a>(pub &'a dyn Observer);

impl Progress for Quiet<'_> {}

impl Observer for Quiet<'_> {
    fn warn(&self, notice: &Notice) {
        self.0.warn(notice);
    }

    fn explain(&self, error: &Error) -> String {
        self.0.explain(error)
    }

    fn thinned(&self, session: &str, removed: &[(Ulid, &'static str)]) {
        self.0.thinned(session, removed);
    }
}

/// Passes on everything, and can be told to stop.
pub(super) struct Cancellable<'a> {
    observer: &'a dyn Observer,
    is_cancelled: AtomicBool,
}

impl<'a> Cancellable<'a> {
    /// An observer that is not cancelled yet.
    pub fn new(observer: &'a dyn Observer) -> Self {
        Cancellable { observer, is_cancelled: AtomicBool::new(false) }
    }

    /// Has the work stop as soon as it is safe.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl Progress for Cancellable<'_> {
    fn phase(&self, phase: Phase, files_total: Option<u64>, bytes_total: Option<u64>) {
        self.observer.phase(phase, files_total, bytes_total);
    }

    fn advance(&self, files: u64, bytes: u64) {
        self.observer.advance(files, bytes);
    }

    fn notice(&self, text: &str) {
        self.observer.notice(text);
    }

    fn warning(&self, text: &str) {
        self.observer.warning(text);
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed) || self.observer.is_cancelled()
    }
}

impl Observer for Cancellable<'_> {
    fn warn(&self, notice: &Notice) {
        self.observer.warn(notice);
    }

    fn explain(&self, error: &Error) -> String {
        self.observer.explain(error)
    }

    fn leave_terminal(&self) {
        self.observer.leave_terminal();
    }

    fn thinned(&self, session: &str, removed: &[(Ulid, &'static str)]) {
        self.observer.thinned(session, removed);
    }
}
