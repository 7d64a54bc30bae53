//! The bare loop: what a first checkpoint costs without being a checkpoint.
//!
//! Walk, read, BLAKE3, zstd level 3 in blocks of 256 KiB, one output file. No chunking, no
//! deduplication, no trees, no index.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, Mode, OFlags};
use zstd::bulk::Compressor;

use crate::error::{Context, Result};
use crate::walk::{self, Entry, Visitor};

/// The content that is compressed together, in bytes.
const BLOCK_BYTES: usize = 256 * 1024;
const LEVEL: i32 = 3;

/// Does the work of a checkpoint of `tree` and nothing more, with `threads` threads.
pub fn store(tree: &Path, out: &Path, threads: usize) -> Result<()> {
    let file = File::create(out).context(|| format!("create {}", out.display()))?;
    let file = Arc::new(Mutex::new(file));
    let workers = (0..threads).map(|_| Worker::new(&file)).collect::<Result<Vec<_>>>()?;
    for mut worker in walk::walk(tree, workers)? {
        worker.flush()?;
        let index = worker.index.concat();
        worker.write(&index)?;
    }
    Ok(())
}

/// One thread's block under construction.
struct Worker {
    out: Arc<Mutex<File>>,
    compressor: Compressor<'static>,
    block: Vec<u8>,
    filled: usize,
    packed: Vec<u8>,
    index: Vec<[u8; 32]>,
}

impl Worker {
    fn new(out: &Arc<Mutex<File>>) -> Result<Self> {
        Ok(Self {
            out: Arc::clone(out),
            compressor: Compressor::new(LEVEL).context(|| "start zstd")?,
            block: vec![0; BLOCK_BYTES],
            filled: 0,
            packed: Vec::with_capacity(zstd::zstd_safe::compress_bound(BLOCK_BYTES)),
            index: Vec::new(),
        })
    }

    /// Reads a file straight into the block and hashes it there.
    fn read(&mut self, fd: OwnedFd) -> Result<()> {
        let mut file = File::from(fd);
        let mut hasher = blake3::Hasher::new();
        loop {
            if self.filled == BLOCK_BYTES {
                self.flush()?;
            }
            let got = file.read(&mut self.block[self.filled..]).context(|| "read a file")?;
            if got == 0 {
                break;
            }
            hasher.update(&self.block[self.filled..self.filled + got]);
            self.filled += got;
        }
        self.index.push(*hasher.finalize().as_bytes());
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.packed.clear();
        self.compressor.compress_to_buffer(&self.block[..self.filled], &mut self.packed).context(|| "compress a block")?;
        self.filled = 0;
        self.write(&self.packed)
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(bytes).context(|| "write a block")
    }
}

impl Visitor for Worker {
    fn entry(&mut self, entry: &Entry<'_>) -> Result<()> {
        if entry.kind() != FileType::RegularFile {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(entry.folder, entry.name, flags, Mode::empty())
            .context(|| format!("open {}", entry.name.to_string_lossy()))?;
        self.read(fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_content_and_one_hash_per_file_are_written() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let mut noise = vec![0; 600_000];
        crate::rng::Rng::new(3).fill(&mut noise);
        std::fs::write(tree.join("big"), &noise).unwrap();
        std::fs::write(tree.join("small"), "abc").unwrap();
        let out = root.path().join("out");
        store(&tree, &out, 2).unwrap();
        let size = std::fs::metadata(&out).unwrap().len();
        assert!((600_064..601_000).contains(&size), "{size}");
    }
}
