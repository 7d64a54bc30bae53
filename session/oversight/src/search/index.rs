//! The index: a file of SQLite with a full-text table. Nothing outside of this module knows SQLite's types, but for its error.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, config::DbConfig, params, types::FromSql};

use super::{
    Fault, Match,
    documents::{Document, Extent, Field},
    place::Place,
    text::{MARKS, pieces},
};

/// Version of the index's shape and of the texts in it; another one is made anew. It also changes where a release reads checkpoints that one
/// before it could not.
const VERSION: i64 = 1;
/// Mark in SQLite's header of a file that is such an index.
const APPLICATION: i64 = 0x7068_7331;
/// Words of an excerpt.
const EXCERPT_WORDS: u32 = 24;
/// Lines of a list that are shown.
const LINES_MAX: usize = 3;
/// Tables of a checkpoint's state: 0 waits to be indexed, then as of [`Extent`].
const TABLES: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE checkpoints (
        sequence INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, session TEXT NOT NULL, created_at INTEGER NOT NULL,
        base INTEGER, state INTEGER NOT NULL DEFAULT 0);
    CREATE INDEX checkpoints_by_session ON checkpoints (session, sequence);
    CREATE INDEX checkpoints_by_base ON checkpoints (base) WHERE base IS NOT NULL;
    CREATE INDEX checkpoints_by_state ON checkpoints (state) WHERE state <> 1;
    CREATE TABLE sessions (id TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;";

/// An open SQLite database with the text of checkpoints.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
}

/// A search, as the index takes it.
#[derive(Clone, Copy, Debug)]
pub struct IndexQuery<'a> {
    /// The query, in the engine's syntax.
    pub query: &'a str,
    /// Only those of this session.
    pub session: Option<&'a str>,
    /// Only those made since then.
    pub since: Option<Timestamp>,
}

/// A checkpoint that matches.
#[derive(Clone, Copy, Debug)]
pub struct IndexHit {
    /// Commit sequence of the checkpoint.
    pub sequence: u64,
    /// Its rank; a better one is higher.
    pub score: f64,
}

/// Numbers of a search.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Checkpoints that were searched.
    pub searched: u64,
    /// Those of which not all text is there.
    pub partial: u64,
}

/// A checkpoint that waits to be indexed.
#[derive(Clone, Debug)]
pub struct PendingCheckpoint {
    /// Commit sequence of the checkpoint.
    pub sequence: u64,
    /// Id of the checkpoint, a ULID as text.
    pub id: String,
}

/// A row of the index, for comparing two: sequence, base, state, texts.
pub type IndexRow = (i64, Option<i64>, i64, Vec<String>);

type Result<T, E = rusqlite::Error> = std::result::Result<T, E>;

/// The columns of the full-text table.
fn columns() -> String {
    Field::ALL.map(Field::name).join(", ")
}

impl Index {
    /// Opens the index at a place, which is held. An empty file becomes one.
    pub fn open(place: &Place) -> Result<Self, Fault> {
        place.make().map_err(Fault::Closed)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        Self::prepared(Connection::open_with_flags(place.file(), flags)?)
    }

    /// An empty index in memory.
    pub fn in_memory() -> Result<Self, Fault> {
        Self::prepared(Connection::open_in_memory()?)
    }

