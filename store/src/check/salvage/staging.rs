//! The folder in which a salvaged store is made, before it has its name.

#![expect(clippy::disallowed_methods, reason = "makes and moves whole stores of its own")]

use parhelia_name::step::Step;
use std::{
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock};

use crate::{
    disk,
    error::{Error, IoContext, Result},
    files,
    id::{OpId, PackId},
    layout::Layout,
};

/// A store without a name. Its folder goes where it does not get one.
pub(super) struct StagedStore {
    layout: Layout,
    is_published: bool,
    /// Its folder `packs`, locked while its process lives. What a store locks of itself is another folder.
    _lock: OwnedFd,
}

impl StagedStore {
    /// Makes a folder beside where the store is to be. Fails where something is in its place, and removes what a salvage to there left whose
    /// process is dead.
    pub(super) fn make(to: &Path, from: &Layout) -> Result<Self> {
        check_free(to)?;
        let (above, name) = split(to)?;
        disk::make_folder_durable(&above)?;
        let begins = format!(".{name}.salvage-");
        remove_leftovers(&above, &begins);
        let root = above.join(format!("{begins}{}", OpId::generate()));
        disk::make_folder(&root)?;
        let layout = Layout { root, has_parity: false, ..from.clone() };
        let packs = layout.packs();
        disk::make_folder(&packs)?;
        let folder: OwnedFd = File::open(&packs).at("open folder", &packs)?.into();
        flock(&folder, FlockOperation::NonBlockingLockExclusive).at("lock", &packs)?;
        let staging = StagedStore { layout, is_published: false, _lock: folder };
        for folder in staging.layout.folders() {
            files::make_folder(&folder).at("create folder", &folder)?;
        }
        Ok(staging)
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(super) fn remove_pack(&self, id: PackId) -> Result<()> {
        files::remove(&self.layout.pack(id)).at("remove", self.layout.pack(id))
    }

    /// Removes journal and index, and all that is derived. The packs stay, and the settings.
    pub(super) fn clear(&self) -> Result<()> {
        let layout = &self.layout;
        let segments = files::list(&layout.journal()).at("read folder", layout.journal())?;
        for path in segments.iter().filter(|path| !path.ends_with("store.json")) {
            files::remove(path).at("remove", path)?;
        }
        for folder in [layout.view(), layout.cache()] {
            files::remove_all(&layout.root, &folder).at("remove folder", &folder)?;
            files::make_folder(&folder).at("create folder", &folder)?;
        }
        Ok(())
    }

    /// Gives the store its name, unless something has that by now.
    pub(super) fn publish(mut self, to: &Path) -> Result<()> {
        let root = &self.layout.root;
        for folder in self.layout.folders() {
            disk::sync_folder(&folder)?;
        }
        disk::sync_folder(root)?;
        match rustix::fs::renameat_with(CWD, root, CWD, to, RenameFlags::NOREPLACE) {
            // A filesystem that cannot tell. A folder takes the place of an empty one at most.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                check_free(to)?;
                fs::rename(root, to).at("rename to its name", to)?;
            }
            other => other.at("rename to its name", to)?,
        }
        self.is_published = true;
        disk::sync_folder(&split(to)?.0)
    }
}

impl Drop for StagedStore {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = fs::remove_dir_all(&self.layout.root);
        }
    }
}

fn check_free(to: &Path) -> Result<()> {
    match fs::symlink_metadata(to) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e).at("look at", to),
        Ok(_) => Err(Error::Refused(format!(
            "cannot salvage into {}: it exists, and nothing is overwritten; {} names a folder that does not exist yet",
            to.display(),
            Step::To
        ))),
    }
}

/// The folder above a path, and its name.
fn split(to: &Path) -> Result<(PathBuf, String)> {
    match (to.parent(), to.file_name()) {
        (Some(above), Some(name)) => {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            Ok((above.to_owned(), name.to_string_lossy().into_owned()))
        }
        _ => Err(Error::Invalid(format!("cannot salvage into {}: a folder needs a name", to.display()))),
    }
}

/// Removes what salvages of dead processes left.
fn remove_leftovers(above: &Path, begins: &str) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let is_ours =
            entry.file_name().to_string_lossy().starts_with(begins) && entry.file_type().is_ok_and(|kind| kind.is_dir());
        let Ok(folder) = File::open(Layout::new(entry.path()).packs()) else { continue };
        if is_ours && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
