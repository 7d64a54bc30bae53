//! An open folder of the live tree.

use std::{
    cell::OnceCell,
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use crate::{
    filesystem::{Filesystem, Filesystems},
    restore::{
        held::{Held, Hold, is_stuck},
        table::Action,
    },
    sys::{self, Stat},
};

/// The live names of a folder, taken in step with the checkpoint's.
pub(super) struct Live {
    pub fd: Arc<OwnedFd>,
    pub device: u64,
    /// The number of the mount that it is on; 0 where the kernel does not tell.
    pub mount: u64,
    pub filesystem: Filesystem,
    pub names: Vec<Vec<u8>>,
    pub next: usize,
    inside: OnceCell<Option<Held>>,
}

impl Live {
    /// An open folder, and the names in it in order.
    pub fn new(fd: Arc<OwnedFd>, names: Vec<Vec<u8>>, filesystems: &Filesystems) -> rustix::io::Result<Self> {
        let device = sys::stat_fd(&fd)?.dev;
        let mount = sys::mount_id(fd.as_fd(), b"").unwrap_or_default();
        let filesystem = filesystems.of(fd.as_fd(), device);
        Ok(Live { fd, device, mount, filesystem, names, next: 0, inside: OnceCell::new() })
    }

    /// The cause that holds the names in the folder.
    pub fn inside(&self) -> Option<Held> {
        *self.inside.get_or_init(|| Held::inside(self.fd.as_fd()))
    }

    /// The reason for which something cannot be done with an entry.
    pub fn why_held(&self, name: &[u8], stat: Option<&Stat>, action: Option<Action>) -> Option<Hold> {
        let folder = self.fd.as_fd();
        let inside = || self.inside().map(Hold::inside);
        match (action?, stat) {
            (Action::Create, _) => inside(),
            (Action::Meta, Some(stat)) => Held::meta(folder, name, stat, || self.inside()).map(Hold::own),
            (Action::Meta, None) => Held::of(folder, name).map(Hold::own),
            (Action::Replace | Action::Exchange, stat) => {
                let is_stuck = || stat.is_some_and(|stat| is_stuck(folder, stat)).then_some(Held::NotPermitted);
                Held::of(folder, name).map(Hold::own).or_else(inside).or_else(|| is_stuck().map(Hold::own))
            }
        }
    }
}
