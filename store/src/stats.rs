//! Statistics: what is in a store, and what it costs.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    error::{Error, Result},
    gc,
    id::{ObjectKey, Ulid},
    journal::{Entry, Journal, Position},
    pack::{ObjectKind, PackFile},
    progress::{self, Phase, Progress},
    record::Record,
    store::Store,
};

/// Numbers of a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Stats {
    /// Number of checkpoints that exist, without deleted ones.
    pub checkpoints: u64,
    /// Files in all of them together.
    pub files: u64,
    /// Bytes of these files.
    pub logical_bytes: u64,
    /// Number of different objects in packs that are not condemned.
    pub objects: u64,
    /// Raw bytes of the different pieces of content.
    pub unique_bytes: u64,
    /// Raw bytes of trees, recipes, tables and records.
    pub meta_bytes: u64,
    /// Number of packs that are not condemned.
    pub packs: u64,
    /// Bytes of them on disk.
    pub pack_bytes: u64,
    /// Bytes in them of the blocks that hold content.
    pub data_block_bytes: u64,
    /// Bytes of packs that were condemned and still wait.
    pub condemned_bytes: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of stat caches and files under way.
    pub cache_bytes: u64,
    /// Bytes of the ballast: room for a deletion on a full disk.
    pub reserve_bytes: u64,
    /// Bytes of the whole folder, without the ballast.
    pub stored_bytes: u64,
    /// `logical_bytes` by `unique_bytes`.
    pub dedup_ratio: f64,
    /// `unique_bytes` and `meta_bytes` by `pack_bytes`.
    pub compression_ratio: f64,
    /// Each session, by name.
    #[serde(skip)]
    pub sessions: Vec<SessionStats>,
}

/// A session's share of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Usage")]
pub struct SessionStats {
    /// Id of the session; numbers are of its checkpoints.
    pub session: String,
    /// Number of its checkpoints that exist.
    pub checkpoints: u64,
    /// Files in the newest of them.
    pub files: u64,
    /// Bytes of these files.
    pub logical_bytes: u64,
    /// ULID of the newest, in order of commits; null where all were deleted.
    #[schemars(with = "Option<String>")]
    pub newest: Option<Ulid>,
    /// Bytes of the packs that its commits added, deleted ones included: its growth of the store.
    pub added_bytes: u64,
    /// The same for its newest commit alone.
    pub added_bytes_newest: u64,
}

/// Counts. Reads the directories of all packs and the whole journal, no data.
pub fn stats(store: &Store, progress: &dyn Progress) -> Result<Stats> {
    gc::retried(store, || count(store, progress))
}

fn count(store: &Store, progress: &dyn Progress) -> Result<Stats> {
    let view = store.refresh()?;
    let mut stats = Stats::default();
    let mut sessions: BTreeMap<String, SessionStats> = BTreeMap::new();
    for checkpoint in view.checkpoints()? {
        let workspace = &checkpoint.record.workspace;
        stats.checkpoints += 1;
        stats.files += workspace.files;
        stats.logical_bytes = stats.logical_bytes.saturating_add(workspace.bytes);
        let session = sessions.entry(checkpoint.record.session.clone()).or_default();
        session.checkpoints += 1;
        session.files = workspace.files;
        session.logical_bytes = workspace.bytes;
        session.newest = Some(checkpoint.record.id);
    }
    add_growth(store, &mut sessions)?;
    count_packs(store, &mut stats, progress)?;
    let layout = store.layout();
    stats.journal_bytes = folder_bytes(&layout.journal());
    stats.index_bytes = folder_bytes(&layout.view());
    stats.cache_bytes = folder_bytes(&layout.cache());
    stats.reserve_bytes = std::fs::symlink_metadata(layout.ballast()).map_or(0, |found| found.len());
    stats.stored_bytes = folder_bytes(&layout.root).saturating_sub(stats.reserve_bytes);
    stats.dedup_ratio = ratio(stats.logical_bytes, stats.unique_bytes);
    stats.compression_ratio = ratio(stats.unique_bytes + stats.meta_bytes, stats.pack_bytes);
    let named = |(name, session)| SessionStats { session: name, ..session };
    stats.sessions = sessions.into_iter().map(named).collect();
    Ok(stats)
}

