//! The raw files of a conversation: which there are, how much of each is kept, and where each goes when it is brought back.
//!
//! The transcript is `transcript.jsonl` in a checkpoint; the names of others are their kind's. Settings, credentials and keys lie elsewhere
//! and are never taken.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use super::cut::cut;
use crate::{
    error::{IoContext, Result},
    regular::entries,
};

/// The transcript's name.
pub const TRANSCRIPT: &str = "transcript.jsonl";
/// The name of the folder beside it, where an agent has one.
pub(crate) const BESIDE: &str = "session";

/// Most files that are taken beside the transcript.
const FILES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 16;

/// A file of a conversation, or its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFile {
    /// Its name in a checkpoint.
    pub name: PathBuf,
    /// Its present path.
    pub source: PathBuf,
    /// The number of bytes that are kept from its beginning: a transcript's whole records; all of any other file, which may be more by the
    /// time it is read.
    pub bytes: u64,
    /// The number of bytes after those.
    pub torn_bytes: u64,
}

impl RawFile {
    /// True if the agent only appends to it; other files are written anew.
    pub fn only_grows(&self) -> bool {
        only_grows(&self.name)
    }
}

fn only_grows(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("jsonl"))
}

/// Files that were found but not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The file or folder.
    pub path: PathBuf,
    /// The reason for leaving it out, for people.
    pub reason: String,
}

/// The raw files of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawSet {
    /// The files, the transcript first.
    pub files: Vec<RawFile>,
    /// Files that are not among them.
    pub left_out: Vec<LeftOut>,
}

impl RawSet {
    /// The output of a headless agent, which is one file.
    pub fn of_stream(log: &Path) -> Result<Self> {
        let at = cut(log)?;
        let file = RawFile { name: TRANSCRIPT.into(), source: log.to_owned(), bytes: at.bytes, torn_bytes: at.torn_bytes };
        Ok(RawSet { files: vec![file], left_out: Vec::new() })
    }

    /// Updates files that the agent writes anew to their present state: a part of the new content would be worth nothing.
    pub fn update(&mut self, now: RawSet) {
        let now: BTreeMap<PathBuf, RawFile> = now.files.into_iter().map(|file| (file.name.clone(), file)).collect();
        self.files.retain_mut(|file| match now.get(&file.name) {
            _ if file.only_grows() => true,
            Some(now) => {
                file.bytes = now.bytes;
                true
            }
            None => false,
        });
    }

    /// Takes all files of a folder, under this name.
    pub(crate) fn folder(&mut self, folder: &Path, name: &Path) {
        self.walk(folder, name, 0);
    }

    fn walk(&mut self, folder: &Path, name: &Path, depth: usize) {
        if depth > DEPTH_MAX {
            return self.leave_out(folder, "it lies too deep");
        }
        match entries(folder) {
            Err(e) => self.leave_out(folder, e),
            Ok(paths) => {
                for path in paths {
                    let name = name.join(path.file_name().unwrap_or_default());
                    self.take(&path, name, depth);
                }
            }
        }
    }

    fn take(&mut self, path: &Path, name: PathBuf, depth: usize) {
        let metadata = match fs::symlink_metadata(path).at("read", path) {
            Ok(metadata) => metadata,
            // It was there a moment ago: the agent removed it.
            Err(_) => return,
        };
        let is_lock = path.file_name().is_some_and(|name| name.as_bytes().ends_with(b".lock"));
        if metadata.is_dir() {
            self.walk(path, &name, depth + 1);
        } else if !metadata.is_file() {
            self.leave_out(path, "it is no regular file");
        } else if self.files.len() >= FILES_MAX {
            self.leave_out(path, "there are too many files");
        } else if !is_lock {
            match extent(path, &metadata) {
                Ok((bytes, torn_bytes)) => self.files.push(RawFile { name, source: path.to_owned(), bytes, torn_bytes }),
                Err(e) => self.leave_out(path, e),
            }
        }
    }

    /// Takes one file, under this name.
    pub(crate) fn file(&mut self, path: &Path, name: PathBuf) {
        self.take(path, name, 0);
    }

    fn leave_out(&mut self, path: &Path, reason: impl ToString) {
        self.left_out.push(LeftOut { path: path.to_owned(), reason: reason.to_string() });
    }

    /// The transcripts of subagents, by the name of their file.
    pub fn subagents(&self) -> impl Iterator<Item = (String, &RawFile)> {
        let folder = Path::new(BESIDE).join("subagents");
        self.files.iter().filter_map(move |file| {
            let name = file.name.strip_prefix(&folder).ok()?;
            (name.extension() == Some(OsStr::new("jsonl"))).then(|| (name.to_string_lossy().into_owned(), file))
        })
    }
}

/// The number of bytes of a file that are kept, and of those after them.
fn extent(path: &Path, metadata: &fs::Metadata) -> Result<(u64, u64)> {
    if only_grows(path) {
        let at = cut(path)?;
        return Ok((at.bytes, at.torn_bytes));
    }
    Ok((metadata.len(), 0))
}

/// True if a file's name in a checkpoint leads nowhere else.
pub(crate) fn is_plain(name: &Path) -> bool {
    name.components().all(|part| matches!(part, Component::Normal(_)))
}
