//! Progress that does something as an operation begins.

use std::sync::Mutex;

use crate::progress::{Phase, Progress};

/// Runs something once, when a look at the store begins: behind the view that was opened for it.
pub struct AtBegin<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send> AtBegin<F> {
    pub fn new(work: F) -> Self {
        AtBegin(Mutex::new(Some(work)))
    }

    pub fn is_done(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }
}

impl<F: FnOnce() + Send> Progress for AtBegin<F> {
    fn phase(&self, _: Phase, _: Option<u64>, _: Option<u64>) {
        if let Some(work) = self.0.lock().unwrap().take() {
            work();
        }
    }
}
