//! Work on several threads: jobs that grow more jobs, and a list of jobs taken in order.

use std::sync::{
    Condvar, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::{error::Result, threads};

struct Stack<J> {
    jobs: Vec<J>,
    running: usize,
    outcome: Result<()>,
    /// Whether a job has panicked.
    is_broken: bool,
}

/// Held while a job is being done: one that panics is over, too, or the other threads would wait for it.
struct Running<'a, J> {
    stack: &'a Mutex<Stack<J>>,
    changed: &'a Condvar,
}

impl<J> Drop for Running<'_, J> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut stack = self.stack.lock().unwrap_or_else(PoisonError::into_inner);
            stack.running -= 1;
            stack.is_broken = true;
            stack.jobs.clear();
            self.changed.notify_all();
        }
    }
}

/// Does every job, and every job that `work` adds; the newest first. The first failure ends it.
pub fn spread<J: Send>(number: usize, first: Vec<J>, work: impl Fn(J, &mut Vec<J>) -> Result<()> + Sync) -> Result<()> {
    let stack = Mutex::new(Stack { jobs: first, running: 0, outcome: Ok(()), is_broken: false });
    let changed = Condvar::new();
    let run = || {
        let mut more = Vec::new();
        let mut guard = stack.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(job) = guard.jobs.pop() else {
                if guard.running == 0 {
                    changed.notify_all();
                    return;
                }
                guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            guard.running += 1;
            drop(guard);
            let running = Running { stack: &stack, changed: &changed };
            let done = work(job, &mut more);
            drop(running);
            guard = stack.lock().unwrap_or_else(PoisonError::into_inner);
            guard.running -= 1;
            match done {
                Ok(()) => guard.jobs.extend(more.drain(..).rev()),
                Err(e) => {
                    guard.jobs.clear();
                    if guard.outcome.is_ok() {
                        guard.outcome = Err(e);
                    }
                }
            }
            if guard.outcome.is_err() || guard.is_broken {
                guard.jobs.clear();
            }
            if guard.jobs.len() > 1 || guard.jobs.is_empty() {
                changed.notify_all();
            }
        }
    };
    threads::together(number.saturating_sub(1), run);
    stack.into_inner().unwrap_or_else(PoisonError::into_inner).outcome
}

/// Does the jobs `0..count` in about this order. Each thread has a state of its own, all of which are returned.
pub fn in_order<S: Default + Send>(
    number: usize,
    count: usize,
    work: impl Fn(usize, &mut S) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || -> Result<S> {
        let mut state = S::default();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= count || failed.load(Ordering::Relaxed) {
                return Ok(state);
            }
            work(job, &mut state).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
    };
    threads::together(number.min(count).saturating_sub(1), run).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_job_that_panics_ends_the_others() {
        for threads in [1, 2, 8] {
            let work = |job: u32, more: &mut Vec<u32>| {
                assert!(job != 20, "on purpose");
                more.extend([job + 1, 100]);
                Ok(())
            };
            let done = catch_unwind(AssertUnwindSafe(|| spread(threads, vec![0], work)));
            assert!(done.is_err(), "{threads}");
        }
    }
}
