//! A face without async: the runtime is inside.

use std::time::Duration;

use crate::error::{Error, Result};

/// So often it is looked whether somebody asks to stop.
const LOOK: Duration = Duration::from_millis(100);

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

    /// The same, until somebody asks to stop; none then. What is given up may have taken effect.
    pub fn wait_unless<T>(&self, is_over: &dyn Fn() -> bool, work: impl Future<Output = T>) -> Option<T> {
        let stop = async {
            while !is_over() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let race = async {
            let (work, stop) = (std::pin::pin!(work), std::pin::pin!(stop));
            match futures_util::future::select(work, stop).await {
                futures_util::future::Either::Left((done, _)) => Some(done),
                futures_util::future::Either::Right(_) => None,
            }
        };
        self.0.block_on(race)
    }
}
