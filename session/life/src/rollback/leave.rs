//! Paths that a rollback leaves as they are because that was asked for.

use std::{
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_store::{Store, name, record::Checkpoint};

use parhelia_host::{Refusal, Result};

/// Places in which a path that was given is looked for.
pub(super) struct Places<'a> {
    pub store: &'a Store,
    /// The checkpoint that is gone back to.
    pub target: &'a Checkpoint,
    /// The workspace, symlinks resolved.
    pub workspace: &'a Path,
    /// The folder that the caller stands in, symlinks resolved.
    pub folder: Option<PathBuf>,
}

impl Places<'_> {
    /// The path, from the workspace, of an entry that was named: by a path from the current folder if that is in the workspace, else by one
    /// from the workspace, or by an absolute one. Refuses what neither the workspace nor the checkpoint has: whoever mistypes a name would see
    /// the entry overwritten that was meant.
    pub fn inside(&self, given: &Path) -> Result<Vec<u8>> {
        let typed = self.resolved(given)?;
        if self.has(&typed) {
            return Ok(typed);
        }
        // Messages show bytes that are no text, and control characters, in another spelling.
        let spelled = given.to_str().map(|text| name::as_path(&name::parse(text)).to_owned()).filter(|spelled| spelled != given);
        if let Some(shown) = spelled.and_then(|spelled| self.resolved(&spelled).ok()).filter(|shown| self.has(shown)) {
            return Ok(shown);
        }
        let from_top = resolve(&self.workspace.join(given)).and_then(|path| self.below(&path));
        let meant = from_top.filter(|path| self.has(path)).map(|path| self.workspace.join(name::as_path(&path)));
        Err(Refusal::NothingToLeave {
            path: shown(given),
            inside: name::display(&typed),
            target: self.target.record.id,
            meant: meant.as_deref().map(shown),
        }
        .into())
    }

    fn resolved(&self, given: &Path) -> Result<Vec<u8>> {
        let base = self.folder.as_deref().filter(|folder| folder.starts_with(self.workspace)).unwrap_or(self.workspace);
        let found = resolve(&base.join(given)).and_then(|path| self.below(&path));
        found.ok_or_else(|| Refusal::NotInWorkspace { path: shown(given), workspace: shown(self.workspace) }.into())
    }

    /// The path from the workspace; none of the workspace itself, and of what is not in it.
    fn below(&self, path: &Path) -> Option<Vec<u8>> {
        let below = path.strip_prefix(self.workspace).ok()?.as_os_str().as_bytes();
        (!below.is_empty()).then(|| below.to_vec())
    }

    fn has(&self, path: &[u8]) -> bool {
        let is_gone = || matches!(self.store.node_at(self.target, path), Err(parhelia_store::Error::NoSuchPath { .. }));
        is_listed(self.workspace, path) || !is_gone()
    }
}

fn shown(path: &Path) -> String {
    name::display(path.as_os_str().as_bytes())
}

/// An absolute path with the symlinks on the way resolved. One at its end is the entry itself. None where `..` follows something that is
/// not there.
fn resolve(path: &Path) -> Option<PathBuf> {
    let Some(name) = path.file_name() else { return path.canonicalize().ok() };
    let (mut missing, mut above) = (vec![name], path.parent()?);
    loop {
        match above.canonicalize() {
            Ok(found) => return Some(missing.iter().rev().fold(found, |path, name| path.join(name))),
            Err(_) => {
                missing.push(above.file_name()?);
                above = above.parent()?;
            }
        }
    }
}

/// True if a workspace has an entry, by the bytes of its name: a filesystem may find one by others.
fn is_listed(workspace: &Path, path: &[u8]) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    let is_missing = |e: &io::Error| matches!(e.kind(), NotFound | NotADirectory | InvalidFilename);
    let mut folder = workspace.to_owned();
    for part in name::components(path).map(name::as_path) {
        match fs::read_dir(&folder) {
            Ok(mut entries) => match entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() == part)) {
                true => folder.push(part),
                false => return false,
            },
            Err(e) if is_missing(&e) => return false,
            // A folder that may not be listed, or does not answer.
            Err(_) => return !workspace.join(name::as_path(path)).symlink_metadata().is_err_and(|e| is_missing(&e)),
        }
    }
    true
}
