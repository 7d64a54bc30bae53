//! The folder in which a restore builds.

#![expect(clippy::disallowed_methods, reason = "makes folders of the user's above the target of a restore")]

use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::{
    error::{Error, Result, TargetContext},
    name,
    restore::{
        building,
        meta::{self, Current},
        plan::Plan,
        remove::remove,
        select::ProtectedEntries,
        staged,
        target::Target,
    },
    store::Store,
    sys,
};

/// Folder in which entries are built before they get their names.
pub struct StagingFolder {
    /// The target, or the staging folder that becomes it.
    pub root: Arc<OwnedFd>,
    /// The folder that the staging folder is in, and its name there.
    pub beside: Option<(OwnedFd, Vec<u8>)>,
    /// Metadata of a file that was made with all permissions in the staging folder.
    pub created: Option<Current>,
}

impl StagingFolder {
    /// Makes the staging folder, if the target is a new folder. Who fails says whether nothing was left.
    pub fn open(store: &Store, plan: &Plan) -> Result<Self, (Error, bool)> {
        let Some(root) = &plan.root else { return Self::make(plan) };
        let clean = |e: Error| (e, true);
        if !staged::hold(root.as_fd()).at_target("lock", plan.target()).map_err(clean)? {
            return Err(clean(Error::TargetBusy { path: plan.target() }));
        }
        if plan.replaces() {
            staged::check_alone(store.layout(), plan.op, &plan.target()).map_err(clean)?;
        }
        Ok(StagingFolder { root: root.clone(), beside: None, created: None })
    }

    pub(super) fn make(plan: &Plan) -> Result<Self, (Error, bool)> {
        let staged = building::folder_name(plan.op, plan.target.name());
        let (above, path) = make_beside(plan, &staged).map_err(|e| (e, true))?;
        let set_up = || -> Result<_> {
            let opened = sys::open_folder_at(above.as_fd(), &staged).at_target("open folder", &path)?;
            staged::hold(opened.as_fd()).at_target("lock", &path)?;
            meta::make_private(opened.as_fd()).at_target("change mode of", &path)?;
            let created = probe(&opened).at_target("write to", &path)?;
            Ok((opened, created))
        };
        match set_up() {
            Ok((opened, created)) => {
                Ok(StagingFolder { root: Arc::new(opened), beside: Some((above, staged)), created: Some(created) })
            }
            Err(e) => Err((e, !remove(above.as_fd(), &staged, b"", &ProtectedEntries::default()).kept)),
        }
    }

    /// Removes the staging folder with all that is in it. False where something of it is left.
    pub fn remove(&self) -> bool {
        let Some((above, name)) = &self.beside else { return true };
        !remove(above.as_fd(), name, b"", &ProtectedEntries::default()).kept
    }
}

/// Makes the folder in which a new one is built, and opens the one that it is in.
fn make_beside(plan: &Plan, staged: &[u8]) -> Result<(OwnedFd, PathBuf)> {
    let Target::Fresh { parent, .. } = &plan.target else { return Err(Error::Invalid("the target is not open".into())) };
    fs::create_dir_all(parent).at_target("create folder", parent)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::open(parent, flags, Mode::empty()).at_target("open folder", parent)?;
    let path = parent.join(name::as_path(staged));
    rustix::fs::mkdirat(&above, staged, Mode::RWXU).at_target("create folder", &path)?;
    Ok((above, path))
}

/// Learns by a file what the process's umask and owner make of one.
fn probe(folder: &OwnedFd) -> rustix::io::Result<Current> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, "probe", flags, Mode::from_raw_mode(0o777))?;
    let stat = sys::stat_fd(&file)?;
    rustix::fs::unlinkat(folder, "probe", AtFlags::empty())?;
    Ok(Current { mode: stat.mode & 0o777, uid: stat.uid, gid: stat.gid, xattrs: Vec::new() })
}
