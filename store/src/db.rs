//! The only place that knows RocksDB. What it holds can be derived from packs and journal at any time.

mod log;

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
};

use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, ColumnFamilyDescriptor, CompactOptions, DB, DBCompressionType, Direction,
    FlushOptions, IngestExternalFileOptions, IteratorMode, LogLevel, Options, ReadOptions, SstFileWriter, WriteBatch,
    WriteOptions,
};
use rustix::io::Errno;

use crate::{
    codec::{Decoder, put_uint},
    error::{Error, IoContext, Result},
    files,
    id::{ObjectKey, PackId},
    keys::{Keys, Part},
    layout::Layout,
    pack::Location,
    threads,
};

/// The column families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Object key -> location.
    Objects,
    /// Pack id -> JSON of what is known about it.
    Packs,
    /// Commit sequence (big-endian) -> sealed record.
    Checkpoints,
    /// `s/`, `r/`, `m/`, `k/`, `c/` and an id -> JSON of a session, a run, what was said of a checkpoint, the event of an idempotency
    /// key, a checkpoint's sequence. `o/`, a session's id, NUL and a sequence (big-endian) -> nothing: the session's checkpoints. `n/`, a
    /// session's name, NUL and its id -> the id. `t/`, a tag, NUL and the id of a checkpoint that bears it -> the tag. In a sealed index, a hash stands for an id or a name that somebody may have chosen
    /// ([`Db::name`]).
    Projections,
    /// `position` -> place in the journal up to which all this was derived; `version` -> of what shape it is.
    Meta,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 5] = [Family::Objects, Family::Packs, Family::Checkpoints, Family::Projections, Family::Meta];

    fn name(self) -> &'static str {
        match self {
            Family::Objects => "objects",
            Family::Packs => "packs",
            Family::Checkpoints => "checkpoints",
            Family::Projections => "folds",
            Family::Meta => "default",
        }
    }
}

/// About how many bytes of a table an object takes: its key is random, and its pack mostly that of others.
const OBJECT_BYTES: u64 = 30;

/// Size of a merged table, in bytes.
const TABLE_BYTES: usize = 64 << 20;

/// The system's words for EFBIG, which RocksDB passes on.
const TOO_LARGE: &str = "File too large";

/// An entry of a family.
type KeyValue = (Box<[u8]>, Box<[u8]>);

/// An open database.
pub struct Db {
    db: DB,
    path: PathBuf,
    keys: Keys,
}

/// Further tries to open an index for reading, while a writer replaces its files.
const READER_TRIES: u64 = 20;

/// Fails if a log of an index is damaged.
fn ensure_readable(path: &Path) -> Result<()> {
    match log::fault_in(path) {
        Ok(Some(reason)) => Err(Error::Index { path: path.to_owned(), reason }),
        Ok(None) => Ok(()),
        // An index that is to be made.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::Index { path: path.to_owned(), reason: e.to_string() }),
    }
}

/// Threads that RocksDB starts to read: two that do things now and then.
const READER_THREADS: usize = 2;
/// ... and to write: one that flushes and one that compacts as well.
const WRITER_THREADS: usize = 4;

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Db({})", self.path.display())
    }
}

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

fn options() -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(10.0, false);
    table.set_block_size(16 << 10);
    table.set_format_version(5);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Zstd);
    options.set_atomic_flush(true);
    // All tables are opened, and kept open, so that another process's compaction cannot take them from under a reader.
    options.set_max_open_files(-1);
    // In the thread that opens the database: starting others takes longer than opening the few tables that there are.
    options.set_max_file_opening_threads(1);
    options.set_log_level(LogLevel::Fatal);
    options.set_keep_log_file_num(1);
    options.set_max_manifest_file_size(1 << 20);
    options.set_write_buffer_size(32 << 20);
    options.set_target_file_size_base(TABLE_BYTES as u64);
    // Statistics that only serve automatic compaction, for which every table would be read when opening.
    options.set_skip_stats_update_on_db_open(true);
    options.set_paranoid_checks(true);
    options
}

