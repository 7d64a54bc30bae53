//! Disk space reserved for the outbox, so that deliveries can be queued on a full disk.

use std::{
    ffi::OsStr,
    io::{self, ErrorKind},
};

use parhelia_store::files::{Folder, How};
use rustix::fs::{FallocateFlags, fallocate};

/// The file that takes the room up until it is needed.
const NAME: &str = "reserve";
/// Its length in bytes: some hundreds of deliveries, and less than what counts as a full disk.
const BYTES: u64 = 512 << 10;
/// It is made where so many bytes are free.
const ROOM_MIN: u64 = 16 << 20;

/// Takes the room up, where it is not and enough is free. Without it the outbox works too, so that a failure is none.
pub fn keep(outbox: &Folder, free: Option<u64>) {
    let is_there = outbox.stat(OsStr::new(NAME)).is_ok_and(|stat| stat.size >= BYTES);
    if !is_there && free.is_some_and(|free| free >= ROOM_MIN) {
        let made = outbox.open(OsStr::new(NAME), How::Make).map(|file| fallocate(&file, FallocateFlags::empty(), 0, BYTES));
        // A filesystem that cannot promise room has none to give back.
        if !matches!(made, Ok(Ok(()))) {
            let _ = outbox.remove(OsStr::new(NAME));
        }
    }
}

/// Does something that writes into the outbox, and once more with the space that was reserved, where the disk is full.
pub fn with_room<T>(outbox: impl FnOnce() -> io::Result<Folder>, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match work() {
        Err(full) if is_full(&full) => match outbox()?.remove(OsStr::new(NAME)) {
            // Another thread may have given it up a moment ago.
            Err(e) if e.kind() != ErrorKind::NotFound => Err(full),
            _ => work(),
        },
        done => done,
    }
}

/// True of the error of a disk, or of a user's share of one, that is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
