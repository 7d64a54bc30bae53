//! Our mounts among all mounts, and the processes that use them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use parhelia_store::mounts::{self, FS_TYPE, Mount};

use crate::error::{Holder, Result};

/// The mount on a path.
pub fn at(mountpoint: &Path) -> Result<Option<Mount>> {
    Ok(mounts::all()?.into_iter().rev().find(|line| line.mountpoint == mountpoint))
}

/// Our mount on a path.
pub fn ours_at(mountpoint: &Path) -> Result<Option<Mount>> {
    Ok(at(mountpoint)?.filter(|line| line.fs_type == FS_TYPE))
}

/// The mounts below a mountpoint.
pub fn inside(mountpoint: &Path) -> Vec<PathBuf> {
    let all = mounts::all().unwrap_or_default().into_iter().map(|line| line.mountpoint);
    all.filter(|path| path.starts_with(mountpoint) && path != mountpoint).collect()
}

/// The processes that use something below a mountpoint, as far as `/proc` shows them.
pub fn holders(mountpoint: &Path) -> Vec<Holder> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for process in processes.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let folder = process.path();
        if let Some(path) = used(&folder, mountpoint) {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            found.push(Holder { process: id, name: name.trim().to_owned(), path });
        }
    }
    found.sort_by_key(|holder| holder.process);
    found
}

fn used(process: &Path, mountpoint: &Path) -> Option<PathBuf> {
    let own = ["cwd", "root", "exe"].into_iter().map(|name| process.join(name));
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let mapped = fs::read_dir(process.join("map_files")).into_iter().flatten().flatten().map(|entry| entry.path());
    own.chain(open).chain(mapped).filter_map(|link| fs::read_link(link).ok()).find(|target| target.starts_with(mountpoint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_holds_its_working_folder() {
        let here = std::env::current_dir().unwrap();
        assert!(holders(&here).iter().any(|holder| holder.process == std::process::id()));
        assert!(at(Path::new("/proc")).unwrap().is_some_and(|line| line.fs_type == "proc"));
    }
}
