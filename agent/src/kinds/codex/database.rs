//! The agent's database of conversations, `state_N.sqlite` in its own folder. It looks there alone for a rollout by its id; what is not there it
//! finds anew in `sessions/`.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_name::NameExt as _;
use rusqlite::{Connection, OpenFlags, params};

use crate::{
    error::{Error, Result},
    regular::entries,
};

/// The agent may write at the same time.
const BUSY_LIMIT: Duration = Duration::from_secs(2);

/// Has the databases name this rollout for a conversation, where they name another one. A database without such a table is left.
pub(super) fn adopt(config: &Path, conversation: &str, rollout: &Path) -> Result<()> {
    for path in databases(config) {
        update(&path, conversation, rollout).map_err(|source| Error::Io {
            action: "record the conversation's place in",
            path: path.clone(),
            source: io::Error::other(source),
        })?;
    }
    Ok(())
}

fn databases(config: &Path) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("state_") && name.ends_with(".sqlite") && path.symlink_metadata().is_ok_and(|found| found.is_file())
    };
    entries(config).unwrap_or_default().into_iter().filter(is_one).collect()
}

fn update(path: &Path, conversation: &str, rollout: &Path) -> rusqlite::Result<()> {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    database.busy_timeout(BUSY_LIMIT)?;
    let has_column = "SELECT count(*) FROM pragma_table_info('threads') WHERE name = 'rollout_path'";
    if database.query_row(has_column, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(());
    }
    let rollout = rollout.to_str().map_or_else(|| rollout.shown(), str::to_owned);
    let known = "SELECT count(*) FROM threads WHERE id = ?1 AND rollout_path <> ?2";
    if database.query_row(known, params![conversation, rollout], |row| row.get::<_, i64>(0))? > 0 {
        database.execute("UPDATE threads SET rollout_path = ?2 WHERE id = ?1", params![conversation, rollout])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_found_where_it_lies_now() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| Connection::open(folder.path().join(name)).unwrap();
        let database = open("state_5.sqlite");
        database
            .execute_batch(
                "CREATE TABLE threads (id TEXT PRIMARY KEY, rollout_path TEXT NOT NULL); \
             INSERT INTO threads VALUES ('a', '/old/a'), ('b', '/old/b');",
            )
            .unwrap();
        open("state_4.sqlite").execute_batch("CREATE TABLE other (id TEXT)").unwrap();
        std::fs::write(folder.path().join("state_x.txt"), "none").unwrap();
        adopt(folder.path(), "a", Path::new("/new/a")).unwrap();
        let of =
            |id: &str| database.query_row("SELECT rollout_path FROM threads WHERE id = ?1", [id], |row| row.get::<_, String>(0));
        assert_eq!((of("a").unwrap(), of("b").unwrap()), ("/new/a".to_owned(), "/old/b".to_owned()));
        adopt(folder.path(), "unknown", Path::new("/new/c")).unwrap();
        std::fs::write(folder.path().join("state_6.sqlite"), "no database, and long enough to be looked at as one").unwrap();
        assert!(adopt(folder.path(), "a", Path::new("/new/a")).is_err());
    }
}
