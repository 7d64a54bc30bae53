//! Packs that no record of the journal explains. Most are what a run left that ended without a commit. But where the journal was cut, a
//! record may have gone that was committed: its packs are whole, and one of them holds the sealed checkpoint. Those stay.

use std::collections::{BTreeSet, HashSet};

use crate::{
    error::Result,
    id::{OpId, PackId},
    journal::{Entry, Journal, Position},
    layout::Layout,
    pack::{ObjectKind, PackFile, Read},
    record::Checkpoint,
};

/// Packs that a lost record of the journal may have been about.
#[derive(Debug, Default)]
pub struct Unexplained {
    /// The packs.
    pub packs: BTreeSet<PackId>,
    /// The checkpoints in them that no record of the journal tells of.
    pub checkpoints: Vec<Checkpoint>,
}

/// Finds them among packs that the journal does not know and whose operations have no pin.
pub(crate) fn find(layout: &Layout, unknown: &[PackId]) -> Result<Unexplained> {
    let mut found = Unexplained::default();
    if unknown.is_empty() {
        return Ok(found);
    }
    let tail = Journal::of(layout).read(&Position::start())?;
    if !tail.was_cut && tail.missing == 0 {
        return Ok(found);
    }
    let committed: HashSet<_> = tail
        .records
        .iter()
        .filter_map(|logged| match &logged.entry {
            Entry::Commit { record, .. } => Some(layout.keys.ids.record(record.as_bytes()).object()),
            _ => None,
        })
        .collect();
    let mut ops: HashSet<OpId> = HashSet::new();
    for pack in unknown {
        let mut records = Vec::new();
        let scanned = PackFile::open(layout, *pack).and_then(|file| {
            file.scan(|location, directory| {
                let new =
                    directory.entries.iter().filter(|entry| entry.kind == ObjectKind::Record && !committed.contains(&entry.id));
                records.extend(new.map(|entry| (location, entry.id)));
                Ok(())
            })?;
            Ok(file)
        });
        // What is not whole was never committed.
        let Ok(file) = scanned else { continue };
        for (location, id) in records {
            ops.insert(pack.op());
            // Records build on nothing.
            let Ok(Read::Block(block)) = file.read_block(location) else { continue };
            let sealed = block.object(id).and_then(|sealed| String::from_utf8(sealed.to_vec()).ok());
            found.checkpoints.extend(sealed.and_then(|sealed| Checkpoint::decode(0, sealed, &layout.keys.ids).ok()));
        }
    }
    found.packs = unknown.iter().filter(|pack| ops.contains(&pack.op())).copied().collect();
    Ok(found)
}
