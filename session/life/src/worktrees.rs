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

/// Linked working trees of the repository of a workspace that were made outside of it since then, and are there.
pub fn outside(workspace: &Path, since: SystemTime) -> Vec<PathBuf> {
    let Ok(workspace) = workspace.canonicalize() else { return Vec::new() };
    let Some(common) = common(&workspace) else { return Vec::new() };
    let entries = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten().take(WORKTREES_MAX);
    let is_new = |path: &Path| {
        let made = path.metadata().and_then(|found| found.created().or_else(|_| found.modified()));
        made.is_ok_and(|made| made >= since)
    };
    let places = entries.map(|entry| entry.path()).filter(|path| is_new(path)).filter_map(|path| {
        // The path of the `.git` in the working tree.
        let git = path_in(&path.join("gitdir"), b"")?;
        git.parent().map(Path::to_owned)
    });
    let mut found: Vec<PathBuf> = places.filter(|place| place.is_dir() && !place.starts_with(&workspace)).collect();
    found.sort();
    found
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
        assert_eq!(outside(&work, SystemTime::UNIX_EPOCH), [root.join("feature")]);
        assert!(outside(&work, SystemTime::now() + std::time::Duration::from_secs(60)).is_empty());
        assert_eq!(outside(&root.join("feature"), SystemTime::UNIX_EPOCH), [work.join("inside")]);
        assert!(outside(&root, SystemTime::UNIX_EPOCH).is_empty() && dead_git(&work).is_none());
        assert_eq!(dead_git(&root.join("feature")), None);
        fs::remove_dir_all(work.join(".git/worktrees/feature")).unwrap();
        assert_eq!(dead_git(&root.join("feature")), Some(work.join(".git/worktrees/feature")));
    }
}
