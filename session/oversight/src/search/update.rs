//! Bringing an index up to date: what the journal has told since decides which checkpoints wait to be indexed, come or go; then those that
//! wait are indexed, some at a time. Both are noted in the index, so that whoever is killed in between loses little and falsifies nothing.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use parhelia_ledger::{LedgerView as _, kind};
use parhelia_store::{
    Error as StoreError, Store,
    event::Event,
    id::Ulid,
    journal::{Entry, Journal, Position},
    progress::Phase,
    record::Checkpoint,
    view::View,
};
use serde_json::Value;

use super::{
    Fault, documents,
    index::{Index, PendingCheckpoint, WriteTransaction},
    text::indexed,
};
use parhelia_host::Observer;

/// Time between two commits of what was indexed.
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// So many checkpoints are asked for at once.
const AT_ONCE: u32 = 64;
/// Of fewer checkpoints, no progress is shown.
const SHOWN_FROM: u64 = 64;
/// So many damaged checkpoints are read again when something was recorded since: they may have been repaired.
const DAMAGED_MAX: u32 = 16;

/// True if an index has everything that a view shows.
pub fn is_current(index: &Index, view: &View) -> Result<bool, Fault> {
    Ok(index.position()? == Some(encoded(view)) && index.waiting()? == 0)
}

fn encoded(view: &View) -> String {
    serde_json::to_string(view.end()).unwrap_or_default()
}

/// Brings an index up to date, which is held alone.
pub fn run(index: &Index, store: &Store, observer: &dyn Observer) -> Result<(), Fault> {
    // Whoever held it before may have known more of the journal.
    let view = store.refresh()?;
    let known = index.position()?;
    let mut is_new = false;
    let mut writing = index.write()?;
    if known.as_deref() != Some(&encoded(&view)) {
        match known.and_then(|known| since(store, &view, &known)) {
            Some(since) => take_in(&writing, &view, &since)?,
            None => {
                is_new = true;
                begin(&writing, &view)?;
            }
        }
        writing.set_position(&encoded(&view))?;
    }
    let waiting = index.waiting()?;
    if waiting >= SHOWN_FROM {
        observer.phase(Phase::Index, Some(waiting), None);
    }
    // One commit does for a few checkpoints: each is synced.
    loop {
        let indexed = index_some(&writing, store, &view, observer);
        writing.commit()?;
        if !indexed? {
            break;
        }
        writing = index.write()?;
    }
    if is_new && waiting >= SHOWN_FROM {
        index.optimize()?;
    }
    Ok(())
}

/// Enters every checkpoint into an index that has nothing, or that was built from another journal.
fn begin(writing: &WriteTransaction<'_>, view: &View) -> Result<(), Fault> {
    writing.clear()?;
    for outline in view.outlines()? {
        writing.add(outline.sequence, &outline.id.to_string(), &outline.session, outline.created_at)?;
    }
    Ok(())
}

/// News of the journal since an index was built.
#[derive(Default)]
struct JournalDelta {
    /// New checkpoints.
    committed: Vec<Ulid>,
    /// Those that something was said of.
    marked: BTreeSet<Ulid>,
    deleted: Vec<Ulid>,
    /// Sessions that may be called otherwise.
    sessions: BTreeSet<String>,
}

/// News of the journal since a position; none where it does not go on from there, because it was cut, or is that of another store.
fn since(store: &Store, view: &View, known: &str) -> Option<JournalDelta> {
    let position: Position = serde_json::from_str(known).ok()?;
    // Also a position with another hash: then nothing follows it.
    let tail = Journal::of(store.layout()).read(&position).ok().filter(|_| position.sequence < view.end().sequence)?;
    let mut since = JournalDelta::default();
    for logged in tail.records.into_iter().filter(|logged| logged.sequence <= view.end().sequence) {
        match logged.entry {
            Entry::Commit { record, .. } => {
                // What this release cannot read, the view does not show either.
                if let Ok(checkpoint) = Checkpoint::decode(logged.sequence, record, store.ids()) {
                    since.sessions.insert(checkpoint.record.session.clone());
                    since.committed.push(checkpoint.record.id);
                }
            }
            entry => {
                if let Some((event, _)) = entry.any_event() {
                    since.note(&event);
                }
            }
        }
    }
    Some(since)
}

impl JournalDelta {
    fn note(&mut self, event: &Event) {
        let id = || event.subject.parse::<Ulid>().ok();
        match event.kind.as_str() {
            kind::CHECKPOINT_DELETED => self.deleted.extend(id()),
            kind::CHECKPOINT_TAGGED
            | kind::CHECKPOINT_UNTAGGED
            | kind::CHECKPOINT_ANNOTATED
            | kind::CHECKPOINT_LINKED
            | kind::CHECKPOINT_UNLINKED => self.marked.extend(id()),
            kind if kind.starts_with("session.") => _ = self.sessions.insert(event.subject.clone()),
            _ => self.sessions.extend(event.data.get("session").and_then(Value::as_str).map(str::to_owned)),
        }
    }
}

fn take_in(writing: &WriteTransaction<'_>, view: &View, since: &JournalDelta) -> Result<(), Fault> {
    for id in &since.deleted {
        if view.sequence(*id)?.is_none() {
            writing.remove(&id.to_string())?;
        }
    }
    for id in &since.committed {
        if let Some(checkpoint) = view.checkpoint(*id)? {
            let record = &checkpoint.record;
            writing.add(checkpoint.sequence, &id.to_string(), &record.session, record.created_at)?;
        }
    }
    for id in &since.marked {
        let fields = documents::marks(&view.marks(*id)?).map(|(field, text)| (field, indexed(&text)));
        writing.update(&id.to_string(), &fields)?;
    }
    for id in &since.sessions {
        writing.set_session(id, &indexed(&documents::session(view, id)?))?;
    }
    Ok(writing.retry_damaged(DAMAGED_MAX)?)
}

/// Indexes some of the checkpoints that wait. False once none is left.
fn index_some(writing: &WriteTransaction<'_>, store: &Store, view: &View, observer: &dyn Observer) -> Result<bool, Fault> {
    let began = Instant::now();
    while began.elapsed() < COMMIT_EVERY {
        let waiting = writing.next(AT_ONCE)?;
        if waiting.is_empty() {
            return Ok(false);
        }
        for one in &waiting {
            if observer.is_cancelled() {
                return Err(StoreError::Cancelled.into());
            }
            index_one(writing, store, view, one)?;
            observer.advance(1, 0);
        }
    }
    Ok(true)
}

fn index_one(writing: &WriteTransaction<'_>, store: &Store, view: &View, waiting: &PendingCheckpoint) -> Result<(), Fault> {
    let found = |id: &str| id.parse().ok().map(|id| view.checkpoint(id)).transpose();
    let Some(checkpoint) = found(&waiting.id)?.flatten() else { return Ok(writing.remove(&waiting.id)?) };
    let record = &checkpoint.record;
    // The parent; or, where that was deleted, whatever comes before.
    let parent = record.parent.map(|id| view.checkpoint(id)).transpose()?.flatten();
    let base = match parent {
        Some(parent) => Some(parent),
        None => writing.before(&record.session, waiting.sequence)?.map(|id| found(&id)).transpose()?.flatten().flatten(),
    };
    let document = documents::of(store, view, &checkpoint, base.as_ref())?;
    Ok(writing.put(waiting.sequence, base.map(|base| base.sequence), &document)?)
}
