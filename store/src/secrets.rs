//! Files that never enter a store, whatever other rules say, because they hold credentials of a program whose work is captured. The store
//! knows no such program: whoever opens it says which files these are.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Files that never enter a store. Entries that are left out by this are recorded like those that other rules exclude, and no in-place
/// restore removes them. Folders are never left out by this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// The reason that a checkpoint gives for leaving them out.
    pub reason: String,
    /// Names of entries, in any folder. One `*` in a name stands for any bytes.
    pub names: Vec<String>,
    /// More names, in some folders only.
    pub folders: Vec<SecretFolder>,
    /// Files that are left out under any name: by device and inode, so that a hard link is found.
    pub files: Vec<PathBuf>,
}

/// Folders in which some names are secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretFolder {
    /// End of the folder's absolute path, by whole names.
    pub path_end: PathBuf,
    /// Names one of which lies beside the folder; no matter where there are none.
    pub beside: Vec<String>,
    /// Names of entries in it, as in [`Secrets::names`].
    pub names: Vec<String>,
}

impl Secrets {
    /// True if entries of a name are left out of any folder.
    pub fn has_name(&self, name: &[u8]) -> bool {
        matches_one_of(&self.names, name)
    }

    /// More names that are left out of a folder. `is_beside` says whether an entry of a name lies beside the folder.
    pub(crate) fn names_in(&self, folder: &Path, is_beside: &dyn Fn(&str) -> bool) -> Vec<String> {
        let rules = self.folders.iter().filter(|rule| folder.ends_with(&rule.path_end));
        let rules = rules.filter(|rule| rule.beside.is_empty() || rule.beside.iter().any(|name| is_beside(name)));
        rules.flat_map(|rule| rule.names.iter().cloned()).collect()
    }

    /// True if the entry at an absolute path is left out by its name and by what lies around it now.
    pub(crate) fn cover(&self, path: &Path) -> bool {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let name = name.as_encoded_bytes();
        self.has_name(name) || matches_one_of(&self.names_in(folder, &beside(folder)), name)
    }

    /// Device and inode of the files that are there.
    pub(crate) fn identities(&self) -> Vec<(u64, u64)> {
        let found = self.files.iter().filter_map(|path| fs::metadata(path).ok());
        found.filter(fs::Metadata::is_file).map(|metadata| (metadata.dev(), metadata.ino())).collect()
    }
}

/// Looks for entries beside a folder.
pub(crate) fn beside(folder: &Path) -> impl Fn(&str) -> bool {
    move |name| folder.with_file_name(name).symlink_metadata().is_ok()
}

/// True if a name matches one of some patterns.
pub(crate) fn matches_one_of(patterns: &[String], name: &[u8]) -> bool {
    // A walk asks this of every entry: most differ in the first byte.
    let may_match =
        |pattern: &&String| matches!(pattern.as_bytes().first(), Some(first) if *first == b'*' || Some(first) == name.first());
    patterns.iter().filter(may_match).any(|pattern| match pattern.split_once('*') {
        None => pattern.as_bytes() == name,
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start.as_bytes()) && name.ends_with(end.as_bytes())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_whole_and_folders_by_their_ends() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let keys =
            |end: &str, beside: &[&str]| SecretFolder { path_end: end.into(), beside: names(beside), names: names(&["*.key"]) };
        let secrets = Secrets {
            names: names(&[".auth", ".auth.tmp.*"]),
            folders: vec![keys("agent/keys", &[]), keys("/etc/own/keys", &[]), keys("keys", &[".auth"])],
            ..Secrets::default()
        };
        let covered = |path: &str| secrets.cover(Path::new(path));
        for path in ["/a/.auth", "/a/.auth.tmp.1", "/h/agent/keys/1.key", "/etc/own/keys/.key"] {
            assert!(covered(path), "{path}");
        }
        for path in
            ["/a/.auth2", "/a/x.auth", "/h/myagent/keys/1.key", "/h/etc/own/keys/1.key", "/h/agent/keys/1.pub", "/k/keys/1.key"]
        {
            assert!(!covered(path), "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("keys/1.key");
        assert!(!secrets.cover(&key));
        fs::write(folder.path().join(".auth"), "").unwrap();
        assert!(secrets.cover(&key));
    }
}
