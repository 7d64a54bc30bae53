//! How far the bucket is behind the local store, and who writes to it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parhelia_bucket::{chain::Record, view::View};
use parhelia_store::{
    Store,
    journal::{Entry, Journal},
    progress::Progress,
};

use crate::{
    connect::{ConnectOptions, Connection},
    error::Result,
    folder::RemoteFolder,
};

/// What the bucket does not have of this machine yet. Read from the local store alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Checkpoints.
    pub checkpoints: u64,
    /// Events.
    pub events: u64,
    /// Time of the oldest of them.
    pub oldest: Option<Timestamp>,
    /// True if nobody knows whether the last segment that was sent is in the bucket.
    pub is_not_known: bool,
}

impl Backlog {
    /// True if the bucket has everything.
    pub fn is_nothing(&self) -> bool {
        self.checkpoints == 0 && self.events == 0 && !self.is_not_known
    }
}

/// The backlog of a store that has a remote.
pub fn backlog(store: &Store) -> Result<Backlog> {
    let state = RemoteFolder::of(store.layout()).machine()?;
    let mut backlog = Backlog {
        is_not_known: state.as_ref().is_some_and(|state| state.pending.is_some() || !state.again.is_empty()),
        ..Backlog::default()
    };
    for logged in Journal::of(store.layout()).read_after(state.map_or(0, |state| state.cursor))? {
        let at = match &logged.entry {
            Entry::Commit { machine: None, record, .. } => {
                backlog.checkpoints += 1;
                parhelia_store::record::Record::decode(record).ok().map(|record| record.created_at)
            }
            Entry::Event(event) => {
                backlog.events += 1;
                Some(event.at)
            }
            _ => continue,
        };
        backlog.oldest = backlog.oldest.or(at);
    }
    Ok(backlog)
}

/// A machine that writes to the bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its id, 32 hex digits.
    pub id: String,
    /// Its name, as its newest event says; absent where it has recorded none.
    pub host: Option<String>,
    /// Segments of its chain.
    pub segments: u64,
    /// Checkpoints that it has made and that exist.
    pub checkpoints: u64,
    /// Time of its newest event.
    pub last_at: Option<Timestamp>,
    /// True if it is this one.
    pub is_this: bool,
}

/// The machines that write to the bucket. Reads all of their chains.
pub fn machines(store: &Store, options: &ConnectOptions, progress: &dyn Progress) -> Result<Vec<Machine>> {
    let connection = Connection::open(store, options, progress)?;
    let own = connection.folder.machine()?.map(|state| state.machine);
    let mut machines: BTreeMap<_, Machine> = BTreeMap::new();
    let mut view = View::default();
    let mut see = |seen: parhelia_bucket::view::Seen| {
        let machine = machines.entry(seen.machine).or_default();
        if let Record::Event(body) = seen.record
            && let Ok(event) = serde_json::from_slice::<parhelia_store::event::Event>(body)
        {
            (machine.host, machine.last_at) = (Some(event.host), Some(event.at));
        }
    };
    connection.wait(progress, view.refresh(&connection.bucket, &mut see))?;
    for (id, segments) in view.heads() {
        let machine = machines.entry(id).or_default();
        (machine.id, machine.segments, machine.is_this) = (id.to_string(), segments, Some(id) == own);
    }
    for placed in view.checkpoints().values() {
        machines.entry(placed.machine).or_default().checkpoints += 1;
    }
    Ok(machines.into_values().filter(|machine| machine.segments > 0).collect())
}
