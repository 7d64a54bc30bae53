//! The ledger of a view.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use parhelia_store::{Error, Result, record::Checkpoint, view::View};
use ulid::Ulid;

use crate::{
    fold::{Ledger, Mark},
    lease_file,
    marks::Marks,
    run::Run,
    session::{Goal, Session},
};

/// Sessions, runs and marks of a view. All of it fails where its store was opened without a ledger.
pub trait LedgerView {
    /// A session, by its id.
    fn session(&self, id: &str) -> Result<Option<Session>>;

    /// The sessions of this machine, by id: their folders and processes are here.
    fn sessions(&self) -> Result<Vec<Session>>;

    /// All sessions, by id, with those of other machines, of which a remote has told.
    fn all_sessions(&self) -> Result<Vec<Session>>;

    /// The session that has this id, or else the one that has this name, if only one does, or only one of those that have not ended, or only one
    /// of those that are wanted running.
    fn session_named(&self, name: &str) -> Result<Session>;

    /// The same for what is not taken back: the name must be that of one session alone.
    fn session_named_surely(&self, name: &str) -> Result<Session>;

    /// The id of the session that [`LedgerView::session_named`] gives, or of one that checkpoints alone tell of.
    fn session_id(&self, name: &str) -> Result<String>;

    /// A run, by its id.
    fn run(&self, id: &str) -> Result<Option<Run>>;

    /// The newest run of a session; none where no program was started or seen in it.
    fn newest_run(&self, session: &Session) -> Result<Option<Run>>;

    /// All runs, by id.
    fn runs(&self) -> Result<BTreeMap<String, Run>>;

    /// Marks of a checkpoint, deleted ones included.
    fn marks(&self, id: Ulid) -> Result<Marks>;

    /// Marks of every checkpoint that has any.
    fn all_marks(&self) -> Result<BTreeMap<Ulid, Marks>>;

    /// The tags in use, and the checkpoints that bear each, deleted ones included. Reads no marks beside tags.
    fn tags(&self) -> Result<BTreeMap<String, BTreeSet<Ulid>>>;

    /// The same of tags that begin so.
    fn tags_beginning(&self, begins: &str) -> Result<BTreeMap<String, BTreeSet<Ulid>>>;

    /// The addresses that checkpoints are linked to, and the checkpoints of each, deleted ones included. Reads no marks beside links.
    fn links(&self) -> Result<BTreeMap<String, BTreeSet<Ulid>>>;

    /// The checkpoints with annotations, deleted ones included.
    fn annotated(&self) -> Result<BTreeSet<Ulid>>;

    /// The checkpoints that were rejected, deleted ones included.
    fn rejected(&self) -> Result<BTreeSet<Ulid>>;

    /// The checkpoints that bear a tag and exist, newest first, each read when it is asked for. No other ones are read.
    fn newest_first_tagged(&self, tag: &str) -> Result<impl Iterator<Item = Result<Checkpoint>> + '_>;
}

impl LedgerView for View {
    fn session(&self, id: &str) -> Result<Option<Session>> {
        let (ledger, kept) = Ledger::of(self)?;
        ledger.session(kept, id)
    }

    fn sessions(&self) -> Result<Vec<Session>> {
        Ok(self.all_sessions()?.into_iter().filter(Session::is_ours).collect())
    }

    fn all_sessions(&self) -> Result<Vec<Session>> {
        let (ledger, kept) = Ledger::of(self)?;
        ledger.sessions(kept)
    }

    fn session_named(&self, name: &str) -> Result<Session> {
        match self.session(name)? {
            Some(session) => Ok(session),
            None => chosen(
                self,
                name,
                &[&[Goal::Running, Goal::Paused, Goal::Ended], &[Goal::Running, Goal::Paused], &[Goal::Running]],
            ),
        }
    }

    fn session_named_surely(&self, name: &str) -> Result<Session> {
        match self.session(name)? {
            Some(session) => Ok(session),
            None => chosen(self, name, &[&[Goal::Running, Goal::Paused, Goal::Ended]]),
        }
    }

