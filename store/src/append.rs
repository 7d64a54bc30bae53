//! Appending events: under the writer lock, each at most once, as a chain, and nothing by a run that a newer one has taken over from.

use parhelia_name::step::Step;
use std::{collections::HashMap, path::PathBuf, sync::Arc};

use ulid::Ulid;

use crate::{
    clock,
    error::{Error, Result},
    event::{self, Actor, AppendOutcome, EVENT_SCHEMA, Event, NewEvent, kind},
    files,
    fold::{Fold, Projection, Unfit},
    id::OpId,
    journal::{Entry, Journal, JournalRecord, Position, Tail, encode_entry},
    lock::WriterLock,
    progress::Progress,
    record::Record,
    store::Store,
    view::{self, Events, View},
};

impl Store {
    /// Appends events, all or none, with one sync. An event whose idempotency key is known already is not appended again; the one that
    /// is there is returned. Later events of the list see what earlier ones changed.
    ///
    /// Fails with what the store's [`Fold`] refuses: with [`Error::Fenced`] where the epoch is out of date, with [`Error::NoSession`],
    /// [`Error::NoRun`] or [`Error::NoCheckpoint`] where the subject does not exist.
    pub fn append_events(&self, new: &[NewEvent], progress: &dyn Progress) -> Result<Vec<AppendOutcome>> {
        self.append_events_of(&|_| Ok(new.to_vec()), progress)
    }

    /// The same, of events that are made from the store as it is once nobody else can change it.
    pub fn append_events_of(
        &self,
        make: &dyn Fn(&View) -> Result<Vec<NewEvent>>,
        progress: &dyn Progress,
    ) -> Result<Vec<AppendOutcome>> {
        let lock = self.lock(progress)?;
        let (view, tail) = self.latest(&lock)?;
        let new = make(&view)?;
        let mut chain = Chain::new(&view)?;
        if !new.is_empty() {
            chain.note_lost(&tail, progress)?;
        }
        let appended = new.iter().map(|new| chain.add(new)).collect::<Result<Vec<_>>>()?;
        let entries = chain.entries;
        if entries.is_empty() {
            return Ok(appended);
        }
        let settled = Journal::of(self.layout()).append(&tail, &entries)?;
        self.memory.appended(&settled);
        drop(lock);
        self.catch_up("what happened is recorded", &settled, &Default::default(), progress);
        Ok(appended)
    }

    /// The state of the store up to the journal's very end, and that end, for appending behind it. [`Store::refresh`] goes by
    /// file names and lengths, which a network filesystem may give from a cache; what is appended is decided by what was read.
    pub(crate) fn latest(&self, _lock: &WriterLock) -> Result<(Arc<View>, Tail)> {
        let journal = Journal::of(self.layout());
        let mut view = self.refresh()?;
        loop {
            if let Some(damage) = view.damage() {
                return Err(damage);
            }
            let tail = journal.read(view.end())?;
            if tail.records.is_empty() {
                return Ok((view, tail));
            }
            view = self.reopen()?;
        }
    }

    /// Takes in what was appended just now, and brings RocksDB up to it if that is due. `done` exists by now, so that this cannot be done
    /// is worth a word, and no more.
    pub(crate) fn catch_up(&self, done: &str, settled: &Position, tables: &HashMap<OpId, PathBuf>, progress: &dyn Progress) {
        let host = files::host(&self.layout().root);
        if let Some(uid) = host.filter(|_| self.view().wants_absorbing()) {
            let text = format!("{done}; the index, which is long out of date, is left to the store's owner (uid {uid})");
            progress.notice(&format!("{text}: run {} as that user", Step::RebuildIndex));
        }
        let is_due = |current: &View| host.is_none() && !self.absorbs_later && current.wants_absorbing() || !tables.is_empty();
        let absorbed = self.refresh().and_then(|current| match is_due(&current) {
            true => view::absorb(self.layout(), tables, settled).and_then(|()| self.reopen().map(|_| ())),
            false => Ok(()),
        });
        if let Err(e) = absorbed {
            progress.notice(&format!("{done}, but the index was not updated: {e}"));
        }
    }

