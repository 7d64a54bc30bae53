//! Helping threads. The system may refuse one, as in a container that may have only so many: then the caller does the work itself.

use std::thread::{self, Builder, Scope, ScopedJoinHandle};

/// The result of another thread, or of this one where there was no other.
#[derive(Debug)]
pub enum Later<'scope, T> {
    /// It is being done.
    Beside(ScopedJoinHandle<'scope, T>),
    /// It was done here.
    Done(T),
}

impl<T> Later<'_, T> {
    /// Waits for it. A panic in the other thread is an error.
    pub fn join(self) -> thread::Result<T> {
        match self {
            Later::Beside(thread) => thread.join(),
            Later::Done(done) => Ok(done),
        }
    }
}

/// Does something on another thread, or else here and now.
pub fn beside_or_here<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl Fn() -> T + Copy + Send + 'scope,
) -> Later<'scope, T> {
    Builder::new().spawn_scoped(scope, work).map_or_else(|_| Later::Done(work()), Later::Beside)
}
