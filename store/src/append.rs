//! Appending events: under the writer lock, each at most once, as a chain, and nothing by a run that a newer one has taken over from.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use ulid::Ulid;

use crate::{
    clock,
    error::{Error, Result},
    event::{self, Appended, EVENT_SCHEMA, Event, NewEvent, kind},
    files,
    id::OpId,
    journal::{Entry, Journal, Logged, Position, Tail, encode_entry},
    lock::WriterLock,
    progress::Progress,
    projection::{Projections, Unfit},
    store::Store,
    view::{self, Db, View},
};

/// Kinds of events that only the newest run of a session may record.
const FENCED: [&str; 6] = [
    kind::SESSION_HEAD,
    kind::SESSION_STATUS,
    kind::CONVERSATION_SEEN,
    kind::RUN_LEASE,
    kind::CHECKPOINT_DECIDED,
    kind::CHECKPOINT_DELETED,
];

impl Store {
    /// Appends events, all or none, with one sync. An event whose idempotency key is known already is not appended again; the one that
    /// is there is returned. Later events of the list see what earlier ones changed.
    ///
    /// Fails with [`Error::Fenced`] where an epoch that is out of date moves a head, changes a status or the conversation, renews a lease or
    /// decides, and where a run does not begin above the session's epoch; with [`Error::NoSession`], [`Error::NoRun`] or
    /// [`Error::NoCheckpoint`] where the subject does not exist.
    pub fn append_events(&self, new: &[NewEvent], progress: &dyn Progress) -> Result<Vec<Appended>> {
        self.append_events_of(&|_| Ok(new.to_vec()), progress)
    }

    /// The same, of events that are made from the store as it is once nobody else can change it.
    pub fn append_events_of(
        &self,
        make: &dyn Fn(&View) -> Result<Vec<NewEvent>>,
        progress: &dyn Progress,
    ) -> Result<Vec<Appended>> {
        let lock = self.lock(progress)?;
        let (view, tail) = self.latest(&lock)?;
        let new = make(&view)?;
        let mut chain = Chain::new(&view)?;
        let appended = new.iter().map(|new| chain.add(new)).collect::<Result<Vec<_>>>()?;
        let entries = chain.entries;
        if entries.is_empty() {
            return Ok(appended);
        }
        tell_of_lost(&tail, progress);
        let settled = Journal::of(self.layout()).append(&tail, &entries)?;
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
            progress.notice(&format!("{text}: run `parhelia check --rebuild-index` as that user"));
        }
        let is_due = |current: &View| host.is_none() && current.wants_absorbing() || !tables.is_empty();
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
        let event = |logged: Logged| match logged.entry {
            Entry::Event(event) => Some((logged.sequence, *event)),
            _ => None,
        };
        Ok(records.filter_map(event).collect())
    }
}

/// Says that the journal had lost records, which is noted in it with what is appended now.
pub(crate) fn tell_of_lost(tail: &Tail, progress: &dyn Progress) {
    if tail.missing > 0 {
        progress.notice(&format!(
            "the journal has lost its last {} records, and is gone on with; gc keeps the packs that they told of; run `parhelia check`",
            tail.missing
        ));
    }
}

/// Events on their way into the journal, behind what a view shows. The caller holds the writer lock.
pub(crate) struct Chain<'a> {
    view: &'a View,
    projections: Projections,
    base: Option<&'a Db>,
    last: Option<String>,
    /// Entries to be appended.
    pub(crate) entries: Vec<Entry>,
}

impl<'a> Chain<'a> {
    pub(crate) fn new(view: &'a View) -> Result<Self> {
        let (projections, base) = view.projections();
        Ok(Chain { view, last: projections.last_event(base)?, projections, base, entries: Vec::new() })
    }