/// Error for a message of RocksDB's. Where the user has limited the length of files, that is the cause, and nothing is wrong with the index.
fn failed(path: &Path, e: rocksdb::Error) -> Error {
    let reason = e.into_string();
    match reason.contains(TOO_LARGE) {
        true => Error::Io { action: "write the index in", path: path.to_owned(), source: Errno::FBIG.into() },
        false => Error::Index { path: path.to_owned(), reason },
    }
}

fn encode_location(location: &Location) -> Vec<u8> {
    let mut out = location.pack.0.to_vec();
    put_uint(&mut out, location.offset);
    put_uint(&mut out, u64::from(location.block_bytes));
    out
}

fn decode_location(bytes: &[u8]) -> Option<Location> {
    let mut d = Decoder::new(bytes);
    let pack = PackId(d.array("location").ok()?);
    Some(Location { pack, offset: d.uint("location").ok()?, block_bytes: d.uint32("location").ok()? })
}

impl Db {
    /// RocksDB ends the process where the system refuses it a thread.
    fn ensure_threads(path: &Path, number: usize) -> Result<()> {
        threads::ensure(number).at("start the threads of the index in", path)
    }

    /// RocksDB follows links, and waits for fifos.
    fn check_plain(path: &Path) -> Result<()> {
        files::check_plain(path).map_err(|e| Error::Index { path: path.to_owned(), reason: e.to_string() })
    }

    /// Opens for reading, beside other readers and a writer. `None` where there is no database.
    pub fn open_reader(layout: &Layout) -> Result<Option<Self>> {
        let path = &layout.view();
        if fs::symlink_metadata(path.join("CURRENT")).is_err() {
            return Ok(None);
        }
        Db::open_reader_in(path, &layout.keys, READER_TRIES).map(Some)
    }

