//! Reading the blocks of one pack, whatever state it is in.

use rustix::fs::{Advice, fadvise};

use super::{Scanned, Waiting, unless_damaged};
use crate::{
    error::Result,
    files::{self, How},
    pack::{Location, PackFile, Read},
    progress::{self, Progress},
    store::Store,
};

/// Reads a pack, and a second time if anything in it is damaged, from the disk: memory may have been at fault, and what is damaged goes.
pub(super) fn read_pack(store: &Store, pack: &mut Scanned, progress: &dyn Progress) -> Result<()> {
    read_once(store, pack, progress)?;
    if !pack.is_whole
        && let Ok(file) = files::open(&store.layout().pack(pack.id), How::Read)
    {
        // Where the system keeps them all the same, the second look tells nothing new.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        pack.is_whole = true;
        read_once(store, pack, progress)?;
    }
    Ok(())
}

/// Reads a pack's blocks, also behind a place that cannot be read.
fn read_once(store: &Store, pack: &mut Scanned, progress: &dyn Progress) -> Result<()> {
    pack.found.clear();
    pack.waiting.clear();
    let scanned = PackFile::open(store.layout(), pack.id).and_then(|file| {
        let mut are_whole = true;
        let info = file.scan_blocks(false, |location, _| {
            progress::check(progress)?;
            are_whole &= read_block(&file, location, pack)?;
            progress.advance(0, u64::from(location.block_bytes));
            Ok(())
        })?;
        Ok(are_whole && unless_damaged(file.check_copies())?.is_some() && info.digest == pack.committed)
    });
    match scanned {
        Ok(is_whole) => {
            pack.is_whole = is_whole;
            return Ok(());
        }
        Err(e) if e.is_damage() => pack.is_whole = false,
        Err(e) => return Err(e),
    }
    // Directories are damaged, or the trailer is: whatever looks like a block may be one.
    pack.found.clear();
    pack.waiting.clear();
    let Some(file) = unless_damaged(PackFile::open_unchecked(store.layout(), pack.id))? else { return Ok(()) };
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
    Ok(())
}

/// Takes in what a block holds, if all of it hashes to its ids, or has it wait for what it builds on. False where it is damaged.
fn read_block(file: &PackFile, location: Location, pack: &mut Scanned) -> Result<bool> {
    match unless_damaged(file.read_block(location))? {
        Some(Read::Block(block)) => {
            pack.found.extend(block.objects.iter().map(|(kind, id, _)| (id.key(), location, *kind, *id)));
            Ok(true)
        }
        Some(Read::OnBases(block)) => {
            let objects = block.objects().collect();
            pack.waiting.push(Waiting { at: location, bases: block.bases().collect(), objects });
            Ok(true)
        }
        None => Ok(false),
    }
}
