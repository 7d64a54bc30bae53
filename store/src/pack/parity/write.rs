//! Writing parity behind a pack's blocks.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::{shape::Shape, stripes::Stripes};
use crate::format::SHARD_BYTES;

/// Bytes that are read at a time; a multiple of [`SHARD_BYTES`].
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// The checksums of a pack's sectors, of its bytes as they were handed over to be written.
#[derive(Default)]
pub struct Sums {
    done: Vec<u32>,
    open: u32,
    open_bytes: usize,
}

impl Sums {
    /// Takes in the next bytes of the pack.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(SHARD_BYTES as usize - self.open_bytes));
            self.open = crc32c::crc32c_append(self.open, now);
            self.open_bytes += now.len();
            if self.open_bytes == SHARD_BYTES as usize {
                self.done.push(std::mem::take(&mut self.open));
                self.open_bytes = 0;
            }
            bytes = rest;
        }
    }

    fn finish(mut self) -> Vec<u32> {
        if self.open_bytes > 0 {
            self.done.push(self.open);
        }
        self.done
    }
}

/// The parity shards and checksums of a pack of which header, blocks and copies are written. How many stripes there are is known only now, so
/// that what was written is read once more, mostly from the page cache. What does not read back as it was handed over is an error.
pub fn section(file: &File, shape: Shape, sums: Sums) -> io::Result<Vec<u8>> {
    let mut sums = sums.finish().into_iter();
    section_of(file, shape, |sector| sums.next() == Some(crc32c::crc32c(sector)))
}

/// The same, of a pack that is written once more and compared afterwards.
pub fn section_again(file: &File, shape: Shape) -> io::Result<Vec<u8>> {
    section_of(file, shape, |_| true)
}

/// `is_right` is asked of each sector, in order.
fn section_of(file: &File, shape: Shape, mut is_right: impl FnMut(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let mut stripes = Stripes::new(shape);
    let mut checksums = Vec::with_capacity(shape.checksums_bytes() as usize);
    // Whole sectors and whole shards, whatever length another writer has given those.
    let mut piece = vec![0; PIECE_BYTES / SHARD_BYTES as usize * shape.shard_bytes.max(SHARD_BYTES) as usize];
    let mut at = 0;
    while at < shape.covered_bytes {
        let now = (shape.covered_bytes - at).min(piece.len() as u64) as usize;
        let piece = &mut piece[..now];
        file.read_exact_at(piece, at)?;
        if !piece.chunks(SHARD_BYTES as usize).all(&mut is_right) {
            return Err(io::Error::other("what was written reads back differently"));
        }
        for shard in piece.chunks(shape.shard_bytes as usize) {
            checksums.extend_from_slice(&crc32c::crc32c(shard).to_le_bytes());
            stripes.add(shard);
        }
        at += now as u64;
    }
    let mut section = stripes.finish();
    for shard in section.chunks(shape.shard_bytes as usize) {
        checksums.extend_from_slice(&crc32c::crc32c(shard).to_le_bytes());
    }
    section.extend_from_slice(&checksums);
    Ok(section)
}