    fn session_id(&self, name: &str) -> Result<String> {
        match self.session_named(name) {
            Ok(session) => Ok(session.id),
            Err(e @ Error::NoSession { .. }) => match self.newest_first_of(name)?.next().transpose()? {
                Some(_) => Ok(name.to_owned()),
                None => Err(e),
            },
            Err(e) => Err(e),
        }
    }

    fn run(&self, id: &str) -> Result<Option<Run>> {
        let (ledger, kept) = Ledger::of(self)?;
        Ok(ledger.run(kept, id)?.map(|run| lease_file::renewed(self.layout(), run)))
    }

    fn newest_run(&self, session: &Session) -> Result<Option<Run>> {
        Ok(session.run.as_deref().map(|id| self.run(id)).transpose()?.flatten())
    }

    fn runs(&self) -> Result<BTreeMap<String, Run>> {
        let (ledger, kept) = Ledger::of(self)?;
        Ok(ledger.runs(kept)?.into_iter().map(|(id, run)| (id, lease_file::renewed(self.layout(), run))).collect())
    }

    fn marks(&self, id: Ulid) -> Result<Marks> {
        let (ledger, kept) = Ledger::of(self)?;
        ledger.marks(kept, id)
    }

    fn all_marks(&self) -> Result<BTreeMap<Ulid, Marks>> {
        let (ledger, kept) = Ledger::of(self)?;
        ledger.all_marks(kept)
    }

    fn tags(&self) -> Result<BTreeMap<String, BTreeSet<Ulid>>> {
        self.tags_beginning("")
    }

    fn tags_beginning(&self, begins: &str) -> Result<BTreeMap<String, BTreeSet<Ulid>>> {
        let (ledger, kept) = Ledger::of(self)?;
        ledger.borne(kept, Mark::Tag, begins)
    }

    fn links(&self) -> Result<BTreeMap<String, BTreeSet<Ulid>>> {
        let (ledger, kept) = Ledger::of(self)?;
        ledger.borne(kept, Mark::Link, "")
    }

    fn annotated(&self) -> Result<BTreeSet<Ulid>> {
        let (ledger, kept) = Ledger::of(self)?;
        ledger.bearers(kept, Mark::Annotation, "")
    }

    fn rejected(&self) -> Result<BTreeSet<Ulid>> {
        let (ledger, kept) = Ledger::of(self)?;
        ledger.bearers(kept, Mark::Rejection, "")
    }

    fn newest_first_tagged(&self, tag: &str) -> Result<impl Iterator<Item = Result<Checkpoint>> + '_> {
        let (ledger, kept) = Ledger::of(self)?;
        let mut found = Vec::new();
        for id in ledger.bearers(kept, Mark::Tag, tag)? {
            found.extend(self.sequence(id)?.map(|sequence| (sequence, id)));
        }
        found.sort_unstable_by_key(|(sequence, _)| Reverse(*sequence));
        Ok(found.into_iter().filter_map(|(_, id)| self.checkpoint(id).transpose()))
    }
}

/// The one session of a name with one of these goals; of the first list of goals with which there is only one.
fn chosen(view: &View, name: &str, goals: &[&[Goal]]) -> Result<Session> {
    let (ledger, kept) = Ledger::of(view)?;
    let mut named = ledger.sessions_named(kept, name)?;
    // Who works here means the session here.
    if named.iter().any(Session::is_ours) {
        named.retain(Session::is_ours);
    }
    let only = goals.iter().find_map(|goals| {
        let mut meant = named.iter().filter(|session| goals.contains(&session.goal()));
        meant.next().filter(|_| meant.next().is_none())
    });
    match only {
        // An empty name is that of no session that anybody means: a script's variable was not set.
        _ if name.trim().is_empty() => Err(Error::NoSession { session: name.to_owned() }),
        Some(only) => Ok(only.clone()),
        None if named.is_empty() => Err(Error::NoSession { session: name.to_owned() }),
        None => {
            let candidates = named.into_iter().map(|session| session.id).collect();
            Err(Error::AmbiguousSession { session: name.to_owned(), candidates })
        }
    }
}
