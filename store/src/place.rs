//! Identity of a workspace's folder: known again where it was moved to, and missed where its disk is not mounted.

use std::{
    fmt, fs,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, StatxFlags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    error::{IoContext, Result},
    filesystem, mounts, name, sys,
};

/// A session's folder.
// Unknown fields are stored as null: an event that names the workspace sets all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Absolute path; bytes that are not printable UTF-8 are shown as `\xNN`.
    pub path: String,
    /// Inode of the folder, where it is known.
    pub inode: Option<u64>,
    /// Time at which the folder was made, by its filesystem, in seconds.
    pub born: Option<String>,
    /// Id of its filesystem, in hex, where that stays the same when it is mounted again.
    pub filesystem: Option<String>,
    /// Folder on which that is mounted.
    pub mountpoint: Option<String>,
}

impl Place {
    /// The folder's path.
    pub fn folder(&self) -> PathBuf {
        name::as_path(&name::parse(&self.path)).to_owned()
    }
}

/// A workspace's filesystem that is not where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingMount {
    /// The mountpoint that it had.
    pub mountpoint: PathBuf,
    /// True if another filesystem is mounted there.
    pub is_replaced: bool,
}

impl fmt::Display for MissingMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mountpoint = name::display(self.mountpoint.as_os_str().as_bytes());
        match self.is_replaced {
            true => write!(f, "another filesystem is mounted at {mountpoint} than the one that it was on"),
            false => write!(f, "nothing is mounted at {mountpoint}, where its filesystem was"),
        }
    }
}

impl Place {
    /// The folder at a path.
    pub fn of(path: &Path) -> Result<Self> {
        let folder = fs::File::open(path).at("open folder", path)?;
        Ok(Self::of_open(path, folder.as_fd()))
    }

    /// The folder that was opened at a path.
    pub fn of_open(path: &Path, folder: BorrowedFd<'_>) -> Self {
        let mountpoint = filesystem::mount_of(folder).map(|mount| name::display(mount.mountpoint.as_os_str().as_bytes()));
        Place { mountpoint, ..Self::without_mountpoint(path, folder) }
    }

    /// The folder at a path with all that it is known again by, but without its mountpoint, for which all mounts are read.
    pub fn known_by(path: &Path) -> Result<Self> {
        let folder = fs::File::open(path).at("open folder", path)?;
        Ok(Self::without_mountpoint(path, folder.as_fd()))
    }

    fn without_mountpoint(path: &Path, folder: BorrowedFd<'_>) -> Self {
        let filesystem = filesystem::of(folder);
        let lasting = Some(filesystem.id).filter(|id| filesystem.is_lasting() && id.is_known());
        Place {
            path: name::display(path.as_os_str().as_bytes()),
            inode: sys::stat_fd(folder).ok().map(|stat| stat.ino),
            born: born(folder),
            filesystem: lasting.map(|id| id.0.iter().map(|byte| format!("{byte:02x}")).collect()),
            mountpoint: None,
        }
    }

    /// True if another place is the same folder, maybe at another path. An inode number alone does not tell: it is given to the next
    /// folder. Where no more is known of one of them, they are not the same.
    pub fn is_same_folder(&self, other: &Place) -> bool {
        let told = [agree(&self.filesystem, &other.filesystem), agree(&self.born, &other.born)];
        agree(&self.inode, &other.inode) == Some(true) && told.contains(&Some(true)) && !told.contains(&Some(false))
    }

    /// True if another place is certainly another folder. Where too little is known of one of them, it is neither that nor the same.
    pub fn is_another_folder(&self, other: &Place) -> bool {
        let filesystem = agree(&self.filesystem, &other.filesystem);
        let has_other_inode = filesystem == Some(true) && agree(&self.inode, &other.inode) == Some(false);
        filesystem == Some(false) || agree(&self.born, &other.born) == Some(false) || has_other_inode
    }

    /// Says whether the filesystem that it was on is gone from there, as far as can be told: nothing is mounted where it was, or something
    /// else is.
    pub fn lost(&self) -> Option<MissingMount> {
        let mountpoint = name::as_path(&name::parse(self.mountpoint.as_ref()?)).to_owned();
        if mountpoint == Path::new("/") {
            return None;
        }
        if !mounts::all().ok()?.iter().any(|mount| mount.mountpoint == mountpoint) {
            return Some(MissingMount { mountpoint, is_replaced: false });
        }
        let known = self.filesystem.as_ref()?;
        let folder = self.folder();
        let nearest = folder.ancestors().find(|path| path.is_dir())?;
        let is_replaced = Place::of(nearest).ok()?.filesystem.as_ref() != Some(known);
        is_replaced.then_some(MissingMount { mountpoint, is_replaced })
    }
}

/// The comparison of two facts; none where one of them is not known.
fn agree<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> Option<bool> {
    a.as_ref().zip(b.as_ref()).map(|(a, b)| a == b)
}

/// Time at which a folder was made, where its filesystem knows.
fn born(folder: BorrowedFd<'_>) -> Option<String> {
    let found = rustix::fs::statx(folder, Path::new(""), AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let has_it = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    has_it.then(|| format!("{}.{:09}", found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_known_again_where_it_was_moved_to_and_its_inode_number_is_not_enough() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::create_dir(&old).unwrap();
        let place = Place::of(&old).unwrap();
        assert!(place.mountpoint.is_some() && place.inode.is_some());
        fs::rename(&old, &new).unwrap();
        let moved = Place::of(&new).unwrap();
        assert!(place.is_same_folder(&moved) && moved.path != place.path);
        assert!(!place.is_same_folder(&Place::of(dir.path()).unwrap()));
        // The next folder may have its number.
        let reused = Place { born: Some("1.0".into()), ..moved.clone() };
        assert!(!Place { born: Some("2.0".into()), ..place.clone() }.is_same_folder(&reused));
        let elsewhere = Place { filesystem: Some("f".into()), ..moved.clone() };
        assert!(!Place { filesystem: Some("e".into()), ..place.clone() }.is_same_folder(&elsewhere));
        // As earlier releases have recorded it.
        let bare = Place { path: place.path.clone(), inode: place.inode, ..Place::default() };
        assert!(!bare.is_same_folder(&moved) && !bare.is_another_folder(&moved));
        assert!(!place.is_another_folder(&moved) && place.is_another_folder(&Place::of(dir.path()).unwrap()));
        assert_eq!(serde_json::from_str::<Place>(r#"{"path": "/w", "inode": 7}"#).unwrap().inode, Some(7));
    }

    #[test]
    fn a_filesystem_is_lost_where_it_is_not_mounted_or_another_one_is() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::of(dir.path()).unwrap();
        assert_eq!(place.lost(), None);
        let mountpoint = dir.path().join("disk");
        let unmounted = Place { mountpoint: Some(mountpoint.display().to_string()), ..place.clone() };
        assert_eq!(unmounted.lost(), Some(MissingMount { mountpoint, is_replaced: false }));
        let other = Place { path: "/proc/1".into(), mountpoint: Some("/proc".into()), filesystem: Some("f".into()), ..place };
        assert!(other.lost().is_some_and(|lost| lost.is_replaced));
        assert_eq!(Place { path: "/w".into(), ..Place::default() }.lost(), None);
    }
}
