//! Packs of a copy: immutable files, each verified once it is there.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::{self, ErrorKind, Read, Seek, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use super::{
    CopyReport, notes,
    target::{Target, UNDER_WAY},
};
use crate::{
    disk,
    error::{Error, IoContext, Result},
    files::{self, How},
    id::PackId,
    layout::{Layout, is_set_aside},
    pack::{PackFile, rescue},
    pin,
    progress::{self, Progress},
    store::Store,
    view::PackState,
};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Copies the packs that the copy does not have whole. Returns those that the store does not have, either.
pub(super) fn copy(
    store: &Store,
    target: &Target,
    known: &BTreeMap<PackId, PackState>,
    report: &mut CopyReport,
    progress: &dyn Progress,
) -> Result<Vec<PackId>> {
    let mut gone = Vec::new();
    let damaged = notes::damaged_packs(&target.layout);
    for (id, state) in known {
        progress::check(progress)?;
        if has(&target.layout, *id, state) && !damaged.contains(id) {
            continue;
        }
        match copy_one(store.layout(), target, *id, state) {
            Ok(copied) => {
                report.copied_packs += u64::from(copied.bytes > 0);
                report.copied_bytes += copied.bytes;
                report.damaged.extend(copied.fault.map(|fault| (*id, fault)));
            }
            Err(Error::Io { source, path, .. }) if source.kind() == ErrorKind::NotFound && path == store.layout().pack(*id) => {
                gone.push(*id);
            }
            Err(e) => return Err(e),
        }
    }
    copy_companions(store.layout(), target, known, report, progress)?;
    disk::sync_folder(&target.layout.packs())?;
    disk::sync_folder(&target.layout.cache())?;
    Ok(gone)
}

/// True if the copy has a pack of this length. Whether its bytes are right was asked when it was copied, and is asked by `check --read-data`: what
/// either found is noted.
fn has(layout: &Layout, id: PackId, state: &PackState) -> bool {
    fs::symlink_metadata(layout.pack(id)).is_ok_and(|meta| meta.is_file() && meta.len() == state.bytes)
}

/// A pack that was copied.
struct PackCopy {
    bytes: u64,
    /// The damage that it has in the store as well.
    fault: Option<String>,
}

/// Copies a pack, and gives it its name once it was read back. What its parity gives back is copied as it was written. One that stays damaged is
/// copied as it is, for what is whole in it, but takes no other's place, and is noted.
fn copy_one(from: &Layout, target: &Target, id: PackId, state: &PackState) -> Result<PackCopy> {
    let (source, path) = (from.pack(id), target.layout.pack(id));
    let mut copied = target.layout.cache().join(format!("{id}{UNDER_WAY}"));
    let mut fault = match copy_bytes(&source, &copied) {
        Ok(()) => fault_of(target, id, state, &copied)?,
        Err(e) if is_bad_sector(&e, &source) => match rescue(&source, &copied, &())? {
            // It could be read all the same.
            0 => fault_of(target, id, state, &copied)?,
            _ => Some(e.fault()),
        },
        Err(e) => return Err(e),
    };
    if fault.is_some() {
        let healed = target.layout.cache().join(format!("{id}-healed{UNDER_WAY}"));
        if heal(from, target, id, state, &healed)? {
            files::remove(&copied).at("remove", &copied)?;
            (copied, fault) = (healed, None);
        }
    }
    if fault.is_some() {
        notes::note(&target.layout, id)?;
    }
    let Ok(bytes) = fs::symlink_metadata(&copied).map(|meta| meta.len()) else { return Ok(PackCopy { bytes: 0, fault }) };
    if fault.is_some() && fs::symlink_metadata(&path).is_ok() {
        files::remove(&copied).at("remove", &copied)?;
        return Ok(PackCopy { bytes: 0, fault });
    }
    files::rename(&copied, &path).at("rename to", &path)?;
    if fault.is_none() {
        notes::forget(&target.layout, id)?;
    }
    Ok(PackCopy { bytes, fault })
}

/// True if the disk cannot read a file of the store. What it cannot read or write of the copy says nothing of that.
fn is_bad_sector(error: &Error, source: &Path) -> bool {
    matches!(error, Error::Io { path, .. } if path == source) && error.is_damage() && !error.is_not_found()
}

/// The damage of a pack that has not taken its name yet.
fn fault_of(target: &Target, id: PackId, state: &PackState, path: &Path) -> Result<Option<String>> {
    let scanned = PackFile::at(&target.layout, id, path).and_then(|pack| {
        let info = pack.scan_blocks(true, |_, _| Ok(()))?;
        pack.check_copies()?;
        pack.check_parity()?;
        Ok(info)
    });
    match scanned {
        Ok(info) if (info.bytes, &info.digest) == (state.bytes, &state.digest) => Ok(None),
        Ok(_) => Ok(Some("it is another than the journal knows".to_owned())),
        // Not its place, which is the file under way.
        Err(Error::Corrupt { what, reason, .. }) => Ok(Some(format!("{what}: {reason}"))),
        Err(e) => Err(e),
    }
}

