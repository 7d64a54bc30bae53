//! One entry of a live folder beside the one that the checkpoint has.

use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::io::{Errno, Result};

use super::{Options, table::Action};
use crate::{
    attributes,
    id::BlobId,
    keys::Ids,
    statcache::CacheEntry,
    sys::{self, Stat},
    tree::{Hole, Kind, Node},
};

/// Is called with a file before it is read, and how that looks.
pub type BeforeReading<'a> = dyn FnMut(BorrowedFd<'_>, &Stat) + 'a;

/// Action that makes an entry that of the checkpoint; `None` if it is already. `known` is the entry that the stat cache vouches for. One
/// that keeps its attributes may have more of them than the checkpoint.
#[allow(clippy::too_many_arguments)]
pub fn compare(
    ids: &Ids,
    folder: BorrowedFd<'_>,
    node: &Node,
    options: &Options,
    live: &Stat,
    known: Option<&CacheEntry>,
    keeps_attributes: bool,
    before_reading: &mut BeforeReading<'_>,
) -> Result<Option<Action>> {
    let known = known.map(|cached| &cached.node);
    let same = match &node.kind {
        Kind::Folder { .. } => live.is_folder(),
        Kind::File { size, blob, holes } => {
            if !live.is_file() {
                return Ok(Some(Action::Exchange));
            }
            live.size == *size && has_content(ids, folder, node, (*blob, holes), live, known, before_reading)?
        }
        Kind::Symlink { target } => match known {
            Some(known) => known.kind == node.kind,
            None => live.file_type() == rustix::fs::FileType::Symlink && sys::readlink_at(folder, &node.name)? == *target,
        },
        special => live.special_kind().as_ref() == Some(special),
    };
    if !same {
        let folders = live.is_folder() || node.as_folder().is_some();
        return Ok(Some(if folders { Action::Exchange } else { Action::Replace }));
    }
    let meta = options.meta_of(&node.meta);
    let stat_fits = live.mode & 0o7777 == meta.mode && live.uid == meta.uid && live.gid == meta.gid && live.mtime == meta.mtime;
    if !stat_fits {
        return Ok(Some(Action::Meta));
    }
    let xattrs_fit = match known {
        Some(known) => options.decided(known.meta.xattrs.clone()) == meta.xattrs,
        None => options.fits(attributes::of_entry(folder, &node.name), &meta.xattrs, keeps_attributes),
    };
    Ok((!xattrs_fit).then_some(Action::Meta))
}

fn has_content(
    ids: &Ids,
    folder: BorrowedFd<'_>,
    node: &Node,
    (blob, holes): (BlobId, &[Hole]),
    live: &Stat,
    known: Option<&Node>,
    before_reading: &mut BeforeReading<'_>,
) -> Result<bool> {
    if let Some(Kind::File { blob: known_blob, holes: known_holes, .. }) = known.map(|known| &known.kind) {
        return Ok(*known_blob == blob && known_holes == holes);
    }
    if live.size == 0 {
        return Ok(true);
    }
    let fd = match sys::open_file_at(folder, &node.name) {
        Err(Errno::ACCESS | Errno::PERM) => return Ok(false),
        other => other?,
    };
    before_reading(fd.as_fd(), live);
    let may_be_sparse = !holes.is_empty() || live.blocks * 512 < live.size;
    if may_be_sparse && sys::holes(fd.as_fd(), live.size)? != holes {
        return Ok(false);
    }
    Ok(hash(File::from(fd), ids)? == blob)
}

/// The id of an open file's content.
pub fn hash(mut file: File, ids: &Ids) -> Result<BlobId> {
    let mut hasher = ids.blob_hasher();
    let mut buffer = vec![0; 128 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(n) => hasher.update(&buffer[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Errno::from_io_error(&e).unwrap_or(Errno::IO)),
        };
    }
}
