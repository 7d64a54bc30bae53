//! Warnings of workflows, as a part of their answer.

use std::sync::{Mutex, PoisonError};

use parhelia_host::{Observer, notice::Notice};
use parhelia_store::progress::Progress;

/// An observer that keeps what the user should hear of.
#[derive(Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Everything that was said.
    pub fn said(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Warnings {
    fn warning(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }
}

impl Observer for Warnings {
    fn warn(&self, notice: &Notice) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(notice.to_string());
    }
}
