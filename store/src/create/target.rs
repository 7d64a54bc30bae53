//! The folder to capture.

use parhelia_name::step::Step;
use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};

use crate::{
    error::{Error, IoContext, Result},
    mounts,
    store::Store,
    sys,
    view::View,
};

/// The folder to capture, open.
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) fd: OwnedFd,
    device: u64,
    /// Folders that the walk must not enter, as device and inode numbers: the store.
    pub(super) forbidden: Vec<(u64, u64)>,
}

impl Target {
    pub(super) fn open(store: &Store, workspace: &Path) -> Result<Self> {
        let path = fs::canonicalize(workspace).at("open workspace", workspace)?;
        let store_path = fs::canonicalize(store.path()).at("open store", store.path())?;
        if path.starts_with(&store_path) {
            return Err(Error::Invalid(format!(
                "the workspace {} is the store, or inside it; choose another folder",
                workspace.display()
            )));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty()).at("open workspace", workspace)?;
        let store_fd = rustix::fs::open(&store_path, flags, Mode::empty()).at("open store", &store_path)?;
        let stat = sys::stat_fd(&store_fd).at("open store", &store_path)?;
        let own = sys::stat_fd(&fd).at("open workspace", workspace)?;
        Ok(Target { path, fd, device: own.dev, forbidden: vec![(stat.dev, stat.ino)] })
    }

    /// Fails where a session's workspace is hidden by a mounted checkpoint, which would become the session's next one. A session that
    /// has no workspace yet may have that one.
    pub(super) fn check(&self, view: &View, session: &str) -> Result<()> {
        if !view.standing(session)?.has_folder || !mounts::is_ours(self.device) {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::Refused(format!(
            "{path} shows a mounted checkpoint, which is not what session {session} works on; unmount it with {}, \
             or give a checkpoint of what it shows a session of its own",
            Step::Unmount
        )))
    }
}
