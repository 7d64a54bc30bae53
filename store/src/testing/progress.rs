//! Progress for tests: one does something as an operation begins, one keeps what it is told.

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

/// Keeps the notices that it is given.
#[derive(Default)]
pub struct Notices(pub Mutex<Vec<String>>);

impl Progress for Notices {
    fn notice(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}
