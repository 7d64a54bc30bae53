//! What a pack tells by itself: whether it is whole, and the sealed records in it.

use crate::{
    error::{Error, Result},
    id::{ObjectId, PackId, hex},
    layout::Layout,
    pack::{Directory, Location, ObjectKind, PackFile, PackInfo, Read},
    progress::{self, Progress},
};

/// A sealed record that lies in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SealedRecord {
    pub(super) id: ObjectId,
    /// Its bytes.
    pub(super) text: String,
}

/// A pack, as its file tells.
#[derive(Debug)]
pub(super) struct FoundPack {
    /// As a journal names it. Of a damaged one, the digest is that of nothing.
    pub(super) info: PackInfo,
    /// What is wrong with it.
    pub(super) fault: Option<String>,
    pub(super) records: Vec<SealedRecord>,
    /// Length of the longest chunk in it.
    pub(super) chunk_bytes_max: usize,
}

/// Looks at a pack: its directories, and the records. Of a damaged one, at every place that may begin a block.
pub(super) fn look(layout: &Layout, id: PackId, progress: &dyn Progress) -> Result<FoundPack> {
    let bytes = std::fs::metadata(layout.pack(id)).map_or(0, |meta| meta.len());
    let info = PackInfo { id, bytes, digest: hex(&[0; 32]) };
    let mut found = FoundPack { info, fault: None, records: Vec::new(), chunk_bytes_max: 0 };
    let scanned = PackFile::open(layout, id).and_then(|file| {
        let info = file.scan_blocks(false, |location, directory| {
            progress::check(progress)?;
            found.take(&file, location, directory)
        })?;
        file.check_copies().map(|()| info)
    });
    let fault = match scanned {
        Ok(info) => {
            found.info = info;
            return Ok(found);
        }
        Err(e) if e.is_damage() => e.fault(),
        Err(e) => return Err(e),
    };
    (found.fault, found.records) = (Some(fault), Vec::new());
    let Ok(file) = PackFile::open_unchecked(layout, id) else { return Ok(found) };
    let mut at = 0;
    while let Ok(Some(offset)) = file.next_magic(at) {
        progress::check(progress)?;
        at = offset + 1;
        let Ok(directory) = file.read_directory(offset) else { continue };
        let Ok(block_bytes) = u32::try_from(directory.block_bytes()) else { continue };
        if found.take(&file, Location { pack: id, offset, block_bytes }, &directory).is_ok() {
            at = offset + u64::from(block_bytes).max(1);
        }
    }
    Ok(found)
}

impl FoundPack {
    /// Takes in what a block holds. A record that cannot be read is left out: the block is damaged, which whoever reads all of it says.
    fn take(&mut self, file: &PackFile, location: Location, directory: &Directory) -> Result<()> {
        let chunks = directory.entries.iter().filter(|entry| entry.kind == ObjectKind::Chunk);
        let longest = chunks.map(|entry| entry.head_bytes + entry.tail_bytes).max().unwrap_or(0);
        self.chunk_bytes_max = self.chunk_bytes_max.max(longest);
        if !directory.entries.iter().any(|entry| entry.kind == ObjectKind::Record) {
            return Ok(());
        }
        // Records build on nothing.
        let block = match file.read_block(location) {
            Ok(Read::Block(block)) => block,
            Ok(Read::OnBases(_)) => return Ok(()),
            Err(e) if e.is_damage() => return Ok(()),
            Err(e) => return Err(e),
        };
        for entry in directory.entries.iter().filter(|entry| entry.kind == ObjectKind::Record) {
            let text = block.object(entry.id).and_then(|bytes| std::str::from_utf8(bytes).ok());
            self.records.extend(text.map(|text| SealedRecord { id: entry.id, text: text.to_owned() }));
        }
        Ok(())
    }
}

/// True if an error says that what was asked for is not there any more, or that nobody may read it: no damage to be named.
pub(super) fn is_gone(error: &Error) -> bool {
    error.is_not_found()
}
