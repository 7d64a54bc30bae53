//! A walk down a live tree and up again, with one folder open at a time: a tree may be deeper than there are file descriptors, and deeper
//! than a stack.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{Mode, OFlags},
    io::{Errno, Result, fcntl_dupfd_cloexec},
};

use crate::sys::{self, Stat};

/// A folder on the way from the first one to the open one.
struct Level {
    /// Names that were not visited yet; the last one comes next.
    left: Vec<Vec<u8>>,
    id: (u64, u64),
    /// Offset of its own name in the path.
    start: usize,
    stays: bool,
    mode_before: Option<u32>,
}

/// A walk under way.
pub struct Descent {
    fd: OwnedFd,
    path: Vec<u8>,
    levels: Vec<Level>,
}

impl Descent {
    /// Begins in an open folder, at these of its names. `path` is that of the folder.
    pub fn new(folder: BorrowedFd<'_>, path: &[u8], names: Vec<Vec<u8>>) -> Result<Self> {
        let fd = fcntl_dupfd_cloexec(folder, 0)?;
        let stat = sys::stat_fd(&fd)?;
        let first = Level { left: names, id: (stat.dev, stat.ino), start: path.len(), stays: false, mode_before: None };
        Ok(Descent { fd, path: path.to_vec(), levels: vec![first] })
    }

    /// The folder that the walk is in, open for calls relative to it.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next name in the open folder.
    pub fn next_name(&mut self) -> Option<Vec<u8>> {
        self.levels.last_mut()?.left.pop()
    }

    /// Calls `with` with the path of an entry of the open folder.
    pub fn at_path<T>(&mut self, name: &[u8], with: impl FnOnce(&[u8]) -> T) -> T {
        let bytes = self.path.len();
        self.push(name);
        let done = with(&self.path);
        self.path.truncate(bytes);
        done
    }

    fn push(&mut self, name: &[u8]) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
    }

    /// Goes down into a folder of the open one, to visit these of its names.
    pub fn enter(&mut self, name: &[u8], fd: OwnedFd, stat: &Stat, names: Vec<Vec<u8>>) {
        self.push(name);
        self.go_down(name.len(), fd, stat, names);
    }

    /// The same, where the path of the folder is not that of its name.
    pub fn enter_at(&mut self, path: &[u8], fd: OwnedFd, stat: &Stat, names: Vec<Vec<u8>>) {
        self.path = path.to_vec();
        self.go_down(path.len(), fd, stat, names);
    }

    fn go_down(&mut self, name_bytes: usize, fd: OwnedFd, stat: &Stat, names: Vec<Vec<u8>>) {
        let start = self.path.len() - name_bytes;
        self.levels.push(Level { left: names, id: (stat.dev, stat.ino), start, stays: false, mode_before: None });
        self.fd = fd;
    }

    /// Goes up again, and gives the name of the folder that was left, or the path with which it was entered. `None` where the walk began.
    pub fn leave(&mut self) -> Result<Option<Vec<u8>>> {
        let [.., above, level] = &self.levels[..] else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, "..", flags, Mode::empty())?;
        let stat = sys::stat_fd(&fd)?;
        if (stat.dev, stat.ino) != above.id {
            // Somebody has moved the folder: this is not where the walk came from.
            return Err(Errno::STALE);
        }
        let name = self.path[level.start..].to_vec();
        self.path.truncate(level.start.saturating_sub(1));
        self.levels.pop();
        self.fd = fd;
        Ok(Some(name))
    }

    /// True if the open folder is the one where the walk began.
    pub fn is_first(&self) -> bool {
        self.levels.len() <= 1
    }

    /// Notes that something in the open folder stays, and so it does itself.
    pub fn keep(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.stays = true;
        }
    }

    /// True if the open folder stays.
    pub fn stays(&self) -> bool {
        self.levels.last().is_some_and(|level| level.stays)
    }

    /// Notes which mode the open folder had before it was changed.
    pub fn note_mode(&mut self, mode: u32) {
        if let Some(level) = self.levels.last_mut() {
            level.mode_before = Some(mode);
        }
    }

    /// The mode that the open folder had before it was changed.
    pub fn mode_before(&self) -> Option<u32> {
        self.levels.last().and_then(|level| level.mode_before)
    }
}