    /// Takes nothing that the file says for more than data: it may have come with a copied store.
    fn prepared(connection: Connection) -> Result<Self, Fault> {
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.execute_batch(
            "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536; PRAGMA secure_delete = ON;",
        )?;
        let number = |pragma: &str| connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0));
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if tables > 0 && (number("application_id")?, number("user_version")?) != (APPLICATION, VERSION) {
            return Err(Fault::Unfit);
        }
        let foreign = "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')";
        if connection.query_row(foreign, [], |row| row.get::<_, i64>(0))? > 0 {
            return Err(Fault::Unfit);
        }
        let index = Index { connection };
        if tables == 0 {
            index.make()?;
        }
        Ok(index)
    }

    fn make(&self) -> Result<()> {
        self.connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {TABLES}
             CREATE VIRTUAL TABLE texts USING fts5({}, tokenize = 'unicode61 remove_diacritics 2');
             PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;",
            columns()
        ))
    }

    /// The place in the journal up to which it was built, as [`WriteTransaction::set_position`] was told.
    pub fn position(&self) -> Result<Option<String>> {
        let found = self.connection.query_row("SELECT value FROM meta WHERE key = 'position'", [], |row| row.get(0));
        found.optional()
    }

    /// Number of checkpoints that wait to be indexed.
    pub fn waiting(&self) -> Result<u64> {
        self.number("SELECT count(*) FROM checkpoints WHERE state = 0", [])
    }

    fn number(&self, sql: &str, values: impl rusqlite::Params) -> Result<u64> {
        self.connection.query_row(sql, values, |row| unsigned(row, 0))
    }

    /// Begins to write. What is not committed is taken back.
    pub fn write(&self) -> Result<WriteTransaction<'_>> {
        Ok(WriteTransaction(self.connection.unchecked_transaction()?))
    }

    /// Brings all of the full-text table into one piece, which makes searching it quicker.
    pub fn optimize(&self) -> Result<()> {
        self.connection.execute("INSERT INTO texts (texts) VALUES ('optimize')", []).map(drop)
    }

    /// Leaves nothing of what was removed in the file.
    pub fn scrub(&self) -> Result<()> {
        self.optimize()?;
        self.connection.execute_batch("VACUUM")
    }

    /// Numbers of a search.
    pub fn counts(&self, asked: &IndexQuery<'_>) -> Result<Counts> {
        let sql = "SELECT count(*), coalesce(sum(state > 1), 0) FROM checkpoints c WHERE
            (?1 IS NULL OR c.session = ?1) AND (?2 IS NULL OR c.created_at >= ?2)";
        let values = params![asked.session, asked.since.map(Timestamp::as_microsecond)];
        self.connection.query_row(sql, values, |row| Ok(Counts { searched: unsigned(row, 0)?, partial: unsigned(row, 1)? }))
    }

    /// All checkpoints that match, the best first; of two that are as good, the newer one first.
    pub fn ranked(&self, asked: &IndexQuery<'_>) -> Result<Vec<IndexHit>> {
        let weights = Field::ALL.map(|field| field.weight().to_string()).join(", ");
        // The full-text table comes first: it is asked once, and not once for each checkpoint.
        let chosen = match (asked.session, asked.since) {
            (None, None) => "WHERE texts MATCH ?1 AND ?2 IS NULL AND ?3 IS NULL",
            _ => {
                "CROSS JOIN checkpoints c ON c.sequence = texts.rowid WHERE texts MATCH ?1
                 AND (?2 IS NULL OR c.session = ?2) AND (?3 IS NULL OR c.created_at >= ?3)"
            }
        };
        let mut statement =
            self.connection.prepare(&format!("SELECT texts.rowid, -bm25(texts, {weights}) FROM texts {chosen}"))?;
        let values = params![asked.query, asked.session, asked.since.map(Timestamp::as_microsecond)];
        let rows = statement.query_map(values, |row| Ok(IndexHit { sequence: unsigned(row, 0)?, score: row.get(1)? }))?;
        let mut ranked = rows.collect::<Result<Vec<_>>>()?;
        ranked.sort_by(|one, other| other.score.total_cmp(&one.score).then(other.sequence.cmp(&one.sequence)));
        Ok(ranked)
    }

    /// The id of a checkpoint.
    pub fn id(&self, sequence: u64) -> Result<Option<String>> {
        let mut statement = self.connection.prepare_cached("SELECT id FROM checkpoints WHERE sequence = ?1")?;
        statement.query_row([signed(sequence)], |row| row.get(0)).optional()
    }

    /// The places in the texts of some checkpoints that match, by sequence.
    pub fn matches(&self, query: &str, ranked: &[IndexHit]) -> Result<HashMap<u64, Vec<Match>>> {
        let (open, close) = MARKS;
        let excerpt = |(i, field): (usize, Field)| match field.is_list() {
            true => format!("highlight(texts, {i}, '{open}', '{close}')"),
            false => format!("snippet(texts, {i}, '{open}', '{close}', '…', {EXCERPT_WORDS})"),
        };
        let excerpts: Vec<String> = Field::ALL.into_iter().enumerate().map(excerpt).collect();
        let rows: Vec<String> = ranked.iter().map(|ranked| ranked.sequence.to_string()).collect();
        // The plus has the engine go once through all that match, and not once for each of these.
        let sql =
            format!("SELECT rowid, {} FROM texts WHERE texts MATCH ?1 AND +rowid IN ({})", excerpts.join(", "), rows.join(", "));
        let mut statement = self.connection.prepare(&sql)?;
        let found = statement.query_map([query], |row| Ok((unsigned(row, 0)?, matches_of(row)?)))?;
        found.collect()
    }

    /// Everything in it, for comparing two.
    pub fn dump(&self) -> Result<Vec<IndexRow>> {
        let sql = format!(
            "SELECT sequence, base, state, {} FROM checkpoints LEFT JOIN texts ON texts.rowid = sequence ORDER BY sequence",
            Field::ALL.map(|field| format!("texts.{}", field.name())).join(", ")
        );
        let mut statement = self.connection.prepare(&sql)?;
        let texts = |row: &Row<'_>| (0..Field::ALL.len()).map(|i| row.get(i + 3)).collect::<Result<Vec<String>>>();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, texts(row)?)))?;
        rows.collect()
    }
}

