//! Working trees of a workspace's repository that lie elsewhere: no checkpoint of the workspace has what is done there.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    time::SystemTime,
};

use parhelia_agent::regular;
use parhelia_store::name;

/// No more working trees are looked at.
const WORKTREES_MAX: usize = 64;
/// A file with a path is no longer.
const PATH_BYTES_MAX: u64 = 8 << 10;
/// Stands before the path in a `.git` that is a file.
const GITDIR: &[u8] = b"gitdir: ";

/// Working trees that were made elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutsideWorktrees {
    /// Absolute paths of the working trees, sorted.
    pub folders: Vec<PathBuf>,
    /// True if there are more working trees than are looked at.
    pub is_cut: bool,
}

/// Linked working trees of the repository of a workspace that were made outside of it since then, and are there.
pub fn outside(workspace: &Path, since: SystemTime) -> OutsideWorktrees {
    let Ok(workspace) = workspace.canonicalize() else { return OutsideWorktrees::default() };
    let Some(common) = common(&workspace) else { return OutsideWorktrees::default() };
    let mut entries = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let looked_at: Vec<_> = entries.by_ref().take(WORKTREES_MAX).collect();
    let places = looked_at.into_iter().map(|entry| entry.path()).filter(|path| was_made(path, since)).filter_map(|path| {
        // The path of the `.git` in the working tree.
        let git = path_in(&path.join("gitdir"), b"")?;
        git.parent().map(Path::to_owned)
    });
    let mut folders: Vec<PathBuf> = places.filter(|place| place.is_dir() && !place.starts_with(&workspace)).collect();
    folders.sort();
    OutsideWorktrees { folders, is_cut: entries.next().is_some() }
}

/// The working tree that a folder lies in, if it is a linked one of a workspace's repository that was made outside of the workspace since then. It and
/// the repository name each other: a folder that only claims to be one is none.
pub fn linked(workspace: &Path, folder: &Path, since: SystemTime) -> Option<PathBuf> {
    let (workspace, folder) = (workspace.canonicalize().ok()?, folder.canonicalize().ok()?);
    let root = folder.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok())?;
    let own = root.join(path_in(&root.join(".git"), GITDIR)?).canonicalize().ok()?;
    let is_ours = own.parent()?.parent()? == common(&workspace)?.canonicalize().ok()?;
    let names_it = path_in(&own.join("gitdir"), b"")?.canonicalize().ok()? == root.join(".git");
    (is_ours && names_it && was_made(&own, since) && !root.starts_with(&workspace)).then(|| root.to_owned())
}

/// True if a working tree's folder of git was made since then.
fn was_made(path: &Path, since: SystemTime) -> bool {
    let made = path.metadata().and_then(|found| found.created().or_else(|_| found.modified()));
    made.is_ok_and(|made| made >= since)
}

/// The folder of git that a workspace's `.git` names, where that is a file and the folder is gone: no git command works there.
pub fn dead_git(workspace: &Path) -> Option<PathBuf> {
    let git = workspace.join(".git");
    let named = git.symlink_metadata().ok().filter(fs::Metadata::is_file).and_then(|_| path_in(&git, GITDIR))?;
    let named = workspace.join(named);
    (!named.exists()).then_some(named)
}

/// The folder of a repository that all its working trees share.
fn common(workspace: &Path) -> Option<PathBuf> {
    let git = workspace.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let own = workspace.join(path_in(&git, GITDIR)?);
    let shared = path_in(&own.join("commondir"), b"").map(|shared| own.join(shared));
    shared.unwrap_or(own).canonicalize().ok()
}

/// The path that a file of git's holds, behind its beginning.
fn path_in(file: &Path, beginning: &[u8]) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    regular::open(file).ok()?.take(PATH_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let path = bytes.strip_prefix(beginning)?.split(|byte| *byte == b'\n').next().filter(|path| !path.is_empty())?;
    Some(name::as_path(path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_trees_elsewhere_are_found_and_a_dead_git_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let work = root.join("work");
        for (name, place) in [("feature", root.join("feature")), ("inside", work.join("inside")), ("gone", root.join("gone"))] {
            let own = work.join(".git/worktrees").join(name);
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("gitdir"), format!("{}/.git\n", place.display())).unwrap();
            fs::write(own.join("commondir"), "../..\n").unwrap();
            if name != "gone" {
                fs::create_dir_all(&place).unwrap();
                fs::write(place.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
            }
        }
        let (ever, never) = (SystemTime::UNIX_EPOCH, SystemTime::now() + std::time::Duration::from_secs(60));
        assert_eq!(outside(&work, ever), OutsideWorktrees { folders: vec![root.join("feature")], is_cut: false });
        assert!(outside(&work, never).folders.is_empty());
        assert_eq!(outside(&root.join("feature"), ever).folders, [work.join("inside")]);
        assert!(outside(&root, ever).folders.is_empty() && dead_git(&work).is_none());
        fs::create_dir_all(root.join("feature/below")).unwrap();
        assert_eq!(linked(&work, &root.join("feature/below"), ever), Some(root.join("feature")));
        assert_eq!((linked(&work, &root.join("feature"), never), linked(&work, &work.join("inside"), ever)), (None, None));
        // It names the repository, and that does not name it.
        fs::create_dir(root.join("liar")).unwrap();
        fs::copy(root.join("feature/.git"), root.join("liar/.git")).unwrap();
        assert_eq!((linked(&work, &root.join("liar"), ever), linked(&work, &root, ever)), (None, None));
        for number in 0..WORKTREES_MAX {
            fs::create_dir_all(work.join(format!(".git/worktrees/{number}"))).unwrap();
        }
        assert!(outside(&work, ever).is_cut);
        assert_eq!(dead_git(&root.join("feature")), None);
        fs::remove_dir_all(work.join(".git/worktrees/feature")).unwrap();
        assert_eq!(dead_git(&root.join("feature")), Some(work.join(".git/worktrees/feature")));
    }
}
