//! The one error type of this crate.
//!
//! Every variant names the thing, the cause and, where there is one, the next step. Sources are kept.

mod kind;
mod side;
mod younger;

use std::{
    io,
    path::{Path, PathBuf},
};

use parhelia_name::{NameExt as _, step::Step};

pub(crate) use self::side::TargetContext;
pub use self::{
    kind::ErrorKind,
    side::Side,
    younger::{MissingStore, Younger},
};

/// Errors of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.shown())]
    Io {
        /// The operation that failed, as an infinitive ("read", "create folder").
        action: &'static str,
        /// The file or folder that it was done to.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no store at this path.
    #[error("no store at {}: {hint}", path.shown())]
    NoStore {
        /// The path that was tried.
        path: PathBuf,
        /// The next step.
        hint: String,
    },
    /// The folder exists and is not a store.
    #[error("{} is not a parhelia store: {reason}", path.shown())]
    NotAStore {
        /// The folder.
        path: PathBuf,
        /// The reason for which it is none.
        reason: String,
    },
    /// The store was written by a newer release.
    #[error("the store at {} needs {needs}, which this release ({}) does not have; use a newer parhelia", path.shown(), env!("CARGO_PKG_VERSION"))]
    FormatNewer {
        /// The store.
        path: PathBuf,
        /// The version or feature flag that is missing here.
        needs: String,
    },
    /// Another process holds the writer lock.
    #[error("the store at {} is locked by {holder}; waited {waited_ms} ms (raise {}, or try again)", path.shown(), Step::LockTimeout)]
    Locked {
        /// The store.
        path: PathBuf,
        /// The lock file's text about its holder.
        holder: String,
        /// Time that was waited, in milliseconds.
        waited_ms: u64,
    },
    /// Another process has appended to the journal although this one holds the lock, as on a network filesystem without locks.
    #[error("cannot append to the journal in {}: another process appended to it at the same time; try again", path.shown())]
    Raced {
        /// The journal's folder.
        path: PathBuf,
    },
    /// Root is a guest in the store of another user, and this would leave files of root's in it.
    #[error("cannot change {} as root: the store belongs to uid {uid}; run this as that user", path.shown())]
    NotOwner {
        /// The file or folder that was to be changed.
        path: PathBuf,
        /// The store's owner.
        uid: u32,
    },
    /// Stored bytes are not what was written.
    #[error("corrupt: {what} in {}: {reason}; {}", place.shown(), remedy(place))]
    Corrupt {
        /// The object or structure.
        what: String,
        /// The file that holds it.
        place: PathBuf,
        /// The sign by which it was noticed.
        reason: String,
    },
    /// An object that something refers to is in no pack.
    #[error("corrupt: {kind} {id} is missing from the store; run {}", Step::Check)]
    Missing {
        /// Chunk, recipe, tree or record.
        kind: &'static str,
        /// Its id, in hex.
        id: String,
    },
    /// An object that no reader would take, so that what refers to it could never be read.
    #[error("{what} comes to {bytes} bytes, and at most {} can be stored; {hint}", crate::format::BLOCK_BYTES_MAX)]
    TooLong {
        /// The kind of object.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The next step.
        hint: &'static str,
    },
    /// Folders nest deeper than a checkpoint may have them.
    #[error(
        "cannot capture {path}/…: folders nest in it deeper than {}, which could not be restored; leave it out with {}",
        crate::format::TREE_DEPTH_MAX,
        Step::Exclude
    )]
    TooDeep {
        /// The beginning of the path, from the workspace folder.
        path: String,
    },
    /// Nothing was captured, where that is no checkpoint.
    #[error(
        "cannot create a checkpoint: nothing that was asked for is left to capture ({left_out} entries are left out); {} names them",
        Step::DryRun
    )]
    NothingCaptured {
        /// Number of entries that were left out.
        left_out: u64,
    },
    /// Something at one path, in a checkpoint or on its way into one, failed.
    #[error("{path}: {source}")]
    At {
        /// The path inside the checkpoint.
        path: String,
        /// The error there.
        source: Box<Error>,
    },
    /// Something failed on another side than the store's.
    #[error("{source}")]
    Beside {
        /// The side that failed.
        side: Side,
        /// The error there.
        source: Box<Error>,
    },
    /// The index (RocksDB) failed; it can be derived anew.
    #[error("the index in {} failed: {reason}; run {}", path.shown(), Step::RebuildIndex)]
    Index {
        /// The RocksDB folder.
        path: PathBuf,
        /// RocksDB's words.
        reason: String,
    },
    /// A selector fits no checkpoint that exists.
    #[error("no checkpoint matches '{selector}'; {} shows what there is", Step::Checkpoints)]
    NoCheckpoint {
        /// The thing that was asked for.
        selector: String,
    },
    /// No checkpoint that exists bears the tag.
    #[error(
        "no checkpoint{} has the tag '{tag}'; {}",
        session.as_ref().map(|session| format!(" of session {session}")).unwrap_or_default(),
        tags_hint(near)
    )]
    NoTag {
        /// The tag that was asked for.
        tag: String,
        /// The session that was to have it.
        session: Option<String>,
        /// Tags in use that are spelled nearly so.
        near: Vec<String>,
    },
    /// More than one checkpoint matches.
    #[error(
        "'{selector}' matches {} checkpoints: {}; give more characters, or the end of the id, as ids of one day begin alike",
        candidates.len(),
        some(candidates)
    )]
    Ambiguous {
        /// The thing that was asked for.
        selector: String,
        /// The ids that match.
        candidates: Vec<String>,
    },
    /// A path that the checkpoint does not hold.
    #[error("{path}: not in checkpoint {checkpoint}")]
    NoSuchPath {
        /// The path from the workspace folder, escaped for messages.
        path: String,
        /// Id of the checkpoint, a ULID.
        checkpoint: String,
    },
    /// Patterns that say what to restore, and leave nothing of it.
    #[error(
        "cannot restore anything: nothing in checkpoint {checkpoint} {}; {} shows what there is",
        matches(include, exclude),
        Step::Paths(checkpoint.clone())
    )]
    NoMatch {
        /// Id of the checkpoint, a ULID.
        checkpoint: String,
        /// The patterns of which one has to match.
        include: Vec<String>,
        /// The patterns of which none may match.
        exclude: Vec<String>,
    },
    /// A file that was taken for an archive.
    #[error("cannot import {}: it is not a tar or tar.zst archive{hint}", path.shown())]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// The format that it looks like, and the next step; empty if nobody knows.
        hint: String,
    },
    /// An archive that cannot be read, or must not be.
    #[error("archive {}: {member}: {reason}", path.shown())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// The member, or the part of the archive.
        member: String,
        /// The fault.
        reason: String,
    },
    /// No session has this id or name.
    #[error("no session '{session}'; {} shows what there is", Step::Sessions)]
    NoSession {
        /// The thing that was asked for.
        session: String,
    },
    /// More than one session has this name.
    #[error("'{session}' is the name of {} sessions: {}; give an id", candidates.len(), candidates.join(", "))]
    AmbiguousSession {
        /// The thing that was asked for.
        session: String,
        /// The ids of those that have it.
        candidates: Vec<String>,
    },
    /// No run has this id.
    #[error("no run '{run}'; {} shows what was recorded", Step::Events)]
    NoRun {
        /// The thing that was asked for.
        run: String,
    },
    /// A newer run has taken over the session.
    #[error(
        "{action} refused: session {session} is in epoch {current} by now, and this is epoch {epoch}; a newer run has taken over"
    )]
    Fenced {
        /// The event or checkpoint that was to be recorded.
        action: String,
        /// Id of the session that a newer run has.
        session: String,
        /// The epoch that was given.
        epoch: u64,
        /// The session's epoch.
        current: u64,
    },
    /// The request makes no sense as put.
    #[error("{0}")]
    Invalid(String),
    /// The request makes sense, and a state is against it.
    #[error("{0}")]
    Refused(String),
    /// Stored bytes are damaged or lost, and what was asked for would spread that, or give up what is still whole.
    #[error("{0}")]
    Damage(String),
    /// The store is behind what this user has seen of it, so that nothing is removed from it.
    #[error("cannot remove anything from the store: {0}")]
    Younger(Box<Younger>),
    /// This user had a store at a place where there is none now.
    #[error("{0}")]
    StoreMissing(Box<MissingStore>),
    /// The target of a restore is in the way.
    #[error(
        "{} exists and is {}",
        path.shown(),
        in_the_way(*is_folder)
    )]
    TargetNotEmpty {
        /// The target.
        path: PathBuf,
        /// True if it is a folder.
        is_folder: bool,
    },
    /// More is to be written than the target's filesystem has free.
    #[error(
        "cannot restore to {}: no space left: {needed} bytes are to be written, and {free} are free; free some, or choose another place",
        path.shown()
    )]
    NoRoom {
        /// The target.
        path: PathBuf,
        /// Bytes that are to be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// Another restore is changing the target.
    #[error("another restore is changing {}; wait until it is done", path.shown())]
    TargetBusy {
        /// The target.
        path: PathBuf,
    },
    /// Garbage collection overtook this run more often than it may.
    #[error("garbage collection removed what this run was going to reuse, {tries} times in a row; try again")]
    Overtaken {
        /// Number of attempts, all of which were overtaken.
        tries: u32,
    },
    /// The store has changed since a repair was planned.
    #[error("{0}; run the repair again")]
    Outdated(&'static str),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl Error {
    /// The thing and the fault, without the next step; for whoever is taking that step.
    pub fn fault(&self) -> String {
        match self {
            Error::Corrupt { what, place, reason } => format!("corrupt: {what} in {}: {reason}", place.shown()),
            Error::Missing { kind, id } => format!("corrupt: {kind} {id} is missing from the store"),
            Error::At { path, source } => format!("{path}: {}", source.fault()),
            Error::Beside { source, .. } => source.fault(),
            other => other.to_string(),
        }
    }

    /// The same error, with the path inside a checkpoint at which it happened.
    pub fn at(self, path: &[u8]) -> Self {
        match self {
            Error::At { .. } | Error::Cancelled => self,
            other => Error::At { path: parhelia_name::display(path), source: Box::new(other) },
        }
    }
}

/// A message's words for tags that may have been meant.
fn tags_hint(near: &[String]) -> String {
    let all = format!("{} lists those in use", Step::Tags);
    match near {
        [] => all,
        near => format!("similar: {}; {all}", near.join(", ")),
    }
}

/// A message's words for what is in a restore's way.
fn in_the_way(is_folder: bool) -> String {
    let (to, in_place) = (Step::To, Step::InPlace);
    match is_folder {
        true => format!(
            "not an empty folder; use another {to}, or {in_place}, which changes it into the checkpoint ({} shows how)",
            Step::DryRun
        ),
        false => format!("no folder; use another {to}, or {in_place} to replace it"),
    }
}

/// The next step where a file of a store is damaged.
fn remedy(place: &Path) -> String {
    let salvage = || format!("{} makes a new store of what the packs hold", Step::Salvage);
    if place.ends_with("journal") {
        return salvage();
    }
    if place.ends_with("packs") {
        return format!(
            "if they are on another disk, mount it; {} gives up what is lost, and then new checkpoints can be made",
            Step::Repair
        );
    }
    let is_in_journal = place.parent().is_some_and(|folder| folder.ends_with("journal"));
    match place.extension().and_then(|extension| extension.to_str()) {
        Some("log") if is_in_journal => format!("{} mends what can be mended; {}", Step::Repair, salvage()),
        Some("json") if place.ends_with("store.json") => salvage(),
        _ => format!("run {}", Step::CheckData),
    }
}

/// At most this many candidates are named.
const CANDIDATES_MAX: usize = 5;

/// The first of some candidates.
fn some(candidates: &[String]) -> String {
    let first = candidates[..candidates.len().min(CANDIDATES_MAX)].join(", ");
    match candidates.len().saturating_sub(CANDIDATES_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// A message's words for patterns that nothing fits.
fn matches(include: &[String], exclude: &[String]) -> String {
    let wanted = (!include.is_empty()).then(|| format!("matches {}", include.join(" or ")));
    let left = (!exclude.is_empty()).then(|| format!("is left by {} {}", Step::Exclude, exclude.join(" and ")));
    wanted.into_iter().chain(left).collect::<Vec<_>>().join(" and ")
}

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds what was being done, and to what, to a system error.
pub trait IoContext<T> {
    /// The error of a system call, with the action and the path.
    fn at(self, action: &'static str, path: impl AsRef<Path>) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn at(self, action: &'static str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|source| Error::Io { action, path: path.as_ref().to_owned(), source: source.into() })
    }
}
