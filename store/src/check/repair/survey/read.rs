//! Reading the blocks of one pack, whatever state it is in.

use rustix::fs::{Advice, fadvise};

use super::{DeferredBlock, PackScan, unless_damaged};
use crate::{
    error::{Error, Result},
    files::{self, How},
    id::PackId,
    pack::{Location, PackFile, Read},
    progress::{self, Progress},
    store::Store,
};

/// Reads a pack, and a second time if anything in it is damaged, from the disk: memory may have been at fault, and what is damaged goes. False
/// where it is damaged and the disk could not read all of it, at either time: what it could not may be whole.
pub(super) fn read_pack(store: &Store, pack: &mut PackScan, progress: &dyn Progress) -> Result<bool> {
    let mut is_read = read_once(store, pack, progress)?;
    if !(pack.is_whole || is_read && is_gone(store, pack.id)) {
        is_read &= read_again(store, pack, progress)?;
    }
    Ok(is_read || pack.is_whole)
}

/// Looks at a pack once more, and takes what is the better of both. False where the disk could not read all of it this time.
pub(super) fn read_again(store: &Store, pack: &mut PackScan, progress: &dyn Progress) -> Result<bool> {
    if let Ok(file) = files::open(&store.layout().pack(pack.id), How::Read) {
        // Where the system keeps them all the same, this look tells nothing new.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
    let mut again = PackScan { committed: pack.committed.clone(), found: Vec::new(), waiting: Vec::new(), ..*pack };
    let is_read = read_once(store, &mut again, progress)?;
    if again.is_whole || again.blocks() >= pack.blocks() {
        *pack = again;
    }
    Ok(is_read)
}

fn is_gone(store: &Store, id: PackId) -> bool {
    matches!(files::open(&store.layout().pack(id), How::Read), Err(e) if e.kind() == std::io::ErrorKind::NotFound)
}

/// True for an error of a disk that cannot read.
pub(super) fn is_unread(error: &Error) -> bool {
    error.is_damage() && !error.is_not_found() && !matches!(error, Error::Corrupt { .. } | Error::Missing { .. })
}

/// Reads a pack's blocks, also behind a place that cannot be read. False where the disk could not read all of it.
fn read_once(store: &Store, pack: &mut PackScan, progress: &dyn Progress) -> Result<bool> {
    let mut is_read = true;
    pack.is_whole = false;
    let Some(file) = opened(store, pack.id, &mut is_read)? else { return Ok(is_read) };
    // Each look is one at the disk.
    file.forget_examination();
    let scanned = file.checked().and_then(|file| {
        let scanned = scan(&file, pack, progress);
        is_read &= !file.has_unread();
        scanned
    });
    match scanned {
        Ok(is_whole) => {
            pack.is_whole = is_whole;
            return Ok(is_read);
        }
        Err(e) if e.is_damage() => is_read &= !is_unread(&e),
        Err(e) => return Err(e),
    }
    // Directories are damaged, or the trailer is: whatever looks like a block may be one.
    pack.found.clear();
    pack.waiting.clear();
    let Some(file) = opened(store, pack.id, &mut is_read)? else { return Ok(is_read) };
    let mut at = 0;
    while let Some(offset) = unless_damaged(file.next_magic(at))?.flatten() {
        progress::check(progress)?;
        let directory = unless_damaged(file.read_directory(offset))?;
        let location = directory.and_then(|directory| {
            let block_bytes = u32::try_from(directory.block_bytes()).ok()?;
            Some(Location { pack: pack.id, offset, block_bytes })
        });
        at = match location {
            Some(location) if read_block(&file, location, pack)? => offset + u64::from(location.block_bytes),
            _ => offset + 1,
        };
    }
    Ok(is_read && !file.has_unread())
}

/// Opens a pack. `None` where it is gone, or the disk cannot read even that.
fn opened(store: &Store, id: PackId, is_read: &mut bool) -> Result<Option<PackFile>> {
    let file = PackFile::open_unchecked(store.layout(), id);
    *is_read &= !file.as_ref().is_err_and(is_unread);
    unless_damaged(file)
}

/// Takes in the blocks of a pack by their directories. True if all of it is as it was committed.
fn scan(file: &PackFile, pack: &mut PackScan, progress: &dyn Progress) -> Result<bool> {
    let mut are_whole = true;
    let info = file.scan_blocks(false, |location, _| {
        progress::check(progress)?;
        are_whole &= read_block(file, location, pack)?;
        progress.advance(0, u64::from(location.block_bytes));
        Ok(())
    })?;
    Ok(are_whole && unless_damaged(file.check_copies())?.is_some() && info.digest == pack.committed)
}

/// Takes in what a block holds, if all of it hashes to its ids, or has it wait for what it builds on. False where it is damaged.
fn read_block(file: &PackFile, location: Location, pack: &mut PackScan) -> Result<bool> {
    match unless_damaged(file.read_block(location))? {
        Some(Read::Block(block)) => {
            pack.found.extend(block.objects.iter().map(|(kind, id, _)| (id.key(), location, *kind, *id)));
            Ok(true)
        }
        Some(Read::OnBases(block)) => {
            let objects = block.objects().collect();
            pack.waiting.push(DeferredBlock { at: location, bases: block.bases().collect(), objects });
            Ok(true)
        }
        None => Ok(false),
    }
}
