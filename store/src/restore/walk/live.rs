//! An open folder of the live tree.

use std::{
    cell::OnceCell,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use crate::{
    filesystem::{Filesystem, Filesystems},
    restore::{frozen::Frozen, table::Action},
    sys,
};

/// The live names of a folder, taken in step with the checkpoint's.
pub(super) struct Live {
    pub fd: Arc<OwnedFd>,
    pub device: u64,
    pub filesystem: Filesystem,
    pub names: Vec<Vec<u8>>,
    pub next: usize,
    frozen: OnceCell<Option<Frozen>>,
}

impl Live {
    /// An open folder, and the names in it in order.
    pub fn new(fd: Arc<OwnedFd>, names: Vec<Vec<u8>>, filesystems: &Filesystems) -> rustix::io::Result<Self> {
        let device = sys::stat_fd(&fd)?.dev;
        let filesystem = filesystems.of(fd.as_fd(), device);
        Ok(Live { fd, device, filesystem, names, next: 0, frozen: OnceCell::new() })
    }

    /// The flag that holds what is in the folder.
    pub fn frozen(&self) -> Option<Frozen> {
        *self.frozen.get_or_init(|| Frozen::of(self.fd.as_fd(), b""))
    }

    /// The reason for which something cannot be done with an entry.
    pub fn why_frozen(&self, name: &[u8], action: Option<Action>) -> Option<&'static str> {
        let own = || Frozen::of(self.fd.as_fd(), name).map(Frozen::reason);
        let inside = || self.frozen().map(Frozen::reason_inside);
        match action? {
            Action::Meta => own(),
            Action::Create => inside(),
            Action::Replace | Action::Exchange => own().or_else(inside),
        }
    }
}
