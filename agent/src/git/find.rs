//! Finding a repository and an unfinished operation in it, by its files.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    error::{IoContext, Result},
    regular,
};

/// Longest file of a repository's that is read here.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Longest `.git` file that is believed to be one.
const LINK_BYTES_MAX: u64 = 64 << 10;

/// Repositories are looked for so many levels below a folder that is none ...
const LEVELS_MAX: usize = 2;
/// ... and in so many folders: somebody's home may be a workspace.
const FOLDERS_MAX: usize = 2_000;

/// An unfinished operation of git.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A merge that has conflicts or is not committed.
    Merge,
    /// A rebase that is not finished.
    Rebase,
    /// Patches of a mailbox.
    Am,
    /// A cherry-pick that has conflicts or is not committed.
    CherryPick,
    /// A revert that has conflicts or is not committed.
    Revert,
    /// A bisection.
    Bisect,
}

/// A repository's folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    root: PathBuf,
    git: PathBuf,
}

impl Repository {
    /// The repository that a folder is, or lies in.
    pub fn around(folder: &Path) -> Result<Option<Self>> {
        for folder in folder.ancestors() {
            if let Some(found) = Repository::at(folder)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The repository whose folder this is.
    pub fn at(folder: &Path) -> Result<Option<Self>> {
        let entry = folder.join(".git");
        let metadata = match fs::metadata(&entry) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
            found => found.at("read", &entry)?,
        };
        let git = match metadata.is_dir() {
            true => Some(entry),
            // A fifo would never be read to its end.
            false if metadata.is_file() => linked(&entry, metadata.len())?,
            false => None,
        };
        Ok(git.filter(|git| git.join("HEAD").symlink_metadata().is_ok()).map(|git| Repository { root: folder.to_owned(), git }))
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the repository's main worktree, where this is another one; else its own folder.
    pub fn main_root(&self) -> PathBuf {
        let common = self.is_linked_worktree().then(|| self.common().canonicalize().ok()).flatten();
        let main = common.filter(|common| common.ends_with(".git")).and_then(|common| Some(common.parent()?.to_owned()));
        main.unwrap_or_else(|| self.root.clone())
    }

    /// Git's own folder.
    pub(super) fn git(&self) -> &Path {
        &self.git
    }

    /// The folder that worktrees share.
    pub(super) fn common(&self) -> PathBuf {
        match read(&self.git.join("commondir")) {
            Some(path) => self.git.join(path.trim_end()),
            None => self.git.clone(),
        }
    }

    /// A folder's path from the root, with a slash behind it where it is not the root.
    pub(super) fn inner_path(&self, folder: &Path) -> Vec<u8> {
        let mut inner = folder.strip_prefix(&self.root).unwrap_or(Path::new("")).as_os_str().as_bytes().to_vec();
        if !inner.is_empty() {
            inner.push(b'/');
        }
        inner
    }

    /// True for a worktree of a repository that lies elsewhere.
    pub fn is_linked_worktree(&self) -> bool {
        self.git.join("commondir").exists()
    }

    /// The other worktree that it belongs to: in a copy of a linked worktree, `.git` names the folder of the one that was copied.
    pub fn copied_from(&self) -> Option<PathBuf> {
        let named = self.git.join(read(&self.git.join("gitdir"))?.trim_end());
        let (there, here) = (fs::metadata(&named).ok()?, fs::metadata(self.root.join(".git")).ok()?);
        ((there.dev(), there.ino()) != (here.dev(), here.ino())).then(|| named.parent().unwrap_or(&named).to_owned())
    }

    /// The unfinished operation, if there is one.
    pub fn operation(&self) -> Option<Operation> {
        let signs = [
            ("rebase-merge", Operation::Rebase),
            ("rebase-apply/applying", Operation::Am),
            ("rebase-apply", Operation::Rebase),
            ("MERGE_HEAD", Operation::Merge),
            ("CHERRY_PICK_HEAD", Operation::CherryPick),
            ("REVERT_HEAD", Operation::Revert),
            ("BISECT_LOG", Operation::Bisect),
        ];
        signs.into_iter().find(|(sign, _)| self.git.join(sign).exists()).map(|(_, operation)| operation)
    }
}

/// Repositories in a folder, by their paths from it, in their order; not those in other ones.
pub(super) fn inside(root: &Path) -> Vec<Vec<u8>> {
    let mut left = FOLDERS_MAX;
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    for level in 1..=LEVELS_MAX {
        let mut deeper = Vec::new();
        for folder in folders {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
            for path in inner.take(left) {
                left -= 1;
                match Repository::at(&path) {
                    Ok(Some(_)) => found.push(path),
                    _ if level < LEVELS_MAX => deeper.push(path),
                    _ => {}
                }
            }
        }
        folders = deeper;
    }
    let inner = |path: &PathBuf| Some(path.strip_prefix(root).ok()?.as_os_str().as_bytes().to_vec());
    let mut found: Vec<Vec<u8>> = found.iter().filter_map(inner).collect();
    found.sort();
    found
}

/// A small file of a repository's; none where it is missing, no regular file or too long.
pub(super) fn read(path: &Path) -> Option<String> {
    regular::read(path, FILE_BYTES_MAX).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The folder that a `.git` file names, as worktrees and submodules have one.
fn linked(entry: &Path, bytes: u64) -> Result<Option<PathBuf>> {
    if bytes > LINK_BYTES_MAX {
        return Ok(None);
    }
    let text = regular::read(entry, LINK_BYTES_MAX).at("read", entry)?;
    let Some(path) = text.strip_prefix(b"gitdir: ") else { return Ok(None) };
    let path = path.strip_suffix(b"\n").unwrap_or(path);
    let path = PathBuf::from(OsString::from_vec(path.to_vec()));
    Ok(Some(entry.parent().unwrap_or(Path::new("/")).join(path)))
}
