//! Names under which restores build entries.

use std::{os::fd::BorrowedFd, path::Path};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{format::NAME_BYTES_MAX, id::OpId, pin, sys};

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

/// The operation whose id is in a name of such a form, and the form.
pub(super) fn operation(name: &[u8]) -> Option<(OpId, Form)> {
    if !name.starts_with(b".") {
        return None;
    }
    let at = name.windows(MARK.len()).rposition(|part| part == MARK)?;
    let (op, rest) = name[at + MARK.len()..].split_at_checked(24)?;
    let is_digit = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
    let is_hex = |text: &[u8]| !text.is_empty() && text.iter().all(is_digit);
    let parts: Vec<&[u8]> = rest.split(|b| *b == b'-').collect();
    let form = match parts.as_slice() {
        [b""] if at > 0 => Form::Folder,
        [b"", folder, index] if at == 0 && is_hex(folder) && is_hex(index) => Form::Entry,
        _ => return None,
    };
    let op = std::str::from_utf8(op).ok().filter(|op| op.bytes().all(|b| is_digit(&b)))?;
    OpId::from_hex(op).map(|op| (op, form))
}

/// Forms of entries under temporary names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A new folder, beside its place. Whoever builds it holds a lock on it.
    Folder,
    /// An entry of a folder that exists. Whoever builds it holds a lock on the target.
    Entry,
}

/// True if a name has the form of those under which restores build.
pub fn is_staged(name: &[u8]) -> bool {
    operation(name).is_some()
}

/// True if a restore builds something under this name, or did until it died: by the pin of its operation, which lasts until everything has
/// its name or is removed; or by the lock on what it builds, where its pin is in another store. A name alone says nothing: it may be a
/// user's.
pub fn is_being_built(folder: BorrowedFd<'_>, name: &[u8], pins: &Path) -> bool {
    match operation(name) {
        None => false,
        Some((op, _)) if pin::exists(pins, op) => true,
        Some((_, Form::Entry)) => false,
        Some((_, Form::Folder)) => sys::open_folder_at(folder, name)
            .is_ok_and(|fd| flock(&fd, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)),
    }
}