/// Writes a damaged pack of the store as its parity gives it back. False where it does not.
fn heal(from: &Layout, target: &Target, id: PackId, state: &PackState, to: &Path) -> Result<bool> {
    let is_whole = match PackFile::open(from, id).and_then(|pack| pack.write_as_written(to)) {
        Ok(()) => fault_of(target, id, state, to)?.is_none(),
        Err(e) if e.is_damage() => false,
        Err(e) => {
            let _ = files::remove(to);
            return Err(e);
        }
    };
    if !is_whole {
        files::remove(to).at("remove", to)?;
    }
    Ok(is_whole)
}

/// Copies a file to a new one, syncs it, and fails unless the same bytes are read back.
fn copy_bytes(from: &Path, to: &Path) -> Result<()> {
    let mut source = files::open(from, How::Read).at("open", from)?;
    files::remove(to).at("remove", to)?;
    let mut copy = files::open(to, How::New).at("create", to)?;
    let copied = pour(&mut source, from, &mut copy, to).and_then(|hash| {
        disk::sync_file(&copy, "sync", to)?;
        // What is read back comes from the medium, as far as the kernel can be asked for it.
        let _ = rustix::fs::fadvise(&copy, 0, None, rustix::fs::Advice::DontNeed);
        let mut there = blake3::Hasher::new();
        copy.rewind().and_then(|()| there.update_reader(&copy)).at("read back", to)?;
        if there.finalize() == hash {
            return Ok(());
        }
        Err(io::Error::other("what is read back is not what was written")).at("copy to", to)
    });
    if copied.is_err() {
        // It gives its room back where the disk is full.
        let _ = files::remove(to);
    }
    copied
}

/// Copies bytes. Returns their hash.
fn pour(source: &mut File, from: &Path, copy: &mut File, to: &Path) -> Result<blake3::Hash> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut hash = blake3::Hasher::new();
    loop {
        match source.read(&mut piece) {
            Ok(0) => return Ok(hash.finalize()),
            Ok(read) => {
                hash.update(&piece[..read]);
                copy.write_all(&piece[..read]).at("write", to)?;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e).at("read", from),
        }
    }
}

/// Copies files that stand beside packs and are called after them, but for packs that a repair has set aside.
fn copy_companions(
    from: &Layout,
    target: &Target,
    known: &BTreeMap<PackId, PackState>,
    report: &mut CopyReport,
    progress: &dyn Progress,
) -> Result<()> {
    let folder = from.packs();
    for path in files::list(&folder).at("read folder", &folder)? {
        let is_other = |name: &&OsStr| name.as_bytes().ends_with(b".tmp") || is_set_aside(name.as_bytes());
        let Some(name) = path.file_name().filter(|name| !is_other(name)) else { continue };
        let (stem, is_pack) = match name.to_str().and_then(|name| name.split_once('.')) {
            Some((stem, ending)) => (stem, ending == "pack"),
            None => continue,
        };
        if is_pack || !PackId::from_hex(stem).is_some_and(|id| known.contains_key(&id)) {
            continue;
        }
        let (length, to) = (fs::symlink_metadata(&path).map(|meta| meta.len()), target.layout.packs().join(name));
        if fs::symlink_metadata(&to).is_ok_and(|meta| length.as_ref().is_ok_and(|length| *length == meta.len())) {
            continue;
        }
        let under_way = target.layout.cache().join(format!("{stem}-beside{UNDER_WAY}"));
        match copy_bytes(&path, &under_way) {
            Ok(()) => files::rename(&under_way, &to).at("rename to", &to)?,
            // It went with its pack.
            Err(e) if e.is_not_found() => {}
            Err(e) if is_bad_sector(&e, &path) => report.leave_out(&e.fault(), progress),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Removes packs from the copy that its journal says are dropped, and which the store does not have. Whoever reads the copy is left alone.
pub(super) fn remove_freed(store: &Store, target: &Target, report: &mut CopyReport) -> Result<()> {
    let pins = pin::list(&target.layout.pins())?;
    if pins.iter().any(|pin| pin.alive) {
        return Err(Error::Refused(
            "the copy is made, but nothing is removed from it: somebody reads it; try again later".into(),
        ));
    }
    let known = target.reopened()?.view().packs()?;
    let folder = target.layout.packs();
    for path in files::list(&folder).at("read folder", &folder)? {
        let Some(id) = Layout::pack_of(&path).filter(|id| !known.contains_key(id)) else { continue };
        match fs::symlink_metadata(store.layout().pack(id)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            _ => continue,
        }
        let bytes = fs::symlink_metadata(&path).map_or(0, |meta| meta.len());
        files::remove(&path).at("remove", &path)?;
        report.removed_packs += 1;
        report.removed_bytes += bytes;
    }
    disk::sync_folder(&folder)
}
