//! Content of the files of a state.

#![expect(clippy::disallowed_methods, reason = "reads what a checkpoint is made of")]

use std::{
    fs::File,
    io::Write,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use rustix::{fs::MemfdFlags, io::Errno};

use super::{ATTEMPTS, StateContent};
use crate::{
    clock::Clock,
    create::{
        append_cache::{self, AppendCache},
        content::{Earlier, Failure, Reader},
        sink::Batch,
    },
    error::Result,
    filesystem::Filesystems,
    format::SINGLE_CHUNK_BYTES,
    id::{BlobId, TreeId},
    pin::Pin,
    store::Store,
    sys,
    tree::Kind,
    writers::Writers,
};

pub(super) struct StateWriter<'t, 'a> {
    pub(super) store: &'t Store,
    pub(super) pin: &'t mut Pin,
    pub(super) before: Option<TreeId>,
    pub(super) batch: Batch<'a>,
    pub(super) reader: Reader<'a>,
    pub(super) grown: Vec<(PathBuf, AppendCache)>,
    pub(super) read: (u64, u64),
    pub(super) filesystems: Filesystems,
    pub(super) writers: Writers,
}

impl StateWriter<'_, '_> {
    /// Content of the file at a path of the state in the checkpoint before. One that cannot be read there is not built upon.
    pub(super) fn before(&self, path: &str) -> Result<Option<(BlobId, u64)>> {
        let mut tree = self.before;
        let mut found = None;
        for part in path.split('/') {
            let Some(folder) = tree.take() else { return Ok(None) };
            found = match self.store.entry(folder, part.as_bytes()) {
                Ok(entry) => entry,
                Err(e) if e.is_damage() => None,
                Err(e) => return Err(e),
            };
            tree = found.as_ref().and_then(|node| node.as_folder()).map(|(tree, _)| tree);
        }
        Ok(found.and_then(|node| match node.kind {
            Kind::File { size, blob, .. } => Some((blob, size)),
            _ => None,
        }))
    }

    pub(super) fn content(
        &mut self,
        content: &StateContent,
        name: &str,
        earlier: &Earlier<'_>,
    ) -> Result<(BlobId, u64), Failure> {
        let (blob, size, read) = match content {
            StateContent::Bytes(bytes) => {
                let blob = put_bytes(&mut self.reader, &mut self.batch, bytes, name, earlier)?;
                (blob, bytes.len() as u64, bytes.len() as u64)
            }
            StateContent::File { path } => self.file(path, name, earlier)?,
            StateContent::Beginning { path, bytes } => self.beginning(path, *bytes, name, earlier)?,
        };
        self.read = (self.read.0 + 1, self.read.1 + read);
        Ok((blob, size))
    }

    /// The first bytes of a file that only grows.
    pub(super) fn beginning(
        &mut self,
        path: &Path,
        bytes: u64,
        name: &str,
        earlier: &Earlier<'_>,
    ) -> Result<(BlobId, u64, u64), Failure> {
        let file = open(path)?;
        let before = self.known(path)?;
        let found = append_cache::read(&mut self.reader, &mut self.batch, &file, bytes, before, name.as_bytes(), earlier)?;
        self.grown.push((path.to_owned(), found.grown));
        Ok((found.blob, bytes, found.bytes_read))
    }

    /// A whole file. One that changes while it is read is read again.
    pub(super) fn file(&mut self, path: &Path, name: &str, earlier: &Earlier<'_>) -> Result<(BlobId, u64, u64), Failure> {
        let mut bytes_read = 0;
        for attempt in 1..=ATTEMPTS {
            // Whoever replaces a file leaves us the one that we have opened.
            let file = open(path)?;
            let stat = sys::stat_fd(&file)?;
            let clock = Clock::now();
            let filesystem = self.filesystems.of(file.as_fd(), stat.dev);
            let known = self.known(path)?.filter(|known| known.is_unchanged(&filesystem, &stat, &clock));
            let may_change_unseen = self.writers.may_change_unseen(file.as_fd(), &filesystem, &stat);
            let read = append_cache::read(&mut self.reader, &mut self.batch, &file, stat.size, known, name.as_bytes(), earlier);
            let found = match read {
                Err(Failure::Unreadable(Errno::AGAIN)) => continue,
                read => read?,
            };
            bytes_read += found.bytes_read;
            let after = sys::stat_fd(&file)?;
            let is_still = (after.size, after.mtime, after.ctime) == (stat.size, stat.mtime, stat.ctime);
            // One that keeps growing is kept as it was when it was looked at last.
            if is_still || attempt == ATTEMPTS && after.size > stat.size {
                let is_settled = is_still && !may_change_unseen;
                let grown = if is_settled { found.grown.settled(&filesystem, &stat, clock) } else { found.grown };
                self.grown.push((path.to_owned(), grown));
                return Ok((found.blob, stat.size, bytes_read));
            }
        }
        Err(Failure::Unreadable(Errno::AGAIN))
    }

    /// Append cache of a file that grows, if the checkpoint that has its chunks still exists, and is kept for as long as this run.
    pub(super) fn known(&mut self, path: &Path) -> Result<Option<AppendCache>> {
        let Some((base, grown)) = AppendCache::read(self.store.layout(), path) else { return Ok(None) };
        self.pin.add([base])?;
        Ok(self.store.refresh()?.checkpoint(base)?.map(|_| grown))
    }
}

/// Stores bytes as the content of a file of this name.
pub(crate) fn put_bytes(
    reader: &mut Reader<'_>,
    batch: &mut Batch<'_>,
    bytes: &[u8],
    name: &str,
    earlier: &Earlier<'_>,
) -> Result<BlobId, Failure> {
    if bytes.len() <= SINGLE_CHUNK_BYTES {
        let blob = reader.ids().blob(bytes);
        if !bytes.is_empty() {
            batch.small_chunk(blob.object(), bytes, name.as_bytes(), earlier.small())?;
        }
        return Ok(blob);
    }
    // Large files are cut while they are read, so that it becomes one.
    let mut file = File::from(rustix::fs::memfd_create("state", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes).map_err(errno)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    let (blob, _) = reader.read_once(file.as_fd(), name.as_bytes(), bytes.len() as u64, &[], earlier, batch)?;
    Ok(blob)
}

pub(super) fn errno(e: std::io::Error) -> Errno {
    Errno::from_io_error(&e).unwrap_or(Errno::IO)
}

fn open(path: &Path) -> Result<File, Errno> {
    use std::os::unix::fs::OpenOptionsExt;
    // A fifo in the file's place must not make us wait.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(nonblock).open(path).map_err(errno)?;
    if sys::stat_fd(&file)?.is_file() { Ok(file) } else { Err(Errno::INVAL) }
}
