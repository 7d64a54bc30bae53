//! `checkpoint create --files-from`: the list of paths to capture.

use parhelia_store::name::Shown as _;
use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, ErrorKind, Read},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use parhelia_store::{
    name,
    omitted::{Omission, Reason},
};

use crate::{
    exit::{Failure, Result},
    human,
    input::without_mark,
};

/// The paths of a list, from the workspace folder.
#[derive(Debug, Default)]
pub struct Listed {
    /// All of them, also those that do not exist.
    pub paths: Vec<Vec<u8>>,
    /// Those that do not exist, with the reason.
    pub missing: Vec<Omission>,
}

/// Reads a list. Fails where it names nothing that exists: a checkpoint of nothing would pass for one of everything.
pub fn paths(file: &Path, workspace: &Path) -> Result<Listed> {
    let failed = |source| Failure::File { action: "read", path: file.to_owned(), source };
    let input: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(fs::File::open(file).map_err(failed)?),
    };
    let mut listed = Listed::default();
    let mut known = Known { workspace, folders: HashMap::new() };
    for (number, line) in BufReader::new(input).split(b'\n').enumerate() {
        let mut line = line.map_err(failed)?;
        if number == 0 {
            line = without_mark(&line).to_vec();
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.is_empty() {
            continue;
        }
        let path = inside(line, workspace, file)?;
        if let Some(why) = known.lacks(&path) {
            listed.missing.push(Omission { path: path.clone(), reason: Reason::Unreadable(why) });
        }
        listed.paths.push(path);
    }
    let is_any_there = listed.missing.len() < listed.paths.len();
    listed.missing.sort_unstable();
    listed.missing.dedup();
    if is_any_there {
        return Ok(listed);
    }
    for omission in &listed.missing {
        tell!("parhelia: {}", crate::changed::omission_text(omission));
    }
    let why = if listed.paths.is_empty() { "it lists no path" } else { "none of the paths that it lists exists" };
    let source = std::io::Error::other(format!("{why}\nPaths are taken from {}, one a line", workspace.shown()));
    Err(Failure::File { action: "create a checkpoint of what is listed in", path: file.to_owned(), source })
}

/// The path of a line from the workspace folder; empty for that folder itself.
fn inside(line: Vec<u8>, workspace: &Path, file: &Path) -> Result<Vec<u8>> {
    let path = match name::as_path(&line).strip_prefix(workspace) {
        Ok(inside) if line.starts_with(b"/") => inside.as_os_str().as_bytes().to_vec(),
        _ => line,
    };
    let parts: Vec<&[u8]> = name::components(&path).collect();
    if path.starts_with(b"/") || parts.contains(&&b".."[..]) {
        let (path, file) = (human::path(&path), file.shown());
        return Err(Failure::Usage(format!("{path}, listed in {file}, is not in {}", workspace.shown())));
    }
    Ok(parts.join(&b'/'))
}

/// Folders on the way to listed paths, as far as they are known.
struct Known<'a> {
    workspace: &'a Path,
    /// For each folder, the reason for which capture finds nothing in it; none where it is a folder.
    folders: HashMap<Vec<u8>, Option<String>>,
}

impl Known<'_> {
    /// The reason for which capture will not come to a path; none where it will. What cannot be looked at is left to capture, which says why.
    fn lacks(&mut self, path: &[u8]) -> Option<String> {
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
                Some(format!("{} is a symlink, which is not followed; list the path behind it", human::path(folder)))
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
