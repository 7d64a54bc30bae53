//! A mount that this process serves: waiting for its end, and ending it.

use parhelia_store::name::NameExt as _;
use std::{
    io::{self, PipeWriter},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::Duration,
};

use parhelia_store::Store;

use crate::{
    counts::{Counters, Counts},
    error::{Error, Result},
    kernel::Log,
    mount::{
        guard::Guard,
        identity::{Identity, is_disconnected},
        registry::Registration,
        unmount::{detach_if, unmount},
    },
};

/// The time that a session may take to end once it is unmounted.
const END_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) enum Event {
    Ended(io::Result<()>),
    Stop,
}

/// Asks a mount to end, from wherever: a signal handler's thread, for one.
#[derive(Clone, Debug)]
pub struct Stopper(pub(super) Sender<Event>);

impl Stopper {
    /// Makes [`MountHandle::wait`] unmount and return.
    pub fn stop(&self) {
        // Where nobody receives, it has ended already.
        let _ = self.0.send(Event::Stop);
    }
}

/// A mount that this process serves. Dropping it unmounts.
pub struct MountHandle {
    pub(super) mountpoint: PathBuf,
    pub(super) identity: Identity,
    pub(super) events: Receiver<Event>,
    pub(super) stopper: Stopper,
    pub(super) counters: Arc<Counters>,
    pub(super) store: Arc<Store>,
    pub(super) log: Log,
    pub(super) has_ended: bool,
    pub(super) _keeper: PipeWriter,
    pub(super) guard: Option<Guard>,
    pub(super) registration: Option<Registration>,
}

impl std::fmt::Debug for MountHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mounted({})", self.mountpoint.shown())
    }
}

impl MountHandle {
    /// Path on which it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The means to end [`MountHandle::wait`].
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Counts of the kernel's requests so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// A summary for the log.
    fn account(&self) -> String {
        format!("unmounted after {}; {} blocks decoded", self.counts(), self.store.decoded_blocks())
    }

    /// Serves until somebody unmounts, or asks the [`Stopper`] to. A mount that is in use when it is asked is detached: it is gone
    /// for everybody who looks from then on, and those who use it get errors.
    pub fn wait(mut self) -> Result<()> {
        let ended = self.await_event();
        (self.log)(&self.account());
        ended
    }

    fn await_event(&mut self) -> Result<()> {
        match self.events.recv() {
            Ok(Event::Ended(result)) => self.ended(result),
            Ok(Event::Stop) | Err(_) => match self.unmount() {
                Err(Error::Busy { .. }) => {
                    detach_if(&self.mountpoint, |_, found| found == self.identity)?;
                    self.has_ended = true;
                    Ok(())
                }
                other => other,
            },
        }
    }

    /// Unmounts. Where somebody uses the mount, says who, and leaves it.
    pub fn unmount(&mut self) -> Result<()> {
        if self.has_ended || !self.is_mounted() {
            return Ok(());
        }
        match unmount(&self.mountpoint) {
            // Somebody else was faster.
            Ok(()) | Err(Error::NotMounted { .. }) => {}
            Err(e) => return Err(e),
        }
        match self.await_end() {
            Some(result) => self.ended(result),
            None => Ok(()),
        }
    }

    fn ended(&mut self, result: io::Result<()>) -> Result<()> {
        self.has_ended = true;
        // A session ends because it was unmounted, or because its connection was cut, which leaves a mount that does not answer. Where the
        // kernel uses its numbers again, one that answers came later.
        let is_left = |root: &_, found| found == self.identity && (result.is_err() || is_disconnected(root));
        let _ = detach_if(&self.mountpoint, is_left);
        result.map_err(|source| Error::Io { action: "serve", path: self.mountpoint.clone(), source })
    }

    fn await_end(&self) -> Option<io::Result<()>> {
        loop {
            match self.events.recv_timeout(END_TIMEOUT) {
                Ok(Event::Ended(result)) => return Some(result),
                Ok(Event::Stop) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// True if this mount is mounted there, and not one that came after it.
    fn is_mounted(&self) -> bool {
        Identity::at(&self.mountpoint).is_ok_and(|now| now == self.identity)
    }
}

impl Drop for MountHandle {
    fn drop(&mut self) {
        if !self.has_ended && self.is_mounted() && unmount(&self.mountpoint).is_err() {
            let _ = detach_if(&self.mountpoint, |_, found| found == self.identity);
        } else if !self.has_ended {
            let _ = self.await_end();
        }
        // Before the registration goes, so that nobody finds a mount that nobody guards.
        drop(self.guard.take());
    }
}
