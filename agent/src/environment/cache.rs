//! Earlier findings, each with the files that it depends on. A cache that cannot be read or written costs time and nothing else.

#![expect(clippy::disallowed_methods, reason = "its files are in the user's cache folder")]

use std::{
    fs, io,
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::regular;

/// A longer file is not read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Version of what is cached.
const CACHE_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Entry<T> {
    version: u32,
    depends: String,
    value: T,
}

/// A folder of cached values; none where nothing is to be cached.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// One in a folder, which is made when it is needed.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Cache { folder }
    }

    /// The value of this name that was found when everything that it depends on was the same, or a new one.
    pub(super) fn get<T: Serialize + DeserializeOwned, E>(
        &self,
        name: &str,
        depends: &impl Serialize,
        find: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let depends = serde_json::to_string(depends).unwrap_or_default();
        // Several workspaces or programs have entries side by side.
        let id = blake3::hash(depends.as_bytes()).to_hex();
        let path = self.folder.as_ref().map(|folder| folder.join(format!("{name}-{}.json", &id[..16])));
        if let Some(value) = path.as_deref().and_then(|path| read(path, &depends)) {
            return Ok(value);
        }
        let value = find()?;
        let entry = Entry { version: CACHE_VERSION, depends, value };
        if let Some(path) = path {
            let _ = write(&path, &entry);
        }
        Ok(entry.value)
    }
}

fn read<T: DeserializeOwned>(path: &Path, depends: &str) -> Option<T> {
    let entry: Entry<T> = serde_json::from_slice(&regular::read(path, FILE_BYTES_MAX).ok()?).ok()?;
    (entry.version == CACHE_VERSION && entry.depends == depends).then_some(entry.value)
}

fn write<T: Serialize>(path: &Path, entry: &Entry<T>) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    // One that a dead process of this number has left.
    let _ = fs::remove_file(&temporary);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(entry)?)?;
    fs::rename(&temporary, path)
}

/// The identity of an unchanged file or folder: path, size, times, inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Stamp {
    path: PathBuf,
    found: Option<(u64, i64, i64, i64, i64, u64)>,
}

impl Stamp {
    /// Of a path as it is now; also of one that is not there.
    pub fn of(path: &Path) -> Self {
        let found = fs::metadata(path).ok();
        let found = found.map(|m| (m.len(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec(), m.ino()));
        Stamp { path: path.to_owned(), found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_once_until_what_it_depends_on_changes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path().join("deep/cache")));
        let file = folder.path().join("f");
        let get = |found: u32| cache.get("n", &Stamp::of(&file), || Ok::<_, ()>(found)).unwrap();
        assert_eq!((get(1), get(2)), (1, 1));
        fs::write(&file, "x").unwrap();
        assert_eq!((get(3), get(4)), (3, 3));
        for entry in fs::read_dir(folder.path().join("deep/cache")).unwrap() {
            fs::write(entry.unwrap().path(), "damaged").unwrap();
        }
        assert_eq!((get(5), get(6)), (5, 5));
        assert_eq!(Cache::default().get("n", &1, || Ok::<_, ()>(7)), Ok(7));
        assert_eq!(cache.get("n", &2, || Err::<u32, _>("no")), Err("no"));
    }
}
