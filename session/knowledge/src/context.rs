//! `state/context.json`: which files whoever takes up the work should look at first, and which of them are small enough to be shown to
//! an agent at once. Contents are not repeated here: each file is named by its blob, which the checkpoint holds.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File as Opened},
    io::{self, Read},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Component, Path, PathBuf},
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use jiff::Timestamp;
use parhelia_store::{keys::Ids, name};
use serde::Serialize;
use sha2::{Digest, Sha256};

use parhelia_agent::{
    git::State,
    transcript::{Conversation, FileUse},
};
use parhelia_host::{
    Error, Result,
    config::{self, Mode},
};

/// Most files that are listed.
const FILES_MAX: usize = 2_000;

/// The reason for listing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A tool of the agent wrote or edited it.
    Edited,
    /// Git knows it to differ from the commit.
    Modified,
    /// A tool of the agent read it.
    Read,
}

/// The fitness of a file for being shown to a resumed agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Eligibility {
    /// It may.
    Fits,
    /// It is larger than any file may be.
    OverFileCap,
    /// It would fit by itself, but files that matter more fill the room.
    OverTotalCap,
    /// It is gone.
    Missing,
    /// It lies outside the workspace, and so is not in the checkpoint.
    Outside,
    /// It is no regular file.
    NotAFile,
    /// It could not be read.
    Unreadable,
}

/// A file in the list, with the reasons for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    /// Its path from the workspace folder; absolute where it lies outside.
    pub path: String,
    /// The reasons for listing it, the strongest first.
    pub reasons: Vec<Reason>,
    /// Its fitness for being shown.
    pub fit: Eligibility,
    /// Its blob, where the checkpoint holds it.
    pub blob: Option<String>,
    /// SHA-256 of its content, where that was read: not of one that is too large to be shown.
    pub sha256: Option<String>,
    /// Length in bytes; none where the file could not be looked at.
    pub size_bytes: Option<u64>,
    /// Time of its last change (RFC 3339, UTC).
    pub modified_at: Option<String>,
}

/// The list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Context {
    /// The amount of detail for a resumed agent: a summary alone, or files too.
    pub mode: Mode,
    /// True if files are listed.
    pub capture_files: bool,
    /// True to list work done and decisions.
    pub capture_analysis: bool,
    /// Largest file that fits, in bytes.
    pub max_file_bytes: u64,
    /// Bytes of all files that fit.
    pub max_total_bytes: u64,
    /// The files, those that matter most first.
    pub files: Vec<File>,
    /// Bytes of the files that fit.
    pub total_bytes: u64,
    /// Warnings for the user who made the checkpoint.
    pub warnings: Vec<String>,
    /// The agent's working directory.
    pub working_directory: Option<String>,
    /// The branch that is checked out; none on a detached HEAD or without git.
    pub git_branch: Option<String>,
    /// The commit of HEAD, in full; none without git or before the first commit.
    pub git_commit: Option<String>,
}

/// A file that may be listed.
#[derive(Debug, Default)]
struct Candidate {
    reasons: Vec<Reason>,
    /// Offset of its last use in the transcript.
    last_offset: u64,
}

/// Lists the files of a session. `workspace` is absolute; the files are read as they are now, and their blobs named by `ids`.
pub fn list(
    workspace: &Path,
    conversation: Option<&Conversation>,
    git: Option<&State>,
    settings: &config::Context,
    ids: &Ids,
) -> Result<Context> {
    let mut context = Context {
        mode: settings.mode,
        capture_files: settings.capture_files,
        capture_analysis: settings.capture_analysis,
        max_file_bytes: settings.max_file_bytes,
        max_total_bytes: settings.max_total_bytes,
        files: Vec::new(),
        total_bytes: 0,
        warnings: Vec::new(),
        working_directory: conversation.and_then(|conversation| conversation.main.facts.cwd.clone()),
        git_branch: git.and_then(|git| git.branch.clone()),
        git_commit: git.and_then(|git| git.head.clone()),
    };
    if !settings.capture_files {
        return Ok(context);
    }
    let excluded = excluded(workspace, &settings.exclude)?;
    let found = candidates(workspace, conversation, git);
    let found = found.into_iter().filter(|(path, _)| {
        let inner = path.strip_prefix(workspace);
        !inner.is_ok_and(|inner| excluded.matched_path_or_any_parents(inner, false).is_ignore())
    });
    let mut found: Vec<(PathBuf, Candidate)> = found.collect();
    found.sort_by(|(a_path, a), (b_path, b)| (&a.reasons, b.last_offset, a_path).cmp(&(&b.reasons, a.last_offset, b_path)));
    if found.len() > FILES_MAX {
        context.warnings.push(format!("{} files are not listed: there are more than {FILES_MAX}", found.len() - FILES_MAX));
        found.truncate(FILES_MAX);
    }
    for (path, candidate) in found {
        context.add(workspace, &path, candidate.reasons, ids);
    }
    context.warn();
    Ok(context)
}

