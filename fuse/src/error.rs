//! The one error type of this crate.

use parhelia_store::name::{NameExt as _, step::Step};
use std::{fmt, io, path::PathBuf};

/// A failure of mounting or unmounting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] parhelia_store::Error),
    /// A mountpoint that cannot be one.
    #[error("cannot mount on {}: {reason}", mountpoint.shown())]
    Mountpoint {
        /// Path on which it was to be mounted.
        mountpoint: PathBuf,
        /// The cause, and the next step.
        reason: String,
    },
    /// This machine, or this user, has no FUSE.
    #[error("cannot use /dev/fuse: {source}; {hint}")]
    NoFuse {
        /// The error of opening it.
        source: io::Error,
        /// The next step.
        hint: &'static str,
    },
    /// The system refused the mount.
    #[error("cannot mount on {}: {source}{hint}", mountpoint.shown())]
    Refused {
        /// Path on which it was to be mounted.
        mountpoint: PathBuf,
        /// The system's answer, or fusermount3's.
        source: io::Error,
        /// The next step; begins with a semicolon where there is one.
        hint: String,
    },
    /// Somebody uses the mount.
    #[error("cannot unmount {}: {}", mountpoint.shown(), busy(holders, inside))]
    Busy {
        /// Path of the mount that is in use.
        mountpoint: PathBuf,
        /// The processes that use it; those of other users may be missing.
        holders: Vec<Holder>,
        /// The mounts inside it.
        inside: Vec<PathBuf>,
    },
    /// Nothing of ours is mounted there.
    #[error("{} is no parhelia mount; {} lists them", mountpoint.shown(), Step::Mounts)]
    NotMounted {
        /// The path.
        mountpoint: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.shown())]
    Io {
        /// The action, as an infinitive.
        action: &'static str,
        /// The path that it failed on.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// A process that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id, as `/proc` has it.
    pub process: u32,
    /// Name of the process, as the kernel has it.
    pub name: String,
    /// The path in the mount that it uses.
    pub path: PathBuf,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {}) uses {}", self.name, self.process, self.path.shown())
    }
}

fn busy(holders: &[Holder], inside: &[PathBuf]) -> String {
    /// The number that is named.
    const NAMED: usize = 5;
    let listed = |all: Vec<String>| match all.len().saturating_sub(NAMED) {
        0 => all.join(", "),
        more => format!("{}, and {more} more", all[..NAMED].join(", ")),
    };
    if !inside.is_empty() {
        let inside = listed(inside.iter().map(|path| path.shown()).collect());
        return format!("there are mounts inside it: {inside}; unmount those first");
    }
    if !holders.is_empty() {
        let holders = listed(holders.iter().map(Holder::to_string).collect());
        return format!("{holders}; end that, or leave the folder, and try again");
    }
    if rustix::process::geteuid().is_root() {
        return "it is in use, perhaps in another container or mount namespace; end that and try again, or take it out of sight \
                with `umount --lazy`"
            .to_owned();
    }
    "it is in use, perhaps by another user, whose processes only root sees; try again as root".to_owned()
}

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