/// The places in the fields of a row, which stand behind its first column.
fn matches_of(row: &Row<'_>) -> Result<Vec<Match>> {
    let mut matches = Vec::new();
    for (i, field) in Field::ALL.into_iter().enumerate() {
        let text: String = row.get(i + 1)?;
        let lines: Vec<&str> = if field.is_list() { text.lines().collect() } else { vec![text.as_str()] };
        let marked = lines.into_iter().map(pieces).filter(|pieces| !pieces.is_empty());
        matches.extend(marked.take(LINES_MAX).map(|pieces| Match { field, pieces }));
    }
    Ok(matches)
}

/// SQLite's integers have a sign, and sequences none.
fn signed(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}

fn unsigned(row: &Row<'_>, column: usize) -> Result<u64> {
    row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or(0))
}

/// Changes to an index that become visible together.
#[derive(Debug)]
pub struct WriteTransaction<'a>(Transaction<'a>);

impl WriteTransaction<'_> {
    fn run(&self, sql: &str, values: impl rusqlite::Params) -> Result<()> {
        self.0.prepare_cached(sql)?.execute(values).map(drop)
    }

    fn one<T: FromSql>(&self, sql: &str, values: impl rusqlite::Params) -> Result<Option<T>> {
        self.0.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()
    }

    /// Makes the changes.
    pub fn commit(self) -> Result<()> {
        self.0.commit()
    }

    /// Takes everything out.
    pub fn clear(&self) -> Result<()> {
        let sql = "DELETE FROM texts; DELETE FROM checkpoints; DELETE FROM sessions; DELETE FROM meta;";
        self.0.execute_batch(sql)
    }

    /// Notes the place in the journal up to which it is built.
    pub fn set_position(&self, position: &str) -> Result<()> {
        self.run("INSERT OR REPLACE INTO meta (key, value) VALUES ('position', ?1)", [position])
    }

    /// Adds a checkpoint, which waits to be indexed.
    pub fn add(&self, sequence: u64, id: &str, session: &str, created_at: Timestamp) -> Result<()> {
        self.run(
            "INSERT OR REPLACE INTO checkpoints (sequence, id, session, created_at) VALUES (?1, ?2, ?3, ?4)",
            params![signed(sequence), id, session, created_at.as_microsecond()],
        )
    }

    /// Takes a checkpoint out. Those whose base it was wait to be indexed again.
    pub fn remove(&self, id: &str) -> Result<()> {
        let Some(sequence) = self.one::<i64>("SELECT sequence FROM checkpoints WHERE id = ?1", [id])? else { return Ok(()) };
        self.run("DELETE FROM texts WHERE rowid = ?1", [sequence])?;
        self.run("DELETE FROM checkpoints WHERE sequence = ?1", [sequence])?;
        self.run("UPDATE checkpoints SET state = 0 WHERE base = ?1", [sequence])
    }

    /// Has damaged checkpoints wait to be indexed again, at most so many.
    pub fn retry_damaged(&self, at_most: u32) -> Result<()> {
        let sql =
            "UPDATE checkpoints SET state = 0 WHERE sequence IN (SELECT sequence FROM checkpoints WHERE state = 3 LIMIT ?1)";
        self.run(sql, [at_most])
    }

    /// Puts new texts into fields of a checkpoint that is indexed.
    pub fn update(&self, id: &str, fields: &[(Field, String)]) -> Result<()> {
        let sequence = self.one::<i64>("SELECT sequence FROM checkpoints WHERE id = ?1 AND state <> 0", [id])?;
        let Some(sequence) = sequence else { return Ok(()) };
        for (field, text) in fields {
            let name = field.name();
            let sql = format!("UPDATE texts SET {name} = ?1 WHERE rowid = ?2 AND {name} <> ?1");
            self.run(&sql, params![text, sequence])?;
        }
        Ok(())
    }

    /// Notes the text of a session, and puts it into those of its checkpoints that are indexed.
    pub fn set_session(&self, id: &str, text: &str) -> Result<()> {
        let known: Option<String> = self.one("SELECT text FROM sessions WHERE id = ?1", [id])?;
        if known.as_deref() == Some(text) {
            return Ok(());
        }
        self.run("INSERT OR REPLACE INTO sessions (id, text) VALUES (?1, ?2)", [id, text])?;
        let name = Field::Session.name();
        let sql = format!(
            "UPDATE texts SET {name} = ?2 WHERE rowid IN (SELECT sequence FROM checkpoints WHERE session = ?1 AND state <> 0)
             AND {name} <> ?2"
        );
        self.run(&sql, [id, text])
    }

    /// The next checkpoints that wait to be indexed, in the order of commits.
    pub fn next(&self, at_most: u32) -> Result<Vec<PendingCheckpoint>> {
        let mut statement =
            self.0.prepare_cached("SELECT sequence, id FROM checkpoints WHERE state = 0 ORDER BY sequence LIMIT ?1")?;
        let rows =
            statement.query_map([at_most], |row| Ok(PendingCheckpoint { sequence: unsigned(row, 0)?, id: row.get(1)? }))?;
        rows.collect()
    }

    /// The id of the last checkpoint of a session before a sequence.
    pub fn before(&self, session: &str, sequence: u64) -> Result<Option<String>> {
        let sql = "SELECT id FROM checkpoints WHERE session = ?1 AND sequence < ?2 ORDER BY sequence DESC LIMIT 1";
        self.one(sql, params![session, signed(sequence)])
    }

    /// Puts a checkpoint's text in.
    pub fn put(&self, sequence: u64, base: Option<u64>, document: &Document) -> Result<()> {
        let sequence = signed(sequence);
        self.run("DELETE FROM texts WHERE rowid = ?1", [sequence])?;
        let marks = (0..Field::ALL.len()).map(|i| format!("?{}", i + 2)).collect::<Vec<_>>().join(", ");
        let sql = format!("INSERT INTO texts (rowid, {}) VALUES (?1, {marks})", columns());
        {
            let mut statement = self.0.prepare_cached(&sql)?;
            statement.raw_bind_parameter(1, sequence)?;
            for (i, text) in document.fields.iter().enumerate() {
                statement.raw_bind_parameter(i + 2, text)?;
            }
            statement.raw_execute()?;
        }
        let state = match document.extent {
            Extent::Whole => 1,
            Extent::Cut => 2,
            Extent::Damaged => 3,
        };
        self.run("UPDATE checkpoints SET base = ?2, state = ?3 WHERE sequence = ?1", params![sequence, base.map(signed), state])
    }
}