    /// Adds an event, unless it is there already.
    pub(crate) fn add(&mut self, new: &NewEvent) -> Result<Appended> {
        if let Some(key) = &new.idempotency_key
            && let Some(event) = self.projections.event_of_key(self.base, key)?
        {
            if (&event.kind, &event.subject) != (&new.kind, &new.subject) {
                return Err(Error::Invalid(format!(
                    "the idempotency key '{key}' was used for {} of {}; use another one for {} of {}",
                    event.kind, event.subject, new.kind, new.subject
                )));
            }
            return Ok(Appended { event, existed: true });
        }
        let epoch = self.epoch(new)?;
        if new.kind == kind::SESSION_HEAD {
            self.check_head(new)?;
        }
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
        self.projections.append(self.base, &event, hash.clone()).map_err(|unfit| match unfit {
            Unfit::Store(error) | Unfit::Refused(error) => error,
        })?;
        self.last = Some(hash);
        self.entries.push(entry);
        Ok(Appended { event, existed: false })
    }

    /// A session's head is one of its own checkpoints.
    fn check_head(&self, new: &NewEvent) -> Result<()> {
        let told = new.data.get("checkpoint").and_then(serde_json::Value::as_str).unwrap_or_default();
        let found = told.parse().ok().map(|id| self.view.checkpoint(id)).transpose()?.flatten();
        match found {
            Some(checkpoint) if checkpoint.record.session == new.subject => Ok(()),
            _ => Err(Error::NoCheckpoint { selector: format!("{}@{told}", new.subject) }),
        }
    }

    /// The epoch that the event is recorded with, if it may be recorded.
    fn epoch(&self, new: &NewEvent) -> Result<u64> {
        let Some(id) = self.session_of(new)? else { return Ok(new.epoch.unwrap_or(0)) };
        let current = self.projections.session(self.base, &id)?.map_or(0, |session| session.epoch);
        let fenced = |epoch| Err(Error::Fenced { action: new.kind.clone(), session: id.clone(), epoch, current });
        match new.epoch {
            None if new.kind == kind::RUN_STARTED => Ok(current + 1),
            None => Ok(current),
            Some(epoch) if new.kind == kind::RUN_STARTED && epoch <= current => fenced(epoch),
            Some(epoch) if FENCED.contains(&new.kind.as_str()) && epoch < current => fenced(epoch),
            Some(epoch) => Ok(epoch),
        }
    }

