//! The bytes of a file with holes, from some place on.

use std::os::fd::BorrowedFd;

use rustix::{fs::SeekFrom, io::Errno};

use crate::tree::Hole;

/// A file that is read from some place on.
pub(super) struct Input<'f> {
    pub(super) fd: BorrowedFd<'f>,
    /// Holes that do not lie behind.
    pub(super) holes: &'f [Hole],
    pub(super) at: u64,
    /// At most so many bytes are read.
    pub(super) left: u64,
}

impl Input<'_> {
    /// Bytes up to the end of the hole that the input is in; 0 outside of holes.
    pub(super) fn in_hole(&self) -> u64 {
        match self.holes.first() {
            Some(hole) if hole.start <= self.at => hole.start + hole.bytes - self.at,
            _ => 0,
        }
    }

    /// Passes over bytes of the hole that the input is in.
    pub(super) fn pass(&mut self, bytes: u64) -> Result<(), Errno> {
        let is_end = bytes == self.in_hole();
        self.at += bytes;
        self.left = self.left.saturating_sub(bytes);
        if is_end {
            self.holes = &self.holes[1..];
            rustix::fs::seek(self.fd, SeekFrom::Start(self.at))?;
        }
        Ok(())
    }

    /// Fills a buffer, less than whole only at the input's end. Says how many bytes were filled, and how many at their end are of one hole.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<(usize, usize), Errno> {
        let (mut filled, mut zeros) = (0, 0);
        while filled < buffer.len() && self.left > 0 {
            let room = self.left.min((buffer.len() - filled) as u64);
            let hole = self.in_hole().min(room) as usize;
            if hole > 0 {
                buffer[filled..filled + hole].fill(0);
                self.pass(hole as u64)?;
                filled += hole;
                zeros += hole;
                continue;
            }
            let data = self.holes.first().map_or(room, |hole| room.min(hole.start - self.at)) as usize;
            let read = read_full(self.fd, &mut buffer[filled..filled + data])?;
            self.at += read as u64;
            self.left -= read as u64;
            filled += read;
            zeros = 0;
            if read < data {
                break;
            }
        }
        Ok((filled, zeros))
    }
}

/// Fills a buffer; less than whole only at the end of the file. Returns the bytes read.
pub(super) fn read_full(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::read(fd, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