/// All files with their reasons, by absolute path.
fn candidates(workspace: &Path, conversation: Option<&Conversation>, git: Option<&State>) -> BTreeMap<PathBuf, Candidate> {
    let mut found: BTreeMap<PathBuf, Candidate> = BTreeMap::new();
    let indexes = conversation.into_iter().flat_map(|all| std::iter::once(&all.main).chain(all.subagents.values()));
    for (path, used) in indexes.flat_map(|index| &index.files) {
        let FileUse { reads, edits, last_offset, .. } = *used;
        let candidate = found.entry(plain(&workspace.join(path))).or_default();
        candidate
            .reasons
            .extend([(edits, Reason::Edited), (reads, Reason::Read)].iter().filter(|(n, _)| *n > 0).map(|(_, reason)| *reason));
        candidate.last_offset = candidate.last_offset.max(last_offset);
    }
    for change in git.into_iter().flat_map(State::uncommitted) {
        found.entry(workspace.join(change.as_path())).or_default().reasons.push(Reason::Modified);
    }
    for candidate in found.values_mut() {
        candidate.reasons.sort();
        candidate.reasons.dedup();
    }
    found
}

/// A path without `.` and `..`, as far as its text goes.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()),
            part => out.push(part),
        }
    }
    out
}

fn excluded(workspace: &Path, patterns: &[String]) -> Result<Gitignore> {
    let mut builder = GitignoreBuilder::new(workspace);
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(|e| Error::Invalid(format!("context.exclude: '{pattern}': {e}")))?;
    }
    builder.build().map_err(|e| Error::Invalid(format!("context.exclude: {e}")))
}

impl Context {
    fn add(&mut self, workspace: &Path, path: &Path, reasons: Vec<Reason>, ids: &Ids) {
        let inner = path.strip_prefix(workspace).ok();
        let mut file = File {
            path: name::display(inner.unwrap_or(path).as_os_str().as_bytes()),
            reasons,
            fit: Eligibility::Outside,
            blob: None,
            sha256: None,
            size_bytes: None,
            modified_at: None,
        };
        if let Some(inner) = inner {
            file.fit = self.look(workspace, inner, &mut file, ids);
        }
        self.files.push(file);
    }

    fn look(&mut self, workspace: &Path, inner: &Path, file: &mut File, ids: &Ids) -> Eligibility {
        let mut opened = match open(workspace, inner) {
            Ok(opened) => opened,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Eligibility::Missing,
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => return Eligibility::NotAFile,
            Err(_) => return Eligibility::Unreadable,
        };
        let Ok(metadata) = opened.metadata() else { return Eligibility::Unreadable };
        file.size_bytes = Some(metadata.len());
        file.modified_at = modified_at(&metadata);
        if !metadata.is_file() {
            return Eligibility::NotAFile;
        }
        if metadata.len() > self.max_file_bytes {
            return Eligibility::OverFileCap;
        }
        if self.total_bytes.saturating_add(metadata.len()) > self.max_total_bytes {
            return Eligibility::OverTotalCap;
        }
        let mut content = Vec::new();
        // It may grow while it is read.
        match (&mut opened).take(self.max_file_bytes.saturating_add(1)).read_to_end(&mut content) {
            Err(_) => return Eligibility::Unreadable,
            Ok(read) if read as u64 > self.max_file_bytes => return Eligibility::OverFileCap,
            Ok(_) => {}
        }
        file.size_bytes = Some(content.len() as u64);
        file.blob = Some(ids.blob(&content).to_string());
        file.sha256 = Some(Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect());
        self.total_bytes += content.len() as u64;
        Eligibility::Fits
    }

    fn warn(&mut self) {
        for (fit, what, limit) in [
            (Eligibility::OverFileCap, "context.max_file_bytes", self.max_file_bytes),
            (Eligibility::OverTotalCap, "context.max_total_bytes", self.max_total_bytes),
        ] {
            let over = self.files.iter().filter(|file| file.fit == fit).count();
            if over > 0 {
                let files = if over == 1 { "1 file is" } else { &format!("{over} files are") };
                self.warnings.push(format!("{files} too large to be shown to a resumed agent ({what} is {limit})"));
            }
        }
    }
}

/// Opens a file of the workspace without following any link on the way: what lies elsewhere is not the workspace's.
pub fn open(workspace: &Path, inner: &Path) -> io::Result<Opened> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
    let folder = openat(CWD, workspace, OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(Opened::from(openat2(&folder, OsStr::new(inner), flags, Mode::empty(), resolve)?))
}

fn modified_at(metadata: &fs::Metadata) -> Option<String> {
    let time = Timestamp::new(metadata.mtime(), i32::try_from(metadata.mtime_nsec()).unwrap_or(0));
    time.ok().map(|time| time.to_string())
}

#[cfg(test)]
mod tests;
