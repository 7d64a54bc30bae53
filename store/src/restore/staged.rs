//! What a restore builds under temporary names, and clearing it away where its process died.
//!
//! Who restores holds a lock (flock) on the folder in which it builds, and a pin in the store that names that folder. Both end with
//! the process. So the next restore into the folder may remove what it finds there, and gc whatever a dead pin leads to.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
};

use super::{remove::remove, select::Spared};
use crate::{
    error::{Error, IoContext, Result},
    format::NAME_BYTES_MAX,
    id::OpId,
    layout::Layout,
    name,
    pin::{self, Leaves},
    sys,
    tree::DEPTH_MAX,
};

const MARK: &[u8] = b".parhelia-";

/// The name under which an entry is built in a folder that exists.
pub fn entry_name(op: OpId, folder: u32, index: u32) -> Vec<u8> {
    format!(".parhelia-{op}-{folder:x}-{index:x}").into_bytes()
}

/// The name of the folder in which a new one called `target` is built, beside it.
pub fn folder_name(op: OpId, target: &[u8]) -> Vec<u8> {
    let mark = format!(".parhelia-{op}");
    let kept = target.len().min(NAME_BYTES_MAX - 1 - mark.len());
    [b".", &target[..kept], mark.as_bytes()].concat()
}

/// Whether this is a name that only a restore gives, and only until it is done.
pub fn is_staged(name: &[u8]) -> bool {
    if !name.starts_with(b".") {
        return false;
    }
    let Some(at) = name.windows(MARK.len()).rposition(|part| part == MARK) else { return false };
    let rest = &name[at + MARK.len()..];
    let Some((op, rest)) = rest.split_at_checked(24) else { return false };
    let is_hex = |text: &[u8]| !text.is_empty() && text.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
    let parts: Vec<&[u8]> = rest.split(|b| *b == b'-').collect();
    match parts.as_slice() {
        [b""] => is_hex(op) && at > 0,
        [b"", folder, index] => is_hex(op) && at == 0 && is_hex(folder) && is_hex(index),
        _ => false,
    }
}

/// Takes the lock of a folder in which something is built. False where another restore has it; a filesystem without locks has none.
pub fn hold(folder: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    match flock(folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS | Errno::INVAL) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Removes what dead restores left beside a new folder called `target`.
pub fn clear_beside(above: BorrowedFd<'_>, target: &[u8]) {
    let ours = |found: &[u8]| is_staged(found) && found.starts_with(b".") && found[1..].starts_with(target);
    for found in sys::names(above).unwrap_or_default().into_iter().filter(|found| ours(found)) {
        let Ok(folder) = sys::open_folder_at(above, &found) else { continue };
        if hold(folder.as_fd()).unwrap_or(false) {
            // What cannot be removed now is in nobody's way.
            let _ = remove(above, &found, b"", &Spared::default());
        }
    }
}

/// Clears what restores into this store's checkpoints left when they died, and their pins.
pub fn clear_dead(layout: &Layout) -> Result<()> {
    for dead in pin::list(&layout.pins())?.into_iter().filter(|pin| !pin.alive) {
        let Some(leaves) = dead.text.leaves else { continue };
        let Some(_held) = pin::seize(&layout.pins(), dead.op)? else { continue };
        if clear(&leaves, dead.op).unwrap_or(true) {
            pin::remove_dead(&layout.pins(), dead.op)?;
        }
    }
    Ok(())
}

/// Removes what the operation built in a folder. False where another restore is at work there, so that it has to wait.
fn clear(leaves: &Leaves, op: OpId) -> Result<bool> {
    let path = leaves.folder().ok_or_else(|| Error::Invalid("a pin's folder does not decode".into()))?;
    let path = name::as_path(&path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty()).at("open folder", path)?;
    if leaves.below && !hold(folder.as_fd()).at("lock", path)? {
        return Ok(false);
    }
    let device = sys::stat_fd(&folder).at("read", path)?.dev;
    clear_in(&folder, op, leaves.below, device, 0, path)?;
    Ok(true)
}

fn clear_in(folder: &OwnedFd, op: OpId, below: bool, device: u64, depth: usize, path: &Path) -> Result<()> {
    let mark = format!(".parhelia-{op}").into_bytes();
    for found in sys::names(folder.as_fd()).at("read folder", path)? {
        if is_staged(&found) && found.windows(mark.len()).any(|part| part == mark) {
            remove(folder.as_fd(), &found, b"", &Spared::default()).at("remove", path.join(name::as_path(&found)))?;
        } else if below
            && depth < DEPTH_MAX
            && sys::stat_at(folder.as_fd(), &found).is_ok_and(|stat| stat.is_folder() && stat.dev == device)
            && let Ok(inner) = sys::open_folder_at(folder.as_fd(), &found)
        {
            clear_in(&inner, op, below, device, depth + 1, path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_restore_gives_are_staged() {
        let op = OpId::generate();
        assert!(is_staged(&entry_name(op, 0, 0xfe)));
        assert!(is_staged(&folder_name(op, b"target")));
        assert!(is_staged(&folder_name(op, &[b'x'; 255])));
        assert!(folder_name(op, &[b'x'; 255]).len() <= NAME_BYTES_MAX);
        for other in [".parhelia", ".parhelia-x", ".parhelia-0123456789abcdef01234567", ".x.parhelia-0123", "a.parhelia-"] {
            assert!(!is_staged(other.as_bytes()), "{other}");
        }
        assert!(!is_staged(format!(".parhelia-{op}-0-").as_bytes()));
        assert!(!is_staged(format!("x.parhelia-{op}").as_bytes()));
    }
}
