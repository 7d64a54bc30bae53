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
    store::Store,
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

/// The operation that a temporary name holds; `None` where the name has another form. Anybody may have given such a name: see [`maker`].
fn operation(name: &[u8]) -> Option<OpId> {
    let at = name.windows(MARK.len()).rposition(|part| part == MARK).filter(|_| name.starts_with(b"."))?;
    let (op, rest) = name[at + MARK.len()..].split_at_checked(24)?;
    let is_hex = |text: &[u8]| !text.is_empty() && text.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
    let parts: Vec<&[u8]> = rest.split(|b| *b == b'-').collect();
    let is_ours = match parts.as_slice() {
        [b""] => at > 0,
        [b"", folder, index] => at == 0 && is_hex(folder) && is_hex(index),
        _ => false,
    };
    std::str::from_utf8(op).ok().filter(|_| is_ours && is_hex(op)).and_then(OpId::from_hex)
}

/// The state of the restore that made an entry under a temporary name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// It is under way.
    Running,
    /// Its process died, so that the entry may go.
    Dead,
}

/// The restore that made an entry under a temporary name. `None` where the store has no pin of it: then the entry counts as the user's,
/// whatever its name looks like. A restore notes its pin before it makes the first such entry, and removes it after the last is gone.
pub fn maker(layout: &Layout, name: &[u8]) -> Option<Maker> {
    let is_alive = pin::is_alive(&layout.pins(), operation(name)?)?;
    Some(if is_alive { Maker::Running } else { Maker::Dead })
}

/// Whether a restore of this store has made an entry of this name, and the entry is to go or to get another name.
pub fn is_staged(store: &Store, name: &[u8]) -> bool {
    maker(store.layout(), name).is_some()
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
pub fn clear_beside(layout: &Layout, above: BorrowedFd<'_>, target: &[u8]) {
    let is_of = |found: &[u8]| found.starts_with(b".") && found[1..].starts_with(target);
    let ours = |found: &[u8]| is_of(found) && maker(layout, found) == Some(Maker::Dead);
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
    for found in sys::names(folder.as_fd()).at("read folder", path)? {
        if operation(&found) == Some(op) {
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
    fn a_name_holds_its_operation_or_has_another_form() {
        let op = OpId::generate();
        for ours in [entry_name(op, 0, 0xfe), folder_name(op, b"target"), folder_name(op, &[b'x'; 255])] {
            assert_eq!(operation(&ours), Some(op));
            assert!(ours.len() <= NAME_BYTES_MAX);
        }
        for other in [".parhelia", ".parhelia-x", ".parhelia-0123456789abcdef01234567", ".x.parhelia-0123", "a.parhelia-"] {
            assert_eq!(operation(other.as_bytes()), None, "{other}");
        }
        assert_eq!(operation(format!(".parhelia-{op}-0-").as_bytes()), None);
        assert_eq!(operation(format!("x.parhelia-{op}").as_bytes()), None);
    }

    #[test]
    fn a_temporary_name_is_ours_while_its_pin_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout { root: dir.path().to_owned() };
        std::fs::create_dir(layout.pins()).unwrap();
        let pin = pin::Pin::take(&layout.pins(), false, "restore").unwrap();
        let name = entry_name(pin.op, 0, 1);
        assert_eq!(maker(&layout, &name), Some(Maker::Running));
        assert_eq!(maker(&layout, &entry_name(OpId::generate(), 0, 1)), None);
        pin.leave();
        assert_eq!(maker(&layout, &name), Some(Maker::Dead));
        std::fs::remove_dir_all(layout.pins()).unwrap();
        assert_eq!(maker(&layout, &name), None);
    }
}
