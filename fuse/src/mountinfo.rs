//! What is mounted where, as the kernel tells it, and who uses it.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use crate::error::{Error, Holder, Result};

/// The filesystem type of our mounts.
pub const FS_TYPE: &str = "fuse.parhelia";

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountLine {
    /// The device, as `major:minor`.
    pub device: String,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// Its type.
    pub fs_type: String,
}

/// Undoes the octal escapes of mountinfo.
fn unescape(text: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|digits| byte == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal {
            Some(digits) => {
                out.push(digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = &tail[3..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

fn parse(line: &[u8]) -> Option<MountLine> {
    let mut fields = line.split(|b| *b == b' ');
    let device = fields.nth(2)?;
    let mountpoint = fields.nth(1)?;
    let fs_type = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(MountLine {
        device: String::from_utf8_lossy(device).into_owned(),
        mountpoint: unescape(mountpoint),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
    })
}

/// Everything that is mounted, in order: a later line on the same mountpoint hides an earlier one.
pub fn all() -> Result<Vec<MountLine>> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read(path).map_err(|source| Error::Io { action: "read", path: path.to_owned(), source })?;
    Ok(text.split(|b| *b == b'\n').filter_map(parse).collect())
}

/// What is mounted on a path.
pub fn at(mountpoint: &Path) -> Result<Option<MountLine>> {
    Ok(all()?.into_iter().rev().find(|line| line.mountpoint == mountpoint))
}

/// Our mount on a path.
pub fn ours_at(mountpoint: &Path) -> Result<Option<MountLine>> {
    Ok(at(mountpoint)?.filter(|line| line.fs_type == FS_TYPE))
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
    fn lines_with_optional_fields_and_escapes_are_read() {
        let line = parse(b"36 35 0:98 /mnt1 /a\\040b\\134c ro,noatime master:1 shared:2 - fuse.parhelia parhelia ro").unwrap();
        assert_eq!(line.mountpoint, Path::new("/a b\\c"));
        assert_eq!((line.device.as_str(), line.fs_type.as_str()), ("0:98", FS_TYPE));
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn this_process_holds_its_working_folder() {
        let here = std::env::current_dir().unwrap();
        assert!(holders(&here).iter().any(|holder| holder.process == std::process::id()));
        assert!(at(Path::new("/proc")).unwrap().is_some_and(|line| line.fs_type == "proc"));
    }
}
