//! Notices of plans that are made several times.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use parhelia_store::{
    Store,
    progress::{Phase, Progress},
    record::Checkpoint,
    restore::{self, Options, Plan},
};

use parhelia_host::{Observer, Result, notice::Notice};

/// The notices of a plan, each of which is given once, however often the plan is made.
#[derive(Default)]
pub(super) struct NoticeFilter(Mutex<BTreeSet<String>>);

struct FilteredProgress<'o> {
    observer: &'o dyn Observer,
    said: &'o NoticeFilter,
}

impl NoticeFilter {
    /// Plans a restore; the observer gets no notice a second time.
    pub fn plan(&self, store: &Store, checkpoint: &Checkpoint, options: &Options, observer: &dyn Observer) -> Result<Plan> {
        let planned = restore::plan(store, checkpoint, options, &FilteredProgress { observer, said: self });
        Ok(planned.inspect_err(|e| {
            if e.is_damage() {
                observer.warn(&Notice::RestoreMetDamage { checkpoint: checkpoint.record.id });
            }
        })?)
    }
}

impl Progress for FilteredProgress<'_> {
    fn phase(&self, phase: Phase, files_total: Option<u64>, bytes_total: Option<u64>) {
        self.observer.phase(phase, files_total, bytes_total);
    }

    fn advance(&self, files: u64, bytes: u64) {
        self.observer.advance(files, bytes);
    }

    fn notice(&self, text: &str) {
        if self.said.0.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned()) {
            self.observer.notice(text);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.observer.is_cancelled()
    }
}
