//! A face without async: the runtime is inside.

use crate::error::{Error, Result};

/// A runtime for callers that have none. Requests go on while [`Runtime::wait`] waits, and at no other time.
#[derive(Debug)]
pub struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// A runtime on the caller's thread.
    pub fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map(Runtime).map_err(|e| Error::State(format!("cannot start a runtime: {e}")))
    }

    /// Waits for what a bucket does. Must not be called from within a runtime.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.0.block_on(work)
    }
}
