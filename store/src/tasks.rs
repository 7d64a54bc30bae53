//! Work on several threads: tasks that add tasks, and a list of tasks taken in order.

use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::{
    error::{Error, Result},
    threads,
};

/// Tasks that wait. The newest is taken first, so that of a tree no more is open at once than its depth.
pub struct Tasks<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    is_stopped: AtomicBool,
}

struct State<T> {
    waiting: Vec<T>,
    running: usize,
    failure: Option<Error>,
}

/// Held while a task is done: one that panics is over, too, or the other threads would wait for it.
struct UnderWay<'t, T>(&'t Tasks<T>);

impl<T> Drop for UnderWay<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_stopped.store(true, Ordering::Relaxed);
        }
        let mut state = self.0.lock();
        state.running -= 1;
        if state.running == 0 && state.waiting.is_empty() || self.0.is_stopped() {
            self.0.changed.notify_all();
        }
    }
}

impl<T> Tasks<T> {
    /// A list with these tasks; the last one is taken first.
    pub fn new(first: Vec<T>) -> Self {
        Tasks {
            state: Mutex::new(State { waiting: first, running: 0, failure: None }),
            changed: Condvar::new(),
            is_stopped: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds tasks; the last one is taken first.
    pub fn add(&self, tasks: impl IntoIterator<Item = T>) {
        self.lock().waiting.extend(tasks);
        self.changed.notify_all();
    }

    /// True if a task has failed, so that the others are done for nothing.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Stops every thread. The first failure counts.
    fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        self.is_stopped.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn next(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(task) = state.waiting.pop() {
                state.running += 1;
                return Some(task);
            }
            if state.running == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T: Send> Tasks<T> {
    /// Does every task on up to `number` threads, and those that are added meanwhile. Each thread has a worker, made by `begin`; when no task is
    /// left, all threads come to `end`, and what that returns is returned. The first failure ends it.
    pub fn run<W, R: Send>(
        &self,
        number: usize,
        begin: impl Fn() -> Result<W> + Sync,
        work: impl Fn(&mut W, T) -> Result<()> + Sync,
        end: impl Fn(W) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let worked = || {
            let mut worker = begin()?;
            while let Some(task) = self.next() {
                let under_way = UnderWay(self);
                if let Err(error) = work(&mut worker, task) {
                    self.fail(error);
                }
                drop(under_way);
            }
            if self.is_stopped() { Ok(None) } else { end(worker).map(Some) }
        };
        let run = || {
            worked().unwrap_or_else(|error| {
                self.fail(error);
                None
            })
        };
        let ended = threads::together(number.saturating_sub(1), run);
        match self.lock().failure.take() {
            Some(error) => Err(error),
            None => Ok(ended.into_iter().flatten().collect()),
        }
    }

    /// As [`Tasks::run`], with workers that have nothing of their own.
    pub fn each(&self, number: usize, work: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
        self.run(number, || Ok(()), |(), task| work(task), Ok).map(drop)
    }
}

/// Does the tasks `0..count` in about this order. Each thread has a state of its own, all of which are returned.
pub fn in_order<S: Default + Send>(
    number: usize,
    count: usize,
    work: impl Fn(usize, &mut S) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || -> Result<S> {
        let mut state = S::default();
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= count || failed.load(Ordering::Relaxed) {
                return Ok(state);
            }
            work(task, &mut state).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
    };
    threads::together(number.min(count).saturating_sub(1), run).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn invalid<T>(reason: &str) -> Result<T> {
        Err(Error::Invalid(reason.into()))
    }

    #[test]
    fn every_task_is_done_once_and_every_worker_ends() {
        for number in [1, 2, 8] {
            let tasks = Tasks::new(vec![1u32]);
            let work = |sum: &mut u32, task: u32| {
                *sum += 1;
                tasks.add([2 * task, 2 * task + 1].into_iter().filter(|task| *task < 1000));
                Ok(())
            };
            let sums = tasks.run(number, || Ok(0), work, Ok).unwrap();
            assert_eq!((sums.len(), sums.iter().sum::<u32>()), (number, 999));
        }
    }

    #[test]
    fn the_newest_task_is_taken_first() {
        let order = Mutex::new(Vec::new());
        let tasks = Tasks::new(vec![1, 2]);
        let work = |task| {
            order.lock().unwrap().push(task);
            tasks.add((task == 2).then_some([20, 10]).into_iter().flatten());
            Ok(())
        };
        tasks.each(1, work).unwrap();
        assert_eq!(order.into_inner().unwrap(), [2, 10, 20, 1]);
    }

    #[test]
    fn the_first_failure_ends_it_and_nobody_ends_in_order() {
        let ended = AtomicUsize::new(0);
        let end = |()| {
            ended.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let tasks = Tasks::new(vec![3, 2, 1]);
        let work = |(): &mut (), task: u32| if task == 2 { invalid("two") } else { Ok(()) };
        assert_eq!(tasks.run(1, || Ok(()), work, end).unwrap_err().to_string(), "two");
        assert!(tasks.is_stopped());
        assert_eq!((ended.load(Ordering::Relaxed), tasks.lock().waiting.len()), (0, 1));
        for number in [1, 4] {
            assert!(Tasks::new(vec![1]).run(number, || invalid("begin"), |(): &mut (), _| Ok(()), end).is_err());
            assert!(Tasks::new(vec![1]).run(number, || Ok(()), |(), _| Ok(()), |()| invalid::<()>("end")).is_err());
        }
    }

    #[test]
    fn a_task_that_panics_ends_the_others() {
        for number in [1, 2, 8] {
            let tasks = Tasks::new(vec![0u32]);
            let work = |task| {
                assert!(task != 20, "on purpose");
                tasks.add([100, task + 1]);
                Ok(())
            };
            assert!(catch_unwind(AssertUnwindSafe(|| tasks.each(number, work))).is_err(), "{number}");
        }
    }
}
