//! Searching checkpoints by words: in messages, annotations, tags, links, sessions, names of changed files, summaries and conversations.
//!
//! The index is a view of the store: a file of SQLite with its full-text search (`index`), which can be deleted at any time. It notes the
//! place in the journal up to which it was built. A search first brings it up to date (`update`) and then asks it. Where it lies, and who
//! may write to it at a time, is the matter of `place`.
//!
//! Each checkpoint is found by the text that it adds to its base, the checkpoint before it (`documents`): so the first checkpoint that has
//! a text is found, and not all that follow. If that one is deleted, the text is the next one's.

mod documents;
mod index;
mod place;
mod query;
mod text;
mod update;

use jiff::Timestamp;
use parhelia_store::{Store, id::Ulid, record::Checkpoint};

pub use self::{documents::Field, query::Query};
use self::{
    index::{Index, IndexHit, IndexQuery},
    place::{LockMode, Place},
};
use parhelia_host::{Error, Host, Observer, Result, error::IoContext, notice::Notice};

/// True if the index is the one that would be made anew. False where one of them cannot be read.
pub fn is_sound(store: &Store, host: &dyn Host) -> bool {
    let kept = place::candidates(store, host).first().and_then(|place| Index::open(place).ok());
    let new = Index::in_memory().ok().filter(|new| update::run(new, store, &()).is_ok());
    kept.zip(new).is_some_and(|(kept, new)| kept.dump().ok().zip(new.dump().ok()).is_some_and(|(kept, new)| kept == new))
}

/// A search for checkpoints.
#[derive(Clone, Debug)]
pub struct SearchRequest<'a> {
    /// The words.
    pub query: &'a Query,
    /// Only those of the session with this id.
    pub session: Option<&'a str>,
    /// Only those made since then.
    pub since: Option<Timestamp>,
    /// At most so many of them, the best first.
    pub limit: usize,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct SearchResults {
    /// The checkpoints, the best first.
    pub hits: Vec<Hit>,
    /// Number of checkpoints that match.
    pub matching: u64,
    /// Number of checkpoints that were searched.
    pub searched: u64,
    /// Number of those whose text is longer than what is searched of one, or could not be read whole.
    pub partial: u64,
}

/// A checkpoint that matches.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The checkpoint with its record.
    pub checkpoint: Checkpoint,
    /// Its rank: of two the better one has the higher score. Scores of two searches cannot be compared.
    pub score: f64,
    /// The places that match, the most important field first.
    pub matches: Vec<Match>,
}

/// A place in the text of a checkpoint that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The field that has the words.
    pub field: Field,
    /// An excerpt, in pieces.
    pub pieces: Vec<Piece>,
}

/// A piece of an excerpt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The text, in one line.
    pub text: String,
    /// True if it is what was searched for.
    pub is_match: bool,
}

/// Searches the checkpoints of a store.
pub fn search(store: &Store, host: &dyn Host, request: &SearchRequest<'_>, observer: &dyn Observer) -> Result<SearchResults> {
    let mut why = String::new();
    for place in place::candidates(store, host) {
        match at(store, &place, request, observer) {
            Err(Fault::Other(error)) => return Err(error),
            Err(fault) => why = fault.to_string(),
            Ok(found) => return Ok(found),
        }
    }
    observer.note(&Notice::IndexNotKept { why });
    let searched = in_memory(store, request, observer);
    searched.map_err(|fault| match fault {
        Fault::Other(error) => error,
        fault => Error::Damaged(format!("cannot search {}: {fault}", store.path().display())),
    })
}

