//! A store that a user had at a place where there is none: its disk may only not be mounted, and a new store would hide that.

use std::{
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use super::{place_id, read};
use crate::error::MissingStore;

/// The store that was seen last at a place by the user whose notes lie in a folder.
pub(crate) fn last_at(folder: &Path, root: &Path) -> Option<MissingStore> {
    let ending = format!("-{}.json", place_id(&resolved(root)));
    let is_of_place = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name.ends_with(&ending));
    let notes = fs::read_dir(folder).ok()?.flatten().filter(is_of_place).filter_map(|entry| read(&entry.path()));
    let last = notes.max_by_key(|seen| seen.at.parse::<Timestamp>().ok())?;
    Some(MissingStore {
        path: root.to_owned(),
        seen_sequence: last.end.sequence,
        seen_at: last.at,
        lost: last.place.lost().map(|lost| lost.to_string()),
    })
}

/// At most this many symlinks lead to a folder.
const SYMLINKS_MAX: usize = 40;

/// A path without symlinks, also where what it leads to does not exist: a mount point may only be there while something is mounted on it.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let Ok(mut at) = std::path::absolute(path) else { return path.to_owned() };
    let (mut below, mut symlinks) = (PathBuf::new(), 0);
    loop {
        if let Ok(found) = at.canonicalize() {
            // Joined to nothing, a path would end in a slash.
            return if below.as_os_str().is_empty() { found } else { found.join(below) };
        }
        let (Some(above), Some(name)) = (at.parent(), at.file_name()) else { return path.to_owned() };
        match fs::read_link(&at) {
            Ok(target) if symlinks < SYMLINKS_MAX => {
                symlinks += 1;
                at = above.join(target);
            }
            _ => {
                below = if below.as_os_str().is_empty() { name.into() } else { Path::new(name).join(below) };
                at = above.to_owned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::Error,
        event::{Actor, NewEvent},
        store::{OpenOptions, Store},
    };

    #[test]
    fn no_new_store_takes_the_place_of_one_that_was_seen_unless_that_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let (disk, link) = (dir.path().join("disk"), dir.path().join("link"));
        let root = disk.join("store");
        std::os::unix::fs::symlink("disk/store", &link).unwrap();
        let options = OpenOptions { create: true, memory: Some(dir.path().join("state")), ..OpenOptions::default() };
        let refused = |root: &Path| Store::open(root, &options).unwrap_err();
        fs::create_dir(&disk).unwrap();
        let store = Store::open(&root, &options).unwrap();
        drop(store.append_events(&[NewEvent::new("test.noted", "it", Actor::default())], &()).unwrap());
        drop(store);
        let away = dir.path().join("away");
        for is_empty in [false, true] {
            fs::rename(&root, &away).unwrap();
            if is_empty {
                fs::create_dir(&root).unwrap();
            }
            for place in [&root, &link, &disk.join("../disk/store")] {
                let error = refused(place);
                assert!(matches!(error, Error::StoreMissing(_)), "{error}");
                assert!(error.to_string().contains("went up to journal entry 1 on 2"), "{error}");
                assert_eq!(root.exists(), is_empty, "nothing is made");
            }
            let _ = fs::remove_dir(&root);
            fs::rename(&away, &root).unwrap();
            Store::open(&link, &options).unwrap();
        }
        // A mount point that is gone with its disk, behind a symlink.
        fs::rename(&disk, &away).unwrap();
        assert!(matches!(refused(&link), Error::StoreMissing(_)));
        assert!(!disk.exists());
        Store::open(&dir.path().join("elsewhere"), &options).unwrap();
        Store::open(&root, &OpenOptions { anew: true, ..options.clone() }).unwrap();
        assert!(Store::open(&root, &options).unwrap().view().checkpoints().unwrap().is_empty());
    }

    #[test]
    fn a_symlink_to_nothing_is_no_place_for_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for create in [false, true] {
            for root in [link.clone(), link.join("store")] {
                let error = Store::open(&root, &OpenOptions { create, ..OpenOptions::default() }).unwrap_err();
                assert!(matches!(&error, Error::NotAStore { reason, .. } if reason.contains("link leads to nothing")), "{error}");
            }
        }
        assert!(!dir.path().join("nowhere").exists());
    }
}
