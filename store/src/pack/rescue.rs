//! Copying a pack from a disk that cannot read all of it.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use rustix::io::Errno;

use crate::{
    disk,
    error::{IoContext, Result},
    files::{self, How},
    progress::{self, Progress},
};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Where that fails, so many.
const PAGE_BYTES: usize = 4096;

/// Copies a pack to a new file, and syncs it. Returns the number of bytes that the disk could not read, in whose place are zeros.
pub(crate) fn rescue(source: &Path, target: &Path, progress: &dyn Progress) -> Result<u64> {
    let input = files::open(source, How::Read).at("open pack", source)?;
    let length = input.metadata().at("read pack", source)?.len();
    let output = files::open(target, How::New).at("create", target)?;
    output.set_len(length).at("write", target)?;
    let mut piece = vec![0; PIECE_BYTES];
    let (mut at, mut lost) = (0, 0);
    while at < length {
        progress::check(progress)?;
        let wanted = PIECE_BYTES.min(usize::try_from(length - at).unwrap_or(PIECE_BYTES));
        lost += read(&input, &mut piece[..wanted], at).at("read pack", source)?;
        output.write_all_at(&piece[..wanted], at).at("write", target)?;
        at += wanted as u64;
        progress.advance(0, wanted as u64);
    }
    disk::sync_file(&output, "sync pack", target)?;
    Ok(lost)
}

/// Fills a buffer. Pages that the disk cannot read become zeros, and are counted.
fn read(file: &File, buffer: &mut [u8], at: u64) -> io::Result<u64> {
    match file.read_exact_at(buffer, at) {
        Err(e) if e.raw_os_error() == Some(Errno::IO.raw_os_error()) => {}
        // It has become shorter: what is gone is damage.
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
        other => return other.map(|()| 0),
    }
    let mut lost = 0;
    for (number, page) in buffer.chunks_mut(PAGE_BYTES).enumerate() {
        if file.read_exact_at(page, at + (number * PAGE_BYTES) as u64).is_err() {
            page.fill(0);
            lost += page.len() as u64;
        }
    }
    Ok(lost)
}
