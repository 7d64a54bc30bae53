//! Packs that no record of the journal explains. Most are what a run left that ended without a commit: its pin tells. But where the journal was
//! cut, or is an older copy, a record may have gone that was committed: its packs are whole, and one of them holds the sealed checkpoint. Those
//! stay. Where a pack is gone that the journal names, every whole pack may hold what that pack held, and stays.

use std::collections::{BTreeSet, HashSet};

use crate::{
    error::Result,
    id::{OpId, PackId},
    journal::{Entry, Journal, Position, Tail},
    layout::Layout,
    pack::{ObjectKind, PackFile, Read},
    record::Checkpoint,
    view::View,
};

/// Packs that a lost record of the journal may have been about.
#[derive(Debug, Default)]
pub struct UnexplainedPacks {
    /// Ids of the packs, which gc leaves alone.
    pub packs: BTreeSet<PackId>,
    /// The checkpoints in them that no record of the journal tells of.
    pub checkpoints: Vec<Checkpoint>,
    /// True if the journal looks whole and has no place for them: it may be an older copy.
    pub is_journal_whole: bool,
    /// True if that is more than likely: one of them follows another. A single one may be what a run left that was killed, and whose pin is gone,
    /// by a power cut or because somebody removed it.
    pub is_journal_older: bool,
}

/// True if a pack that the journal names, and has not given up, is gone.
fn lacks_a_pack(layout: &Layout, tail: &Tail) -> Result<bool> {
    let packs = View::of_journal(layout, tail)?.packs()?;
    Ok(packs.iter().any(|(id, state)| state.condemned.is_none() && !layout.pack(*id).exists()))
}

/// Finds them among packs that the journal does not know and whose operations have no pin.
pub(crate) fn find(layout: &Layout, unknown: &[PackId]) -> Result<UnexplainedPacks> {
    let mut found = UnexplainedPacks::default();
    if unknown.is_empty() {
        return Ok(found);
    }
    let tail = Journal::of(layout).read(&Position::start())?;
    let is_older = lacks_a_pack(layout, &tail)?;
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
        if is_older {
            ops.insert(pack.op());
        }
        for (location, id) in records {
            ops.insert(pack.op());
            // Records build on nothing.
            let Ok(Read::Block(block)) = file.read_block(location) else { continue };
            let sealed = block.object(id).and_then(|sealed| String::from_utf8(sealed.to_vec()).ok());
            found.checkpoints.extend(sealed.and_then(|sealed| Checkpoint::decode(0, sealed, &layout.keys.ids).ok()));
        }
    }
    let ids: HashSet<_> = found.checkpoints.iter().map(|checkpoint| checkpoint.record.id).collect();
    let has_line =
        found.checkpoints.iter().any(|checkpoint| checkpoint.record.parent.is_some_and(|parent| ids.contains(&parent)));
    found.is_journal_whole = !tail.was_cut && tail.missing == 0;
    found.is_journal_older = has_line && found.is_journal_whole;
    found.packs = unknown.iter().filter(|pack| ops.contains(&pack.op())).copied().collect();
    Ok(found)
}
