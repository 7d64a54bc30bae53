//! The output of `git status --porcelain=v2 -z`.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use parhelia_name as name;
use serde::Serialize;

/// A path that differs from the commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GitChange {
    /// The path, from the workspace folder, for people.
    pub path: String,
    /// The path in bytes, from the workspace folder.
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// Git's two letters: the index beside the commit, the file beside the index. `??` is untracked.
    pub status: String,
    /// The path before a rename.
    pub from: Option<String>,
}

impl GitChange {
    /// The path, from the workspace folder.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes))
    }

    /// True if it has conflicts.
    pub fn is_unmerged(&self) -> bool {
        matches!(self.status.as_str(), "DD" | "AU" | "UD" | "UA" | "DU" | "AA" | "UU")
    }

    /// True if the file is gone.
    pub fn is_deleted(&self) -> bool {
        self.status.ends_with('D') || self.status == "D."
    }
}

#[derive(Debug, Default)]
pub(super) struct GitStatus {
    pub branch: Option<String>,
    pub head: Option<String>,
    pub is_detached: bool,
    pub upstream: Option<String>,
    pub ahead: Option<u64>,
    pub behind: Option<u64>,
    pub stash_count: u64,
    /// At most as many as were asked for.
    pub changes: Vec<GitChange>,
    /// The number of changes.
    pub change_count: u64,
    /// The number of changes with conflicts.
    pub unmerged: u64,
    listed_max: usize,
    /// Folders that are repositories of their own, from the workspace folder.
    pub nested: Vec<Vec<u8>>,
}

/// Parses the output. Paths in it start at the repository's root: `inner`, the way from there to the workspace, is cut off, and `prefix`, the way
/// from the workspace to the repository, is put before. At most `listed_max` changes are listed; git prints tracked files first.
pub(super) fn parse(printed: &[u8], inner: &[u8], prefix: &[u8], listed_max: usize) -> GitStatus {
    let mut parsed = GitStatus { listed_max, ..GitStatus::default() };
    let mut entries = printed.split(|&b| b == 0);
    let place = |path: &[u8]| name::join(prefix, path.strip_prefix(inner).unwrap_or(path));
    while let Some(entry) = entries.next() {
        let text = String::from_utf8_lossy(entry);
        match entry.first() {
            Some(b'#') => parsed.header(text.strip_prefix("# ").unwrap_or_default()),
            Some(b'1') => parsed.change(entry, 8, &place, None),
            Some(b'2') => {
                let from = entries.next().unwrap_or_default();
                parsed.change(entry, 9, &place, Some(name::display(&place(from))));
            }
            Some(b'u') => parsed.change(entry, 10, &place, None),
            Some(b'?') => {
                let path = place(entry.get(2..).unwrap_or_default());
                match path.strip_suffix(b"/") {
                    // Git lists every untracked file, and enters no other repository.
                    Some(folder) => parsed.nested.push(folder.to_vec()),
                    None => parsed.push(path, "??".into(), None),
                }
            }
            _ => {}
        }
    }
    parsed
}

impl GitStatus {
    fn header(&mut self, text: &str) {
        let Some((key, value)) = text.split_once(' ') else { return };
        match key {
            "branch.oid" => self.head = Some(value.to_owned()).filter(|oid| oid != "(initial)"),
            "branch.head" if value == "(detached)" => self.is_detached = true,
            "branch.head" => self.branch = Some(value.to_owned()),
            "branch.upstream" => self.upstream = Some(value.to_owned()),
            "branch.ab" => {
                let mut numbers = value.split(' ').map(|number| number.trim_start_matches(['+', '-']).parse().ok());
                self.ahead = numbers.next().flatten();
                self.behind = numbers.next().flatten();
            }
            "stash" => self.stash_count = value.parse().unwrap_or(0),
            _ => {}
        }
    }

    /// An entry whose path follows so many fields.
    fn change(&mut self, entry: &[u8], fields: usize, place: &impl Fn(&[u8]) -> Vec<u8>, from: Option<String>) {
        let mut parts = entry.splitn(fields + 1, |&b| b == b' ');
        let status = parts.nth(1).map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        if let Some(path) = parts.nth(fields - 2) {
            self.push(place(path), status, from);
        }
    }

    fn push(&mut self, bytes: Vec<u8>, status: String, from: Option<String>) {
        self.change_count += 1;
        let change = GitChange { path: String::new(), bytes, status, from };
        self.unmerged += u64::from(change.is_unmerged());
        if self.changes.len() < self.listed_max {
            self.changes.push(GitChange { path: name::display(&change.bytes), ..change });
        }
    }
}

/// The submodules in what `git ls-files -s -z` prints, with the commits that are recorded for them.
pub(super) fn submodules(printed: &[u8]) -> impl Iterator<Item = (&[u8], String)> {
    printed.split(|&b| b == 0).filter_map(|entry| {
        let rest = entry.strip_prefix(b"160000 ")?;
        let tab = rest.iter().position(|&b| b == b'\t')?;
        let commit = rest[..tab].split(|&b| b == b' ').next()?;
        Some((&rest[tab + 1..], String::from_utf8_lossy(commit).into_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_read() {
        let printed =
            b"# branch.oid (initial)\0# branch.head main\0# branch.ab +2 -1\0# stash 3\x001 .M N... 1 2 3 a b sub/a b\xff\0\
            2 R. N... 1 2 3 a b R100 sub/new\0sub/old\0u UU N... 1 2 3 4 a b c sub/x\0? sub/n/\0? sub/u\0! i\0\0garbage\x001 M\0";
        let parsed = parse(printed, b"sub/", b"", 4);
        assert_eq!((parsed.branch.as_deref(), parsed.head, parsed.stash_count), (Some("main"), None, 3));
        assert_eq!((parsed.ahead, parsed.behind), (Some(2), Some(1)));
        let shown: Vec<_> = parsed.changes.iter().map(|c| (c.path.as_str(), c.status.as_str(), c.from.as_deref())).collect();
        assert_eq!(shown, [("a b\\xff", ".M", None), ("new", "R.", Some("old")), ("x", "UU", None), ("u", "??", None)]);
        assert_eq!((parsed.nested, parsed.change_count, parsed.unmerged), (vec![b"n".to_vec()], 4, 1));
        let bounded = parse(printed, b"sub/", b"", 2);
        assert_eq!((bounded.changes.len(), bounded.change_count, bounded.unmerged), (2, 4, 1));
    }
}
