//! The workers' tasks. The newest is taken first, so that the open part of the tree stays as deep as the tree and no wider.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex, PoisonError, atomic::Ordering},
};

use super::{Folder, Shared, Worker, finish::CacheOut, lock};
use crate::{create::content::Reader, create::sink::Batch, error::Error, progress};

/// A part of the walk that one worker does.
pub(super) enum Task {
    /// Open a folder and look at its entries.
    Enter { folder: Arc<Folder>, parent: Arc<OwnedFd> },
    /// Read some of a folder's files.
    Read { folder: Arc<Folder>, fd: Arc<OwnedFd>, slots: Vec<usize> },
}

/// Tasks that wait, and how many are being done.
#[derive(Default)]
pub(super) struct Queue {
    tasks: Mutex<(Vec<Task>, usize)>,
    changed: Condvar,
}

/// Held while a task is done: one that panics is over, too, or the other workers would wait for it.
struct UnderWay<'s, 'w, 'a>(&'s Shared<'w, 'a>);

impl Drop for UnderWay<'_, '_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stopped.store(true, Ordering::Relaxed);
        }
        self.0.task_done();
    }
}

impl<'a> Shared<'_, 'a> {
    /// What each worker does until no task is left. Returns what it has not handed on to the sink yet.
    pub(super) fn work(&self, out: &CacheOut) -> Option<Batch<'a>> {
        let batch = match Batch::new(self.walk.sink) {
            Ok(batch) => batch,
            Err(e) => {
                self.fail(e);
                return None;
            }
        };
        let mut worker = Worker { batch, reader: Reader::new(self.walk.store, self.walk.progress) };
        while let Some(task) = self.next_task() {
            let folder = match &task {
                Task::Enter { folder, .. } | Task::Read { folder, .. } => folder.clone(),
            };
            let under_way = UnderWay(self);
            let done = progress::check(self.walk.progress).and_then(|()| match task {
                Task::Enter { folder, parent } => self.enter(&folder, &parent, &mut worker),
                Task::Read { folder, fd, slots } => self.read_slots(&folder, &fd, &slots, &mut worker),
            });
            if let Err(e) = done.and_then(|()| self.complete(folder, &mut worker, out)) {
                self.fail(e);
            }
            drop(under_way);
        }
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        // All workers come to this point together, and share the work.
        worker.batch.write_whole_blocks().map_err(|e| self.fail(e)).ok()
    }

    fn next_task(&self) -> Option<Task> {
        let mut tasks = lock(&self.queue.tasks);
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(task) = tasks.0.pop() {
                tasks.1 += 1;
                return Some(task);
            }
            if tasks.1 == 0 {
                return None;
            }
            tasks = self.queue.changed.wait(tasks).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn task_done(&self) {
        let mut tasks = lock(&self.queue.tasks);
        tasks.1 -= 1;
        if tasks.1 == 0 && tasks.0.is_empty() || self.stopped.load(Ordering::Relaxed) {
            self.queue.changed.notify_all();
        }
    }

    pub(super) fn push(&self, new: impl IntoIterator<Item = Task>) {
        let mut tasks = lock(&self.queue.tasks);
        tasks.0.extend(new);
        self.queue.changed.notify_all();
    }

    /// Stops every worker; the first failure is the walk's.
    fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.stopped.store(true, Ordering::Relaxed);
        let _tasks = lock(&self.queue.tasks);
        self.queue.changed.notify_all();
    }
}
