//! The only place that knows RocksDB. What it holds can be derived from packs and journal at any time.

mod log;
mod read;
mod write;

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
};

use rocksdb::{BlockBasedOptions, ColumnFamilyDescriptor, DB, DBCompressionType, LogLevel, Options};
use rustix::io::Errno;

pub use self::write::{Batch, write_table};
use crate::{
    error::{Error, IoContext, Result},
    files,
    keys::{Keys, Part},
    layout::Layout,
    threads,
};

/// The column families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The first bytes of an object's id -> its block's place in a pack.
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
}
