//! Source of an archive: a stream that knows from how many bytes it was expanded.

use std::io::{BufReader, Read};

/// A stream that knows from how many bytes it was expanded.
pub(super) trait MeteredRead: Read {
    /// Bytes that were read to make those that were given out.
    fn source_bytes(&self) -> u64;
}

/// Counts what is read.
pub(super) struct Source<R> {
    pub(super) inner: R,
    pub(super) bytes: u64,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(out)?;
        self.bytes += n as u64;
        Ok(n)
    }
}

impl<R: Read> MeteredRead for Source<R> {
    fn source_bytes(&self) -> u64 {
        self.bytes
    }
}

impl<R: Read> MeteredRead for zstd::Decoder<'_, BufReader<Source<R>>> {
    fn source_bytes(&self) -> u64 {
        self.get_ref().get_ref().bytes
    }
}

/// First bytes of a zstd frame.
pub(super) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
