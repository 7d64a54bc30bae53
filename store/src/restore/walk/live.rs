//! An open folder of the live tree.

use std::{
    cell::OnceCell,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::io::Errno;

use crate::{
    attributes,
    filesystem::{Filesystem, Filesystems},
    restore::{
        held::{Hold, HoldCause, is_stuck},
        table::Action,
    },
    sys::{self, Stat},
};

/// True if an entry that is no folder has extended attributes that cannot be read: no checkpoint has them, and whatever replaces it has not
/// either. A filesystem, or a sandbox, that does not let them be asked for at all says nothing of them.
fn hides_attributes(folder: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> bool {
    let is_refusal = |errno: &Errno| !matches!(*errno, Errno::NOSYS | Errno::OPNOTSUPP);
    !stat.is_folder() && attributes::of_entry(folder, name).unread.iter().any(|(_, errno)| is_refusal(errno))
}

/// The live names of a folder, taken in step with the checkpoint's.
pub(super) struct Live {
    pub fd: Arc<OwnedFd>,
    pub device: u64,
    /// The number of the mount that it is on; 0 where the kernel does not tell.
    pub mount: u64,
    pub filesystem: Filesystem,
    pub names: Vec<Vec<u8>>,
    pub next: usize,
    inside: OnceCell<Option<HoldCause>>,
}

impl Live {
    /// An open folder, and the names in it in order.
    pub fn new(fd: Arc<OwnedFd>, names: Vec<Vec<u8>>, filesystems: &Filesystems) -> rustix::io::Result<Self> {
        let device = sys::stat_fd(&fd)?.dev;
        let mount = sys::mount_id(fd.as_fd(), b"")?.unwrap_or_default();
        let filesystem = filesystems.of(fd.as_fd(), device);
        Ok(Live { fd, device, mount, filesystem, names, next: 0, inside: OnceCell::new() })
    }

    /// The cause that holds the names in the folder.
    pub fn inside(&self) -> Option<HoldCause> {
        *self.inside.get_or_init(|| HoldCause::inside(self.fd.as_fd()))
    }

    /// The reason for which something cannot be done with an entry.
    pub fn why_held(&self, name: &[u8], stat: Option<&Stat>, action: Option<Action>) -> Option<Hold> {
        let folder = self.fd.as_fd();
        let inside = || self.inside().map(Hold::inside);
        match (action?, stat) {
            (Action::Create, _) => inside(),
            (Action::Meta, Some(stat)) => HoldCause::meta(folder, name, stat, || self.inside()).map(Hold::own),
            (Action::Meta, None) => HoldCause::of(folder, name).map(Hold::own),
            (Action::Replace | Action::Exchange, stat) => {
                let is_stuck = || stat.is_some_and(|stat| is_stuck(folder, stat)).then_some(HoldCause::NotPermitted);
                let own = HoldCause::of(folder, name).map(Hold::own).or_else(inside).or_else(|| is_stuck().map(Hold::own));
                own.or_else(|| {
                    stat.is_some_and(|stat| hides_attributes(folder, name, stat)).then_some(Hold::own(HoldCause::Unlisted))
                })
            }
        }
    }
}