    /// The same for a folder that has an index. Of a damaged one, the last of so many further tries fails.
    fn open_reader_in(path: &Path, keys: &Keys, tries_max: u64) -> Result<Self> {
        Db::check_plain(path)?;
        Db::ensure_threads(path, READER_THREADS)?;
        let families = Family::ALL.iter().map(|f| f.name());
        // A writer may replace files between our reading their names and opening them: look again.
        let mut tries = 0;
        loop {
            let opened = ensure_readable(path)
                .and_then(|()| DB::open_cf_for_read_only(&options(), path, families.clone(), false).map_err(|e| failed(path, e)));
            match opened {
                Ok(db) => return Ok(Db { db, path: path.to_owned(), keys: keys.clone() }),
                Err(_) if tries < tries_max => {
                    tries += 1;
                    std::thread::sleep(std::time::Duration::from_millis(tries));
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Opens the index, or another one that is to take its place, for writing, making it where there is none. The caller holds the writer
    /// lock.
    pub fn open_writer(path: &Path, keys: &Keys) -> Result<Self> {
        Db::check_plain(path)?;
        Db::ensure_threads(path, WRITER_THREADS)?;
        let mut options = options();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        ensure_readable(path)?;
        let families = Family::ALL.iter().map(|f| ColumnFamilyDescriptor::new(f.name(), self::options()));
        let db = DB::open_cf_descriptors(&options, path, families).map_err(|e| failed(path, e))?;
        Ok(Db { db, path: path.to_owned(), keys: keys.clone() })
    }

    fn error(&self, e: rocksdb::Error) -> Error {
        failed(&self.path, e)
    }

    fn family(&self, family: Family) -> Result<&rocksdb::ColumnFamily> {
        self.db.cf_handle(family.name()).ok_or_else(|| Error::Index {
            path: self.path.clone(),
            reason: format!("column family {} is missing", family.name()),
        })
    }

    /// A chosen name or id as keys have it.
    pub fn name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        self.keys.seal.name(&self.keys.ids, name)
    }

    fn open(&self, value: Vec<u8>) -> Result<Vec<u8>> {
        let opened = self.keys.seal.open(Part::View, value).map(Cow::into_owned);
        opened.map_err(|e| Error::Index { path: self.path.clone(), reason: e.to_string() })
    }

    fn entry(&self, entry: std::result::Result<KeyValue, rocksdb::Error>) -> Result<KeyValue> {
        let (key, value) = entry.map_err(|e| self.error(e))?;
        Ok((key, self.open(value.into_vec())?.into_boxed_slice()))
    }

    /// The value of a key.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.db.get_cf(self.family(family)?, key).map_err(|e| self.error(e))?;
        found.map(|value| self.open(value)).transpose()
    }

    /// Location of an object.
    pub fn location(&self, key: &ObjectKey) -> Result<Option<Location>> {
        let Some(bytes) = self.db.get_pinned_cf(self.family(Family::Objects)?, key).map_err(|e| self.error(e))? else {
            return Ok(None);
        };
        decode_location(&bytes)
            .map(Some)
            .ok_or_else(|| Error::Index { path: self.path.clone(), reason: "a location does not decode".into() })
    }

    /// Every key and value of a family, in order.
    pub fn scan(&self, family: Family) -> Result<impl Iterator<Item = Result<KeyValue>>> {
        Ok(self.scan_stored(family)?.map(|entry| self.entry(entry)))
    }

    fn scan_stored(&self, family: Family) -> Result<impl Iterator<Item = std::result::Result<KeyValue, rocksdb::Error>>> {
        let mut options = ReadOptions::default();
        options.set_readahead_size(1 << 20);
        Ok(self.db.iterator_cf_opt(self.family(family)?, options, IteratorMode::Start))
    }

    /// Every key of a family and its value, last first.
    pub fn scan_back(&self, family: Family) -> Result<impl Iterator<Item = Result<KeyValue>>> {
        let entries = self.db.iterator_cf(self.family(family)?, IteratorMode::End);
        Ok(entries.map(|entry| self.entry(entry)))
    }

    /// Every key with this prefix, and its value, in order.
    pub fn scan_prefix<'a>(&'a self, family: Family, prefix: &'a [u8]) -> Result<impl Iterator<Item = Result<KeyValue>> + 'a> {
        let from = IteratorMode::From(prefix, Direction::Forward);
        let entries = self.db.iterator_cf(self.family(family)?, from).map(|entry| self.entry(entry));
        Ok(entries.take_while(move |entry| entry.as_ref().map_or(true, |(key, _)| key.starts_with(prefix))))
    }

    /// Every key with this prefix, last first. What follows the prefix begins with no byte 0xff.
    pub fn keys_back<'a>(&'a self, family: Family, prefix: &'a [u8]) -> Result<impl Iterator<Item = Result<Box<[u8]>>> + 'a> {
        let from = [prefix, &[0xff]].concat();
        let entries = self.db.iterator_cf(self.family(family)?, IteratorMode::From(&from, Direction::Reverse));
        let keys = entries.map(|entry| entry.map(|(key, _)| key).map_err(|e| self.error(e)));
        Ok(keys.take_while(move |key| key.as_ref().map_or(true, |key| key.starts_with(prefix))))
    }

    /// Every object and where it lies, in order of keys.
    pub fn objects(&self) -> Result<impl Iterator<Item = Result<(ObjectKey, Location)>>> {
        // Where an object lies is no secret: its id and its pack's name are there to be read in the folder.
        Ok(self.scan_stored(Family::Objects)?.map(|entry| {
            let (key, value) = entry.map_err(|e| self.error(e))?;
            let key: Option<ObjectKey> = key.as_ref().try_into().ok();
            key.zip(decode_location(&value))
                .ok_or_else(|| Error::Index { path: self.path.clone(), reason: "an entry does not decode".into() })
        }))
    }

    /// About how many objects there are, by the lengths of their tables. RocksDB's own estimate is 0, unless it reads all tables when it
    /// opens them.
    pub fn objects_estimate(&self) -> Result<u64> {
        let files = self.db.live_files().map_err(|e| self.error(e))?;
        let of_objects = files.iter().filter(|file| file.column_family_name == Family::Objects.name());
        Ok(of_objects.map(|file| file.size as u64).sum::<u64>() / OBJECT_BYTES)
    }

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
