//! A bare parallel walk: relative to directory handles, one `fstatat` per entry, nothing else.
//!
//! It is the floor that a checkpoint of an unchanged tree is compared with.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat};

use crate::error::{Context, Error, Result};

/// The bytes of directory entries that are fetched at once.
const DIRENTS_BYTES: usize = 64 * 1024;

/// One entry of a folder, as a visitor sees it.
pub struct Entry<'a> {
    /// The open folder that holds the entry.
    pub folder: BorrowedFd<'a>,
    /// The entry's name in that folder.
    pub name: &'a CStr,
    /// The result of `fstatat`, symbolic links not followed.
    pub stat: &'a Stat,
}

impl Entry<'_> {
    /// The kind of the entry.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

/// Sees every entry below a root; each thread of a walk has its own.
pub trait Visitor: Send {
    /// Called once for each entry, folders included, the root left out.
    fn entry(&mut self, entry: &Entry<'_>) -> Result<()>;
}

/// Walks `root` with one thread per visitor, and gives the visitors back.
pub fn walk<V: Visitor>(root: &Path, visitors: Vec<V>) -> Result<Vec<V>> {
    let queue = Queue::new(root)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = visitors
            .into_iter()
            .map(|mut visitor| {
                let queue = &queue;
                scope.spawn(move || {
                    let outcome = work(queue, &mut visitor);
                    if outcome.is_err() {
                        queue.stop();
                    }
                    outcome.map(|()| visitor)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(Error::new("a walking thread panicked")))).collect()
    })
}

/// Counts entries, files and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Everything, folders and links included.
    pub entries: u64,
    /// Number of regular files.
    pub files: u64,
    /// Sum of the sizes of regular files.
    pub bytes: u64,
    /// Sum of what entries occupy on the disk, as `du` counts.
    pub allocated: u64,
}

impl Visitor for Count {
    fn entry(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.entries += 1;
        if entry.kind() == FileType::RegularFile {
            self.files += 1;
            self.bytes += entry.stat.st_size as u64;
        }
        self.allocated += entry.stat.st_blocks as u64 * 512;
        Ok(())
    }
}

/// Counts what is below a folder, with two threads.
pub fn count(root: &Path) -> Result<Count> {
    let parts = walk(root, vec![Count::default(); 2])?;
    Ok(parts.iter().fold(Count::default(), |sum, part| Count {
        entries: sum.entries + part.entries,
        files: sum.files + part.files,
        bytes: sum.bytes + part.bytes,
        allocated: sum.allocated + part.allocated,
    }))
}

struct Folder {
    parent: Option<Arc<OwnedFd>>,
    name: CString,
}

struct State {
    folders: Vec<Folder>,
    busy: usize,
    stopped: bool,
}

/// Folders that wait to be read, newest first, which keeps few handles open.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn new(root: &Path) -> Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        let name = CString::new(root.as_os_str().as_bytes()).context(|| format!("walk {}", root.display()))?;
        let root = Folder { parent: None, name };
        Ok(Self { state: Mutex::new(State { folders: vec![root], busy: 0, stopped: false }), changed: Condvar::new() })
    }

    fn take(&self) -> Option<Folder> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.stopped {
                return None;
            }
            if let Some(folder) = state.folders.pop() {
                state.busy += 1;
                return Some(folder);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, found: &mut Vec<Folder>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.folders.append(found);
        state.busy -= 1;
        drop(state);
        self.changed.notify_all();
    }

    fn stop(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.stopped = true;
        drop(state);
        self.changed.notify_all();
    }
}

fn work<V: Visitor>(queue: &Queue, visitor: &mut V) -> Result<()> {
    let mut buffer = vec![MaybeUninit::uninit(); DIRENTS_BYTES];
    let mut found = Vec::new();
    while let Some(folder) = queue.take() {
        let name = folder.name.to_string_lossy().into_owned();
        read_folder(&folder, &mut buffer, &mut found, visitor).context(|| format!("in folder {name}"))?;
        queue.done(&mut found);
    }
    Ok(())
}

fn read_folder<V: Visitor>(
    folder: &Folder,
    buffer: &mut [MaybeUninit<u8>],
    found: &mut Vec<Folder>,
    visitor: &mut V,
) -> Result<()> {
    let parent = folder.parent.as_ref().map_or(rustix::fs::CWD, |fd| fd.as_fd());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(parent, &folder.name, flags, Mode::empty()).context(|| "open the folder")?;
    let fd = Arc::new(fd);
    let mut entries = RawDir::new(&fd, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.context(|| "read the folder")?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let stat =
            rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW).context(|| format!("stat {}", name.to_string_lossy()))?;
        let entry = Entry { folder: fd.as_fd(), name, stat: &stat };
        visitor.entry(&entry)?;
        if entry.kind() == FileType::Directory {
            found.push(Folder { parent: Some(Arc::clone(&fd)), name: name.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_below_the_root_is_counted_once() {
        let root = tempfile::tempdir().unwrap();
        for folder in 0..20 {
            let path = root.path().join(format!("a{folder}/b/c"));
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("file"), [0; 10]).unwrap();
            std::os::unix::fs::symlink("file", path.join("link")).unwrap();
        }
        let count = count(root.path()).unwrap();
        assert_eq!((count.entries, count.files, count.bytes), (100, 20, 200));
    }

    #[test]
    fn a_missing_root_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let error = count(&root.path().join("nothing")).unwrap_err();
        assert!(error.chain().contains("nothing"), "{}", error.chain());
    }
}
