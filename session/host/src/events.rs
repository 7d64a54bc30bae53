//! The journal's entries, with the sessions that they concern.

use std::collections::HashMap;

use parhelia_ledger::LedgerView as _;
use parhelia_store::{
    Store,
    event::Event,
    journal::{Entry, Journal, Position},
    keys::Ids,
    record::Checkpoint,
    view::View,
};
use serde_json::Value;

use crate::{Error, Result};

/// The last `wanted` of what `read` finds behind a sequence of the journal, or all of it; oldest first. What the end of the journal has
/// enough of is not looked for before it.
pub fn last<T>(store: &Store, after: u64, wanted: Option<usize>, read: impl Fn(u64) -> Result<Vec<T>>) -> Result<Vec<T>> {
    let newest = Journal::of(store.layout()).segments()?.pop().map_or(0, |first| first.saturating_sub(1));
    let near = wanted.filter(|_| newest > after).map(|wanted| Ok::<_, Error>((wanted, read(newest)?))).transpose()?;
    let mut found = match near {
        Some((wanted, near)) if near.len() >= wanted => near,
        _ => read(after)?,
    };
    found.drain(..found.len().saturating_sub(wanted.unwrap_or(usize::MAX)));
    Ok(found)
}

/// The sessions of the checkpoints and runs that events are about, as the journal is read in order.
pub struct Sessions<'a> {
    store: &'a Store,
    view: &'a View,
    after: u64,
    /// Commits so far, not decoded.
    committed: Vec<(u64, String)>,
    known: SessionMap,
}

/// The sessions of checkpoints, as far as they were found out.
#[derive(Debug, Default)]
pub struct SessionMap {
    /// Sessions of checkpoints that were decoded.
    told: HashMap<String, String>,
    /// True once those of the checkpoints before are among them, which is when one is asked for that does not exist any more.
    has_before: bool,
}

impl<'a> Sessions<'a> {
    /// Sessions of the events behind a sequence.
    pub fn new(store: &'a Store, view: &'a View, after: u64) -> Self {
        Self::with(store, view, after, SessionMap::behind(after))
    }

    /// The same, with what was found out in the pages before.
    pub fn with(store: &'a Store, view: &'a View, after: u64, known: SessionMap) -> Self {
        Sessions { store, view, after, committed: Vec::new(), known }
    }

    /// Everything that was found out, for the next page.
    pub fn into_known(mut self) -> SessionMap {
        self.decode();
        self.known
    }

    /// Takes in a commit, which need not be decoded unless its session is asked for.
    pub fn committed(&mut self, sequence: u64, record: String) {
        self.committed.push((sequence, record));
    }

    /// The session that an event concerns; `None` where it concerns none, or an unknown one.
    pub fn of(&mut self, event: &Event) -> Result<Option<String>> {
        let told = event.data.get("session").and_then(Value::as_str).map(str::to_owned);
        Ok(match event.kind.split_once('.') {
            Some(("session", _)) => Some(event.subject.clone()),
            _ if told.is_some() => told,
            Some(("run", _)) => self.view.run(&event.subject)?.map(|run| run.session),
            // Also overrides, whose subject may be a checkpoint.
            _ => self.of_checkpoint(&event.subject)?,
        })
    }

    fn of_checkpoint(&mut self, id: &str) -> Result<Option<String>> {
        if let Some(session) = self.known.told.get(id) {
            return Ok(Some(session.clone()));
        }
        let Ok(ulid) = id.parse() else { return Ok(None) };
        if let Some(found) = self.view.checkpoint(ulid)? {
            let session = found.record.session;
            self.known.told.insert(id.to_owned(), session.clone());
            return Ok(Some(session));
        }
        self.decode();
        if !self.known.told.contains_key(id) && !self.known.has_before {
            self.known.has_before = true;
            let (known, ids) = (&mut self.known, self.store.ids());
            Journal::of(self.store.layout()).look_up_to(&Position::start(), self.after, |raw| {
                if let Entry::Commit { record, .. } = raw.decode()?.entry {
                    known.note(raw.sequence, record, ids);
                }
                Ok(())
            })?;
        }
        Ok(self.known.told.get(id).cloned())
    }

    fn decode(&mut self) {
        for (sequence, record) in self.committed.drain(..) {
            self.known.note(sequence, record, self.store.ids());
        }
    }
}

impl SessionMap {
    /// Nothing yet, of the events behind a sequence.
    pub fn behind(sequence: u64) -> Self {
        SessionMap { told: HashMap::new(), has_before: sequence == 0 }
    }

    fn note(&mut self, sequence: u64, record: String, ids: &Ids) {
        // What this release cannot read, the view does not show either.
        if let Ok(checkpoint) = Checkpoint::decode(sequence, record, ids) {
            self.told.insert(checkpoint.id(), checkpoint.record.session);
        }
    }
}