/// A reason for which an index is of no use.
#[derive(Debug, thiserror::Error)]
enum Fault {
    /// SQLite said so.
    #[error("{0}")]
    Engine(#[from] rusqlite::Error),
    /// It is not one of this release.
    #[error("it is not of this release")]
    Unfit,
    /// It cannot be opened or locked.
    #[error("{0}")]
    Closed(std::io::Error),
    /// Not the index, but the store or the caller.
    #[error("{0}")]
    Other(#[from] Error),
}

impl From<parhelia_store::Error> for Fault {
    fn from(error: parhelia_store::Error) -> Self {
        Fault::Other(error.into())
    }
}

/// SQLite's `SQLITE_IOERR_SHORT_READ`.
const SHORT_READ: i32 = 522;

impl Fault {
    /// True if an empty index in its place would do better.
    fn is_of_content(&self) -> bool {
        use rusqlite::ErrorCode as Code;
        match self {
            // A file that ends too early.
            Fault::Engine(rusqlite::Error::SqliteFailure(error, _)) if error.extended_code == SHORT_READ => true,
            Fault::Engine(error) => !matches!(
                error.sqlite_error_code(),
                Some(Code::CannotOpen | Code::DatabaseBusy | Code::DatabaseLocked | Code::DiskFull | Code::OutOfMemory)
                    | Some(Code::PermissionDenied | Code::ReadOnly | Code::SystemIoFailure)
            ),
            Fault::Unfit => true,
            Fault::Closed(_) | Fault::Other(_) => false,
        }
    }
}

/// Searches with the index at a place: beside other readers if it is up to date, and otherwise alone.
fn at(store: &Store, place: &Place, request: &SearchRequest<'_>, observer: &dyn Observer) -> Result<SearchResults, Fault> {
    let shared = place.lock(LockMode::Shared, store.lock_timeout(), observer)?;
    let current = Index::open(place).and_then(|index| Ok(update::is_current(&index, &store.view())?.then_some(index)));
    let found = current.and_then(|index| index.map(|index| ask(store, &index, request)).transpose());
    drop(shared);
    match found {
        Ok(Some(found)) => return Ok(found),
        Err(Fault::Other(error)) => return Err(error.into()),
        // What is wrong with it is put right by whoever holds it alone.
        Ok(None) | Err(_) => {}
    }
    let _alone = place.lock(LockMode::Alone, store.lock_timeout(), observer)?;
    match updated(store, place, request, observer) {
        Err(fault) if fault.is_of_content() => {
            place.clear().map_err(Fault::Closed)?;
            updated(store, place, request, observer)
        }
        other => other,
    }
}

/// Removes the texts of deleted checkpoints from the indexes that there are. An index that cannot be brought up to date is removed: the next
/// search makes it anew.
pub fn forget_deleted(store: &Store, host: &dyn Host, observer: &dyn Observer) -> Result<()> {
    for place in place::candidates(store, host).into_iter().filter(|place| place.file().exists()) {
        let scrubbed = || -> Result<(), Fault> {
            let _alone = place.lock(LockMode::Alone, store.lock_timeout(), observer)?;
            let index = Index::open(&place)?;
            update::run(&index, store, observer)?;
            Ok(index.scrub()?)
        };
        match scrubbed() {
            Err(Fault::Other(error)) => return Err(error),
            Err(_) => place.clear().at("remove the search index", &place.file())?,
            Ok(()) => {}
        }
    }
    Ok(())
}

fn updated(store: &Store, place: &Place, request: &SearchRequest<'_>, observer: &dyn Observer) -> Result<SearchResults, Fault> {
    let index = Index::open(place)?;
    update::run(&index, store, observer)?;
    ask(store, &index, request)
}

fn in_memory(store: &Store, request: &SearchRequest<'_>, observer: &dyn Observer) -> Result<SearchResults, Fault> {
    let index = Index::in_memory()?;
    update::run(&index, store, observer)?;
    ask(store, &index, request)
}

fn ask(store: &Store, index: &Index, request: &SearchRequest<'_>) -> Result<SearchResults, Fault> {
    let engine = request.query.engine();
    let asked = IndexQuery { query: &engine, session: request.session, since: request.since };
    let counts = index.counts(&asked)?;
    let mut ranked = index.ranked(&asked)?;
    let matching = ranked.len() as u64;
    ranked.truncate(request.limit);
    let (view, mut places) = (store.view(), index.matches(&engine, &ranked)?);
    let mut hits = Vec::new();
    for IndexHit { sequence, score } in ranked {
        let id: Option<Ulid> = index.id(sequence)?.and_then(|id| id.parse().ok());
        // Deleted while it was indexed.
        let Some(checkpoint) = id.map(|id| view.checkpoint(id)).transpose()?.flatten() else { continue };
        hits.push(Hit { checkpoint, score, matches: places.remove(&sequence).unwrap_or_default() });
    }
    Ok(SearchResults { hits, matching, searched: counts.searched, partial: counts.partial })
}
