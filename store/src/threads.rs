//! Helping threads. The system may refuse one, as in a container that may have only so many: then whoever asked does without.

use std::{
    io,
    panic::resume_unwind,
    path::Path,
    sync::{Mutex, PoisonError},
    thread::{self, Builder, JoinHandle, Scope, ScopedJoinHandle},
    time::Duration,
};

/// Looks at a thread that has ended until the system no longer counts it: so often without and with a pause of a millisecond.
const EXIT_LOOKS_MAX: u32 = 200;
const EXIT_MS_MAX: u32 = 100;

/// A thread beside this one, if there is one to be had.
pub fn beside<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    #[cfg(test)]
    if tests::NONE_LEFT.get() {
        return None;
    }
    Builder::new().spawn_scoped(scope, work).ok()
}

/// A thread that outlives the caller, if there is one to be had.
pub fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<JoinHandle<T>> {
    #[cfg(test)]
    if tests::NONE_LEFT.get() {
        return None;
    }
    Builder::new().spawn(work).ok()
}

/// Fails unless so many threads can be started. For a library that ends the whole process where it cannot start its own.
pub fn ensure(number: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    let started = thread::scope(|scope| {
        // All are there at once, until the last was started.
        let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = || {
            drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
            rustix::thread::gettid()
        };
        let started: Vec<_> = (0..number).map(|_| Builder::new().spawn_scoped(scope, wait)).collect::<io::Result<_>>()?;
        drop(closed);
        Ok(started.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>())
    });
    // The system counts a thread for a moment after it was waited for.
    for thread in started.as_deref().unwrap_or_default() {
        let place = format!("/proc/self/task/{thread}");
        let mut looks = 0;
        while looks < EXIT_LOOKS_MAX + EXIT_MS_MAX && Path::new(&place).exists() {
            match looks < EXIT_LOOKS_MAX {
                true => thread::yield_now(),
                false => thread::sleep(Duration::from_millis(1)),
            }
            looks += 1;
        }
    }
    started.map(drop)
}

/// Does the same on this thread and on up to `others` more, as many as there are to be had, and gives what each came to. A panic in one
/// goes on here when all are over.
pub fn together<T: Send>(others: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let others: Vec<_> = (0..others).map_while(|_| beside(scope, &work)).collect();
        let mine = work();
        let joined = others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(mine).chain(joined).collect()
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        cell::Cell,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    thread_local! {
        /// True if this thread is refused any other.
        pub(super) static NONE_LEFT: Cell<bool> = const { Cell::new(false) };
    }

    /// Does something on this thread alone.
    pub(crate) fn alone<T>(work: impl FnOnce() -> T) -> T {
        NONE_LEFT.set(true);
        let done = work();
        NONE_LEFT.set(false);
        done
    }

    #[test]
    fn work_is_done_by_as_many_as_there_are() {
        let (started, left) = (AtomicUsize::new(0), AtomicUsize::new(100));
        let work = || {
            started.fetch_add(1, Ordering::Relaxed);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {}
        };
        assert_eq!((together(3, work).len(), started.load(Ordering::Relaxed)), (4, 4));
        left.store(100, Ordering::Relaxed);
        assert_eq!(alone(|| together(3, work)).len(), 1);
        assert_eq!((started.load(Ordering::Relaxed), left.load(Ordering::Relaxed)), (5, 0));
    }
}
