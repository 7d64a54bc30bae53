//! Mounted filesystems and their mountpoints, as the kernel tells them.

use std::{
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use crate::error::{IoContext, Result};

/// The filesystem type of a mounted checkpoint, and of a mounted store.
pub const FS_TYPE: &str = "fuse.parhelia";

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its number among those that exist.
    pub id: u64,
    /// The device, as `major:minor`.
    pub device: String,
    /// The folder of its filesystem that is mounted: `/`, or another one of a bind mount or a subvolume.
    pub root: PathBuf,
    /// Absolute path at which it is mounted, in this process's mount namespace.
    pub mountpoint: PathBuf,
    /// Type of the filesystem, such as `ext4` or `fuse.parhelia`.
    pub fs_type: String,
    /// The source: a device, a server's folder, or whatever its program says.
    pub source: Vec<u8>,
    /// The options of the filesystem itself, as the kernel writes them.
    pub options: Vec<u8>,
}

impl Mount {
    /// The device as `stat` gives it.
    pub fn dev(&self) -> Option<u64> {
        let (major, minor) = self.device.split_once(':')?;
        Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
    }
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

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|b| *b == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = fields.nth(1)?;
    let root = fields.next()?;
    let mountpoint = fields.next()?;
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let fs_type = fields.next()?;
    Some(Mount {
        id,
        device: String::from_utf8_lossy(device).into_owned(),
        root: unescape(root),
        mountpoint: unescape(mountpoint),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
        source: fields.next().unwrap_or_default().to_vec(),
        options: fields.next().unwrap_or_default().to_vec(),
    })
}

/// Everything that is mounted, in order: a later line on the same mountpoint hides an earlier one.
pub fn all() -> Result<Vec<Mount>> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read(path).at("read", path)?;
    Ok(text.split(|b| *b == b'\n').filter_map(parse).collect())
}

/// The other paths of a folder: those that lead to it through other mounts of its filesystem. None where the kernel does not tell.
pub fn other_paths(folder: &Path) -> Vec<PathBuf> {
    let (Ok(mounts), Ok(stat)) = (all(), fs::metadata(folder)) else { return Vec::new() };
    let around = mounts.iter().filter(|mount| folder.starts_with(&mount.mountpoint));
    // Of two on the same mountpoint, the later one hides the earlier.
    let Some(own) = around.max_by_key(|mount| mount.mountpoint.as_os_str().len()) else { return Vec::new() };
    let Ok(inside) = folder.strip_prefix(&own.mountpoint) else { return Vec::new() };
    let in_filesystem = own.root.join(inside);
    let of_same = mounts.iter().filter(|mount| mount.device == own.device && mount.id != own.id);
    let paths = of_same.filter_map(|mount| Some(joined(&mount.mountpoint, in_filesystem.strip_prefix(&mount.root).ok()?)));
    // Something else may be mounted over it.
    let is_same = |path: &PathBuf| {
        path != folder && fs::metadata(path).is_ok_and(|other| (other.dev(), other.ino()) == (stat.dev(), stat.ino()))
    };
    let mut found: Vec<PathBuf> = paths.filter(is_same).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// A path below a folder, without a slash behind it where that is empty.
fn joined(folder: &Path, inside: &Path) -> PathBuf {
    if inside.as_os_str().is_empty() { folder.to_owned() } else { folder.join(inside) }
}

/// The mounted checkpoints and stores below a folder. None where the kernel does not tell.
pub fn ours_below(folder: &Path) -> Vec<Mount> {
    let below = |mount: &Mount| mount.fs_type == FS_TYPE && mount.mountpoint.starts_with(folder) && mount.mountpoint != folder;
    all().unwrap_or_default().into_iter().filter(below).collect()
}

/// True if this is the device of a mounted checkpoint or store, as far as the kernel tells.
pub fn is_ours(device: u64) -> bool {
    all().unwrap_or_default().iter().any(|mount| mount.fs_type == FS_TYPE && mount.dev() == Some(device))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::process::Command;

    use super::*;

    /// A folder that is shown at another one as a mounted checkpoint is, until this goes. Who uses it needs root.
    pub(crate) struct BindMount(PathBuf);

    impl BindMount {
        pub(crate) fn at(content: &Path, folder: &Path) -> Self {
            // What is not empty is not taken by every release of it, but by mount.
            let (dir, run) = (tempfile::tempdir().unwrap(), |program: &mut Command| assert!(program.status().unwrap().success()));
            run(Command::new("bindfs").args(["-o", "subtype=parhelia"]).args([content, dir.path()]));
            run(Command::new("mount").arg("--bind").args([dir.path(), folder]));
            run(Command::new("umount").arg(dir.path()));
            assert!(all().unwrap().iter().any(|mount| mount.mountpoint == folder && mount.fs_type == FS_TYPE));
            BindMount(folder.to_owned())
        }
    }

    impl Drop for BindMount {
        fn drop(&mut self) {
            _ = Command::new("umount").arg(&self.0).status();
        }
    }

    #[test]
    fn lines_with_optional_fields_and_escapes_are_read() {
        let line = parse(b"36 35 0:98 /mnt1 /a\\040b\\134c ro,noatime master:1 shared:2 - fuse.parhelia parhelia ro").unwrap();
        assert_eq!((line.root.as_path(), line.mountpoint.as_path()), (Path::new("/mnt1"), Path::new("/a b\\c")));
        assert_eq!((line.dev(), line.fs_type.as_str()), (Some(rustix::fs::makedev(0, 98)), FS_TYPE));
        assert_eq!(parse(b""), None);
        assert!(all().unwrap().iter().any(|mount| mount.mountpoint == Path::new("/proc") && mount.fs_type == "proc"));
    }
}