    /// All events behind a sequence, with theirs, in order. Reads the journal from about there on.
    pub fn events_after(&self, sequence: u64) -> Result<Vec<(u64, Event)>> {
        let records = Journal::of(self.layout()).read_after(sequence)?.into_iter();
        let event = |logged: JournalRecord| match logged.entry {
            Entry::Event(event) => Some((logged.sequence, *event)),
            _ => None,
        };
        Ok(records.filter_map(event).collect())
    }
}

/// Events on their way into the journal, behind what a view shows. The caller holds the writer lock.
pub(crate) struct Chain<'a> {
    view: &'a View,
    fold: Box<dyn Fold>,
    kept: Projection<'a>,
    events: Events,
    last: Option<String>,
    /// Entries to be appended.
    pub(crate) entries: Vec<Entry>,
}

impl<'a> Chain<'a> {
    pub(crate) fn new(view: &'a View) -> Result<Self> {
        let (fold, kept) = view.fold();
        Ok(Chain { view, last: view.last_event()?, fold: fold.copy(), kept, events: view.events().clone(), entries: Vec::new() })
    }

    /// Says that the journal had lost records, and adds an event that says so for good.
    pub(crate) fn note_lost(&mut self, tail: &Tail, progress: &dyn Progress) -> Result<()> {
        if tail.missing == 0 {
            return Ok(());
        }
        progress.notice(&format!(
            "the journal has lost its last {} records, and is gone on with; gc keeps the packs that they told of; run {}",
            tail.missing,
            Step::Check
        ));
        let event = NewEvent::new(kind::JOURNAL_CUT, "journal", Actor::program("store"));
        self.add(&event.with("records", tail.missing)).map(|_| ())
    }

    /// Adds an event, unless it is there already.
    pub(crate) fn add(&mut self, new: &NewEvent) -> Result<AppendOutcome> {
        if let Some(key) = &new.idempotency_key
            && let Some(event) = self.view.event_of_key(&self.events, key)?
        {
            if (&event.kind, &event.subject) != (&new.kind, &new.subject) {
                return Err(Error::Invalid(format!(
                    "the idempotency key '{key}' was used for {} of {}; use another one for {} of {}",
                    event.kind, event.subject, new.kind, new.subject
                )));
            }
            return Ok(AppendOutcome { event, existed: true });
        }
        let epoch = self.fold.epoch(self.kept, self.view, new)?;
        self.push(new, epoch)
    }

    /// Adds an event about a checkpoint that is appended together with it, and that nobody can have said anything about before.
    pub(crate) fn add_of_new(&mut self, new: &NewEvent, made: &Record) -> Result<()> {
        let new = NewEvent { subject: made.id.to_string(), ..new.clone() };
        self.push(&new, made.epoch).map(|_| ())
    }

    fn push(&mut self, new: &NewEvent, epoch: u64) -> Result<AppendOutcome> {
        let event = Event {
            id: Ulid::generate(),
            at: clock::timestamp(),
            host: event::host(),
            schema: EVENT_SCHEMA,
            kind: new.kind.clone(),
            subject: new.subject.clone(),
            actor: new.actor.clone(),
            epoch,
            idempotency_key: new.idempotency_key.clone(),
            previous: self.last.clone(),
            data: new.data.clone(),
            extra: Default::default(),
        };
        let entry = Entry::Event(Box::new(event.clone()));
        let hash = self.view.ids().event(&encode_entry(&entry, self.entries.len())?);
        self.fold.event(self.kept, 0, &event, None).map_err(Unfit::into_error)?;
        self.events.add(&event, hash.clone());
        self.last = Some(hash);
        self.entries.push(entry);
        Ok(AppendOutcome { event, existed: false })
    }
}

#[cfg(test)]
mod tests;
