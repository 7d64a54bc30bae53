//! A list of paths to capture: those that exist, and why others are not in the checkpoint.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    io::{BufRead, BufReader, ErrorKind, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_host::{Error, Result, error::IoContext};
use parhelia_store::{
    Store,
    create::Outcome,
    format::NAME_BYTES_MAX,
    name::{self, NameExt as _, display, step::Step},
    omitted::{self, Omission, Reason},
    record::Checkpoint,
};

/// The mark with which some editors begin UTF-8 text.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The paths of a list, from the workspace folder.
#[derive(Debug, Default)]
pub struct PathList {
    /// Those that exist.
    pub paths: Vec<Vec<u8>>,
    /// Those that do not exist, with the reason.
    pub missing: Vec<Omission>,
}

impl PathList {
    /// Reads a list of paths that end in newlines, or in NUL bytes. The file is named in errors.
    pub fn read(input: &mut dyn Read, file: &Path, has_nulls: bool, workspace: &Path) -> Result<Self> {
        let mut listed = PathList::default();
        let mut known = FolderCache { workspace, folders: HashMap::new() };
        for (number, line) in BufReader::new(input).split(if has_nulls { 0 } else { b'\n' }).enumerate() {
            let mut line = line.at("read", file)?;
            if !has_nulls {
                line = text_line(line, number == 0, file)?;
            }
            if line.is_empty() {
                continue;
            }
            let path = inside(line, workspace, file)?;
            match known.lacks(&path) {
                Some(why) => listed.missing.push(Omission { path, reason: Reason::Unreadable(why) }),
                None => listed.paths.push(path),
            }
        }
        listed.missing.sort_unstable();
        listed.missing.dedup();
        Ok(listed)
    }

    /// Fails where the list names nothing that exists: a checkpoint of nothing would pass for one of everything.
    pub fn ensure_of_use(&self, file: &Path, workspace: &Path) -> Result<()> {
        if !self.paths.is_empty() {
            return Ok(());
        }
        let why = if self.missing.is_empty() { "it lists no path" } else { "none of the paths that it lists exists" };
        let source = std::io::Error::other(format!("{why}\nPaths are taken from {}, one a line", workspace.shown()));
        Err(source).at("create a checkpoint of what is listed in", file)
    }

    /// The paths that a capture with these omissions, which are in order, does not have.
    pub fn left_out(self, omissions: &[Omission]) -> Vec<Omission> {
        self.lacking(omissions, |_| Ok(true))
    }

    /// The paths that are not in a checkpoint. What cannot be looked up, as in a damaged store, counts as one.
    pub fn not_in(self, store: &Store, outcome: &Outcome) -> Vec<Omission> {
        let mut folders = Folders { store, checkpoint: &outcome.checkpoint, last: None };
        self.lacking(&outcome.omissions, |path| folders.has(path))
    }

    fn lacking(self, omissions: &[Omission], mut has: impl FnMut(&[u8]) -> Result<bool, parhelia_store::Error>) -> Vec<Omission> {
        let PathList { mut paths, mut missing } = self;
        // Folder by folder, as they are looked up.
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            let why = match (omitted::covering(omissions, &path), has(&path)) {
                // It is named already.
                (Some(Omission { path: own, reason: Reason::Unreadable(_) }), _) if *own == path => continue,
                (Some(found), _) => why_with(found, &path),
                (None, Ok(true)) => continue,
                (None, Ok(false)) => "it is listed, and was not there any more".to_owned(),
                (None, Err(e)) => format!("it is listed, and cannot be looked up: {e}"),
            };
            missing.push(Omission { path, reason: Reason::Unreadable(why) });
        }
        missing.sort_unstable();
        missing
    }
}

/// The reason for which a listed path is left out with what an omission names.
fn why_with(found: &Omission, path: &[u8]) -> String {
    let what = if found.path == path { String::new() } else { format!("{} is ", display(&found.path)) };
    match &found.reason {
        Reason::Excluded(rule) => format!("it is listed, and {what}excluded ({rule})"),
        Reason::Unreadable(why) | Reason::Attributes(why) => format!("it is listed, and {what}not read: {why}"),
        Reason::Changing => format!("it is listed, and {what}changing"),
    }
}

