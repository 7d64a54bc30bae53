//! Writing the index.

use std::path::Path;

use rocksdb::{
    BottommostLevelCompaction, CompactOptions, FlushOptions, IngestExternalFileOptions, SstFileWriter, WriteBatch, WriteOptions,
};

use super::{Db, Family, TABLE_BYTES, failed, options};
use crate::{codec::put_uint, error::Result, id::ObjectKey, keys::Part, pack::Location};

/// Changes to be written together.
#[derive(Default)]
pub struct Batch(Vec<(Family, Vec<u8>, Option<Vec<u8>>)>);

impl Batch {
    /// Sets a key.
    pub fn put(&mut self, family: Family, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.0.push((family, key.into(), Some(value.into())));
    }

    /// Removes a key.
    pub fn delete(&mut self, family: Family, key: impl Into<Vec<u8>>) {
        self.0.push((family, key.into(), None));
    }
}

fn encode_location(location: &Location) -> Vec<u8> {
    let mut out = location.pack.0.to_vec();
    put_uint(&mut out, location.offset);
    put_uint(&mut out, u64::from(location.block_bytes));
    out
}

impl Db {
    /// Writes a batch to memory; [`Db::flush`] makes it permanent, all or nothing.
    pub fn write(&self, batch: Batch) -> Result<()> {
        let mut out = WriteBatch::default();
        for (family, key, value) in batch.0 {
            let handle = self.family(family)?;
            match value {
                Some(value) if family == Family::Objects => out.put_cf(handle, key, value),
                Some(value) => out.put_cf(handle, key, self.keys.seal.seal(Part::View, value)),
                None => out.delete_cf(handle, key),
            }
        }
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db.write_opt(out, &options).map_err(|e| self.error(e))
    }

    /// Adds locations, one batch.
    pub fn put_locations(&self, objects: impl IntoIterator<Item = (ObjectKey, Location)>) -> Result<()> {
        let mut batch = Batch::default();
        for (key, location) in objects {
            batch.put(Family::Objects, key, encode_location(&location));
        }
        self.write(batch)
    }

    /// Takes in a table file that [`write_table`] made. The file is moved.
    pub fn ingest(&self, table: &Path) -> Result<()> {
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        self.db.ingest_external_file_cf_opts(self.family(Family::Objects)?, &options, vec![table]).map_err(|e| self.error(e))
    }

    /// Writes everything to table files, atomically over all families.
    pub fn flush(&self) -> Result<()> {
        let families = Family::ALL.iter().map(|f| self.family(*f)).collect::<Result<Vec<_>>>()?;
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_cfs_opt(&families, &options).map_err(|e| self.error(e))
    }

    /// Number of a family's table files that are smaller than a merged one.
    pub fn small_tables(&self, family: Family) -> Result<usize> {
        let files = self.db.live_files().map_err(|e| self.error(e))?;
        let is_small = |file: &&rocksdb::LiveFile| file.column_family_name == family.name() && file.size < TABLE_BYTES / 2;
        Ok(files.iter().filter(is_small).count())
    }

    /// Merges a family's tables into one level, also such as do not overlap: each costs time when the database is opened.
    pub fn compact(&self, family: Family) -> Result<()> {
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        self.db.compact_range_cf_opt(self.family(family)?, None::<&[u8]>, None::<&[u8]>, &options);
        Ok(())
    }
}

/// Writes a table of locations that a database can take in whole. The objects must be ordered by key and distinct.
pub fn write_table(path: &Path, objects: impl Iterator<Item = (ObjectKey, Location)>) -> Result<()> {
    let error = |e: rocksdb::Error| failed(path, e);
    let options = options();
    let mut writer = SstFileWriter::create(&options);
    writer.open(path).map_err(error)?;
    for (key, location) in objects {
        writer.put(key, encode_location(&location)).map_err(error)?;
    }
    writer.finish().map_err(error)
}