fn add_growth(store: &Store, sessions: &mut BTreeMap<String, SessionStats>) -> Result<()> {
    for logged in Journal::of(store.layout()).read(&Position::start())?.records {
        let Entry::Commit { record, packs, .. } = logged.entry else { continue };
        let Ok(record) = serde_json::from_str::<Record>(&record) else { continue };
        let bytes: u64 = packs.iter().map(|pack| pack.bytes).sum();
        let session = sessions.entry(record.session).or_default();
        session.added_bytes += bytes;
        session.added_bytes_newest = bytes;
    }
    Ok(())
}

fn count_packs(store: &Store, stats: &mut Stats, progress: &dyn Progress) -> Result<()> {
    let packs = store.view().packs()?;
    progress.phase(Phase::Check, None, Some(packs.values().map(|pack| pack.bytes).sum()));
    let mut seen: HashSet<ObjectKey> = HashSet::new();
    for (id, state) in packs {
        progress::check(progress)?;
        if state.condemned.is_some() {
            stats.condemned_bytes += state.bytes;
            continue;
        }
        stats.packs += 1;
        stats.pack_bytes += state.bytes;
        let scanned = PackFile::open(store.layout(), id)?.scan(|location, directory| {
            if directory.entries.first().is_some_and(|entry| entry.kind == ObjectKind::Chunk) {
                stats.data_block_bytes += u64::from(location.block_bytes);
            }
            for entry in directory.entries.iter().filter(|entry| seen.insert(entry.id.key())) {
                let bytes = (entry.head_bytes + entry.tail_bytes) as u64;
                *(if entry.kind == ObjectKind::Chunk { &mut stats.unique_bytes } else { &mut stats.meta_bytes }) += bytes;
                stats.objects += 1;
            }
            Ok(())
        });
        match scanned {
            // Its other blocks are counted.
            Err(e @ Error::Corrupt { .. }) => progress.notice(&e.to_string()),
            scanned => _ = scanned?,
        }
        progress.advance(0, state.bytes);
    }
    Ok(())
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 1.0 } else { a as f64 / b as f64 }
}

/// Bytes of the files in a folder, as far as they can be seen.
fn folder_bytes(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => folder_bytes(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{AtBegin, TestStore, collect, files, in_small_packs};

    #[test]
    fn what_gc_moves_meanwhile_is_counted_where_it_is() {
        let (test, _, _, other) = in_small_packs();
        let moving = AtBegin::new(move || collect(&other));
        let counted = stats(&test.store, &moving).unwrap();
        assert!(moving.is_done());
        assert_eq!(counted, stats(&test.store, &()).unwrap());
    }

    #[test]
    fn numbers_add_up() {
        let test = TestStore::new();
        let (a, b) = (files(1, 9), files(2, 9));
        test.checkpoint(&a);
        test.checkpoint(&a);
        test.checkpoint(&b);
        let stats = stats(&test.store, &()).unwrap();
        let bytes = |files: &crate::testing::Files| files.values().map(|bytes| bytes.len() as u64).sum::<u64>();
        assert_eq!((stats.checkpoints, stats.files, stats.packs), (3, 27, 3));
        assert_eq!(stats.logical_bytes, 2 * bytes(&a) + bytes(&b));
        let distinct: HashSet<&Vec<u8>> = a.values().chain(b.values()).collect();
        assert_eq!(stats.unique_bytes, distinct.iter().map(|bytes| bytes.len() as u64).sum::<u64>());
        assert!(stats.data_block_bytes > 0 && stats.data_block_bytes < stats.pack_bytes);
        assert!(stats.dedup_ratio > 1.5 && stats.compression_ratio > 1.0 && stats.stored_bytes > stats.pack_bytes);
        assert_eq!(stats.reserve_bytes, crate::format::BALLAST_BYTES);
        let parts = stats.pack_bytes + stats.journal_bytes + stats.index_bytes + stats.cache_bytes;
        assert!((parts..parts + (64 << 10)).contains(&stats.stored_bytes), "{stats:?}");
        let [session] = &stats.sessions[..] else { panic!("{stats:?}") };
        assert_eq!((session.checkpoints, session.added_bytes), (3, stats.pack_bytes));
    }
}
