//! The files in which a server keeps its state: those that the configuration of parhelia names, and those that known servers are given.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use parhelia_agent::{mcp::Transport, process::canonical, regular};
use parhelia_store::name;

use super::{inside, saved::SavedFile};

/// A variable by which a known server is told its file: `@modelcontextprotocol/server-memory`.
const VARIABLES: [&str; 1] = ["MEMORY_FILE_PATH"];
/// No more files of a server are kept.
const FILES_MAX: usize = 1000;

/// A file's bytes, if there are any, and what is recorded of it.
pub type Read = (SavedFile, Option<Vec<u8>>);

/// The bytes that the files of all servers together may have: they are in memory at a time.
#[derive(Debug)]
pub struct Total(AtomicU64);

impl Total {
    /// So many.
    pub fn of(bytes: u64) -> Self {
        Total(AtomicU64::new(bytes))
    }

    /// Takes some of them, if there are as many left.
    fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

/// The paths that are declared for a server, of which the flag says whether a project configures it. Such a one is believed only about files of
/// the workspace.
pub fn paths(configured: &[PathBuf], server: Option<(&Transport, bool)>, workspace: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = configured.iter().filter_map(|path| from(path, workspace, home)).collect();
    if let Some((Transport::Started { variables, .. }, is_projects)) = server {
        let named = VARIABLES.iter().filter_map(|name| variables.get(*name)).map(PathBuf::from);
        let named = named.filter(|path| path.is_absolute() && is_plain(path));
        paths.extend(named.filter(|path| !is_projects || path.starts_with(workspace)));
    }
    paths.retain(|path| !leads_out(path, workspace));
    paths.sort();
    paths.dedup();
    paths
}

/// True of a path that leads through the workspace and out of it over a link: whoever can write there could have any file captured, or
/// overwritten.
pub fn leads_out(path: &Path, workspace: &Path) -> bool {
    inside::is_through(path, workspace) && !canonical(path).starts_with(canonical(workspace))
}

fn from(path: &Path, workspace: &Path, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => Some(home?.join(rest)),
        Err(_) => Some(workspace.join(path)),
    }
}

/// True of a path without `..`, which would lead out of a folder that it seems to lie in.
pub fn is_plain(path: &Path) -> bool {
    !path.components().any(|part| part == Component::ParentDir)
}

/// The files at some paths, folders with all in them. Fails with what cannot be read.
pub fn read(paths: &[PathBuf], workspace: &Path, bytes_max: u64, total: &Total) -> Result<Vec<Read>, String> {
    let mut found = Vec::new();
    let mut left = bytes_max;
    let mut open: Vec<PathBuf> = paths.iter().rev().cloned().collect();
    while let Some(path) = open.pop() {
        let failed = |e: std::io::Error| format!("{} cannot be read: {e}", path.display());
        let metadata = match fs::metadata(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                found.push((SavedFile { path: shown(&path, workspace), file: None, bytes: None, mode: None }, None));
                continue;
            }
            other => other.map_err(failed)?,
        };
        if metadata.is_dir() {
            // Links in it are not followed: they could lead round in a circle.
            let entries = fs::read_dir(&path).map_err(failed)?.flatten();
            let mut entries: Vec<PathBuf> = entries
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_file()))
                .map(|entry| entry.path())
                .collect();
            entries.sort_by(|a, b| b.cmp(a));
            open.extend(entries);
            continue;
        }
        let file = inside::open(&path, workspace).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.len() > left {
            return Err(format!("they have more than {bytes_max} bytes, as {} shows (`mcp.max_state_bytes`)", path.display()));
        }
        if !total.take(metadata.len()) {
            return Err("the files of all servers together are too large (four times `mcp.max_state_bytes`)".into());
        }
        let bytes = regular::read_from(file, left).map_err(failed)?;
        left -= bytes.len() as u64;
        let mode = Some(metadata.permissions().mode() & 0o777);
        let file = SavedFile { path: shown(&path, workspace), file: None, bytes: Some(bytes.len() as u64), mode };
        found.push((file, Some(bytes)));
        if found.len() > FILES_MAX {
            return Err(format!("there are more than {FILES_MAX} files"));
        }
    }
    Ok(found)
}

/// A path as it is recorded.
fn shown(path: &Path, workspace: &Path) -> String {
    name::display(path.strip_prefix(workspace).unwrap_or(path).as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_servers_files_together_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "12345").unwrap();
        let total = Total::of(9);
        let read = || read(std::slice::from_ref(&file), folder.path(), 100, &total);
        assert_eq!(read().unwrap().len(), 1);
        assert!(read().unwrap_err().contains("all servers together"));
    }

    #[test]
    fn a_path_that_leads_up_is_not_plain() {
        assert!(is_plain(Path::new("/a/b")) && !is_plain(Path::new("/a/../b")));
    }
}