    /// The session that an event concerns. Fails where its subject does not exist.
    fn session_of(&self, new: &NewEvent) -> Result<Option<String>> {
        let told = || new.data.get("session").and_then(serde_json::Value::as_str).map(str::to_owned);
        match new.kind.split_once('.') {
            Some(("session", _)) => Ok(Some(new.subject.clone())),
            Some(("run", _)) if new.kind == kind::RUN_STARTED => Ok(told()),
            Some(("run", _)) => Ok(self.projections.run(self.base, &new.subject)?.map(|run| run.session)),
            Some(("checkpoint", _)) => {
                let found = new.subject.parse().map(|id| self.view.checkpoint(id));
                let none = || Error::NoCheckpoint { selector: new.subject.clone() };
                let found = found.map_err(|_| none())??;
                Ok(Some(found.ok_or_else(none)?.record.session))
            }
            _ => Ok(told()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{
        event::Actor,
        testing::{TestStore, files},
        view::tests::with_cached_lengths,
    };

    #[derive(Default)]
    struct Notices(Mutex<Vec<String>>);

    impl Progress for Notices {
        fn notice(&self, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }

    #[test]
    fn an_event_that_is_recorded_is_no_failure_though_the_index_is_not_updated() {
        let test = TestStore::new();
        // The index's lock cannot be opened.
        let lock = test.store.path().join("lock.index");
        let _ = std::fs::remove_file(&lock);
        std::fs::create_dir(&lock).unwrap();
        let event = |i: u32| NewEvent::new("note", i.to_string(), Actor { user: None, via: "test".into() });
        let (events, notices): (Vec<NewEvent>, Notices) = ((0..70).map(event).collect(), Notices::default());
        let appended = test.store.append_events(&events, &notices).unwrap();
        assert_eq!(appended.len(), 70);
        let said = notices.0.into_inner().unwrap();
        assert!(said.len() == 1 && said[0].contains("recorded, but the index was not updated"), "{said:?}");
        assert_eq!(test.open().events_after(0).unwrap().len(), 70);
        test.store.append_events(&[event(70)], &()).unwrap();
        assert_eq!(test.store.events_after(0).unwrap().len(), 71);
    }

    #[test]
    fn an_event_has_the_epoch_of_its_session_and_costs_no_update_of_the_index() {
        let test = TestStore::new();
        test.checkpoint(&files(1, 3));
        test.store.absorb().unwrap();
        let event = |kind: &str, subject: &str| NewEvent::new(kind, subject, Actor { user: None, via: "test".into() });
        let append = |event: NewEvent| test.store.append_events(&[event], &()).unwrap().remove(0).event.epoch;
        assert_eq!(append(event(kind::RUN_STARTED, "r1").with("session", "test")), 1);
        assert_eq!(append(event(kind::RUN_STARTED, "r2").with("session", "test")), 2);
        assert_eq!(append(event(kind::SESSION_CHANGED, "test").with("name", "new")), 2);
        assert_eq!(append(event(kind::RUN_CHANGED, "r2").with("pid", 7)), 2);
        assert_eq!(append(event("note", "n")), 0);
        assert_eq!(test.open().view().tail_records(), 5);
        let sequences = |after| test.store.events_after(after).unwrap().into_iter().map(|(n, _)| n).collect::<Vec<_>>();
        let all = sequences(0);
        assert_eq!(sequences(all[2]), all[3..]);
    }

    #[test]
    fn what_another_process_has_appended_is_known_though_no_file_seems_to_have_grown() {
        let test = TestStore::new();
        let note = NewEvent::new("note", "1".to_owned(), Actor { user: None, via: "test".into() });
        let note = NewEvent { idempotency_key: Some("once".into()), ..note };
        test.another().store.append_events(std::slice::from_ref(&note), &()).unwrap();
        let again = with_cached_lengths(|| test.store.append_events(&[note], &())).unwrap();
        assert!(again[0].existed);
        assert_eq!(test.open().events_after(0).unwrap().len(), 1);
    }

    #[test]
    fn events_of_one_append_are_one_chain() {
        let test = TestStore::new();
        let event = |i: u32| NewEvent::new("note", i.to_string(), Actor { user: None, via: "test".into() });
        test.store.append_events(&[event(0), event(1), event(2)], &()).unwrap();
        test.store.append_events(&[event(3)], &()).unwrap();
        let records = Journal::of(test.store.layout()).read(&Position::start()).unwrap().records;
        let mut before = None;
        for logged in records {
            let Entry::Event(event) = logged.entry else { continue };
            assert_eq!(event.previous, before, "{}", event.subject);
            before = logged.event_hash;
        }
        assert!(before.is_some());
    }

    #[test]
    fn a_head_is_a_checkpoint_of_its_session() {
        let test = TestStore::new();
        let draft = test.draft("other", &files(1, 3));
        let other = test.commit(draft).unwrap();
        let (first, last) = (test.checkpoint(&files(2, 3)), test.checkpoint(&files(3, 3)));
        let head = |id: Ulid| {
            let event = NewEvent::new(kind::SESSION_HEAD, "test", Actor { user: None, via: "test".into() });
            test.store.append_events(&[event.with("checkpoint", id.to_string())], &())
        };
        for none in [other, Ulid::generate()] {
            assert!(matches!(head(none), Err(Error::NoCheckpoint { .. })));
            assert_eq!(test.store.refresh().unwrap().head("test").unwrap().unwrap().record.id, last);
        }
        head(first).unwrap();
        assert_eq!(test.store.refresh().unwrap().head("test").unwrap().unwrap().record.id, first);
    }
}