/// A line of a list of text, without the marks that some editors write.
fn text_line(mut line: Vec<u8>, is_first: bool, file: &Path) -> Result<Vec<u8>> {
    if line.contains(&0) {
        return Err(Error::Invalid(format!(
            "{} holds a NUL byte, which no path has\n{} reads a list whose paths end in NUL bytes, as those of `find -print0` do",
            file.shown(),
            Step::Nulls
        )));
    }
    if is_first {
        line = line.strip_prefix(MARK).unwrap_or(&line).to_vec();
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

/// The path of a line from the workspace folder; empty for that folder itself.
fn inside(line: Vec<u8>, workspace: &Path, file: &Path) -> Result<Vec<u8>> {
    let of = |path: &Path| path.strip_prefix(workspace).ok().map(|inside| inside.as_os_str().as_bytes().to_vec());
    let has_steps_up = |path: &[u8]| name::components(path).any(|part| part == b"..");
    let is_absolute = line.starts_with(b"/");
    let found = match has_steps_up(&line) {
        false if !is_absolute => Some(line.clone()),
        false => of(name::as_path(&line)).or_else(|| resolved(name::as_path(&line)).as_deref().and_then(of)),
        true => resolved(&workspace.join(name::as_path(&line))).as_deref().and_then(of),
    };
    match found {
        Some(path) => Ok(name::components(&path).collect::<Vec<_>>().join(&b'/')),
        None => {
            let (path, file) = (display(&line), file.shown());
            Err(Error::Invalid(format!("{path}, listed in {file}, is not in {}", workspace.shown())))
        }
    }
}

/// A path whose folder has no symlinks; the last part may be one.
pub(crate) fn resolved(path: &Path) -> Option<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Some(folder.canonicalize().ok()?.join(name)),
        _ => path.canonicalize().ok(),
    }
}

/// Folders on the way to listed paths, as far as they are known.
struct FolderCache<'a> {
    workspace: &'a Path,
    /// For each folder, the reason for which capture finds nothing in it; none where it is a folder.
    folders: HashMap<Vec<u8>, Option<String>>,
}

impl FolderCache<'_> {
    /// The reason for which capture will not come to a path; none where it will. What cannot be looked at is left to capture, which says why.
    fn lacks(&mut self, path: &[u8]) -> Option<String> {
        if name::components(path).any(|part| part.len() > NAME_BYTES_MAX) {
            return Some(format!("it is listed, and no file has a name of more than {NAME_BYTES_MAX} bytes"));
        }
        // From the top down, so that nothing below what does not exist is looked at.
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let lost = ends.map(|(at, _)| &path[..at]).find_map(|above| self.is_no_folder(above));
        lost.or_else(|| match fs::symlink_metadata(self.workspace.join(name::as_path(path))) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Some(gone()),
            _ => None,
        })
    }

    fn is_no_folder(&mut self, folder: &[u8]) -> Option<String> {
        if let Some(known) = self.folders.get(folder) {
            return known.clone();
        }
        let found = match fs::symlink_metadata(self.workspace.join(name::as_path(folder))) {
            Ok(meta) if meta.is_symlink() => {
                Some(format!("{} is a symlink, which is not followed; list the path behind it", display(folder)))
            }
            Ok(meta) if !meta.is_dir() => Some(gone()),
            Err(e) if e.kind() == ErrorKind::NotFound => Some(gone()),
            _ => None,
        };
        self.folders.insert(folder.to_vec(), found.clone());
        found
    }
}

/// The reason of a path that does not exist.
fn gone() -> String {
    "it is listed, and does not exist".into()
}

/// The folders of a checkpoint, for looking up paths in order.
struct Folders<'a> {
    store: &'a Store,
    checkpoint: &'a Checkpoint,
    /// The folder that was looked up last, and the names in it.
    last: Option<(Vec<u8>, BTreeSet<Vec<u8>>)>,
}

impl Folders<'_> {
    /// True if the checkpoint has an entry at a path.
    fn has(&mut self, path: &[u8]) -> Result<bool, parhelia_store::Error> {
        let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        let names = match self.last.take() {
            Some((last, names)) if last == folder => names,
            _ => self.names_in(folder)?,
        };
        // The empty path is the workspace folder's own.
        let found = path.is_empty() || names.contains(name);
        self.last = Some((folder.to_vec(), names));
        Ok(found)
    }

    fn names_in(&self, folder: &[u8]) -> Result<BTreeSet<Vec<u8>>, parhelia_store::Error> {
        let node = match self.store.node_at(self.checkpoint, folder) {
            Err(parhelia_store::Error::NoSuchPath { .. }) => return Ok(BTreeSet::new()),
            found => found?,
        };
        let Some((tree, _)) = node.as_folder() else { return Ok(BTreeSet::new()) };
        Ok(self.store.folder(tree)?.into_iter().map(|node| node.name).collect())
    }
}
