//! Pushing what this machine has recorded.

use std::time::Duration;

use jiff::Timestamp;
use parhelia_bucket::transfer;
use parhelia_store::{Store, clock, progress::Progress};

use crate::{
    connect::{ConnectOptions, Connection},
    error::{Error, Result},
    folder::{Attempt, RemoteFolder},
    source::LocalSource,
};

/// Report of a push.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Segments that were written.
    pub segments: u64,
    /// Packs that were uploaded.
    pub packs: u64,
    /// Sequence of the journal up to which everything is in the bucket.
    pub sequence: u64,
    /// Checkpoints of which parts are damaged in the local store: they were pushed without these.
    pub damaged: Vec<String>,
}

/// Pushes everything that the bucket does not have, oldest first. Goes on where an earlier push was interrupted. How it ended is noted.
///
/// Fails with [`Error::Busy`] where another process of this machine is at work with the remote for longer than `patience`.
pub fn push(store: &Store, options: &ConnectOptions, patience: Duration, progress: &dyn Progress) -> Result<Pushed> {
    let folder = RemoteFolder::of(store.layout());
    folder.wanted()?;
    let _lock = folder.lock_within(patience, progress)?.ok_or(Error::Busy)?;
    let opened = Connection::open_locked(store, options, progress);
    let pushed = opened.and_then(|connection| connected(store, &connection, progress));
    let at = clock::timestamp();
    let attempt = match &pushed {
        Ok(pushed) => Attempt { at, error: None, failing_since: None, damaged: pushed.damaged.clone() },
        Err(e) => {
            let (error, failing_since) = (Some(e.to_string()), Some(failing_since(&folder, at)));
            Attempt { at, error, failing_since, damaged: Vec::new() }
        }
    };
    if let Err(e) = folder.note_attempt(&attempt) {
        progress.notice(&e.to_string());
    }
    pushed
}

fn failing_since(folder: &RemoteFolder, now: Timestamp) -> Timestamp {
    folder.last_attempt().ok().flatten().and_then(|last| last.failing_since).unwrap_or(now)
}

fn connected(store: &Store, connection: &Connection, progress: &dyn Progress) -> Result<Pushed> {
    let source = LocalSource::open(store, &connection.folder, &connection.joined.bucket, progress)?;
    begin_anew_on_another_journal(&connection.folder, &source, progress)?;
    let done = connection.wait(progress, transfer::push(&connection.bucket, &connection.folder, &source, &source))?;
    connection.folder.note_place(&source.place(done.cursor)?)?;
    let damaged = source.damaged().iter().map(ToString::to_string).collect();
    Ok(Pushed { segments: done.segments, packs: done.packs, sequence: done.cursor, damaged })
}

/// A store that was set back to an older copy, or whose journal was made anew, has other records at the places that were pushed. Everything is given
/// again then: who takes it in knows by their ids what it has.
fn begin_anew_on_another_journal(folder: &RemoteFolder, source: &LocalSource<'_>, progress: &dyn Progress) -> Result<()> {
    let Some(mut state) = folder.machine()?.filter(|state| state.cursor > 0) else { return Ok(()) };
    let place = folder.place()?.filter(|place| place.sequence <= state.cursor);
    let goes_on = place.is_some_and(|place| source.goes_on_from(&place).unwrap_or(false)) && source.reaches(state.cursor)?;
    if !goes_on {
        progress.notice("the journal is another one than was pushed, such as an older copy; everything is sent again that the remote may lack");
        state.cursor = 0;
        folder.keep_machine(&state)?;
    }
    Ok(())
}
