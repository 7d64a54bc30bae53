//! Sessions, runs and marks of a view.

use std::collections::{BTreeMap, BTreeSet};

use super::View;
use crate::{
    db::Db,
    error::{Error, Result},
    id::Ulid,
    lease,
    projection::{Goal, Mark, Marks, Projections, Run, Session},
};

impl View {
    /// A session, by its id.
    pub fn session(&self, id: &str) -> Result<Option<Session>> {
        self.projections.session(self.db.as_deref(), id)
    }

    /// All sessions, by id.
    pub fn sessions(&self) -> Result<Vec<Session>> {
        self.projections.sessions(self.db.as_deref())
    }

    /// The session that has this id, or else the one that has this name, if only one does, or only one of those that have not ended, or only one
    /// of those that are wanted running.
    pub fn session_named(&self, name: &str) -> Result<Session> {
        if let Some(session) = self.session(name)? {
            return Ok(session);
        }
        self.chosen_of(name, true)
    }

    /// The same for what is not taken back: the name must be that of one session alone.
    pub fn session_named_surely(&self, name: &str) -> Result<Session> {
        match self.session(name)? {
            Some(session) => Ok(session),
            None => self.chosen_of(name, false),
        }
    }

    fn chosen_of(&self, name: &str, by_goal: bool) -> Result<Session> {
        let named = self.projections.sessions_named(self.db.as_deref(), name)?;
        let goals = [&[Goal::Running, Goal::Paused, Goal::Ended][..], &[Goal::Running, Goal::Paused], &[Goal::Running]];
        let chosen = goals.into_iter().take(if by_goal { 3 } else { 1 }).find_map(|goals| {
            let mut meant = named.iter().filter(|session| goals.contains(&session.goal()));
            meant.next().filter(|_| meant.next().is_none())
        });
        match chosen {
            Some(only) => Ok(only.clone()),
            None if named.is_empty() => Err(Error::NoSession { session: name.to_owned() }),
            None => {
                let candidates = named.into_iter().map(|session| session.id).collect();
                Err(Error::AmbiguousSession { session: name.to_owned(), candidates })
            }
        }
    }

    /// The id of the session that [`View::session_named`] gives, or of one that checkpoints alone tell of.
    pub fn session_id(&self, name: &str) -> Result<String> {
        match self.session_named(name) {
            Ok(session) => Ok(session.id),
            Err(e @ Error::NoSession { .. }) => match self.newest_first_of(name)?.next().transpose()? {
                Some(_) => Ok(name.to_owned()),
                None => Err(e),
            },
            Err(e) => Err(e),
        }
    }

    /// A run, by its id.
    pub fn run(&self, id: &str) -> Result<Option<Run>> {
        Ok(self.projections.run(self.db.as_deref(), id)?.map(|run| lease::renewed(&self.layout, run)))
    }

    /// The newest run of a session; none where no program was started or seen in it.
    pub fn newest_run(&self, session: &Session) -> Result<Option<Run>> {
        Ok(session.run.as_deref().map(|id| self.run(id)).transpose()?.flatten())
    }

    /// All runs, by id.
    pub fn runs(&self) -> Result<BTreeMap<String, Run>> {
        let runs = self.projections.runs(self.db.as_deref())?;
        Ok(runs.into_iter().map(|(id, run)| (id, lease::renewed(&self.layout, run))).collect())
    }

    /// Marks of a checkpoint, deleted ones included.
    pub fn marks(&self, id: Ulid) -> Result<Marks> {
        self.projections.marks(self.db.as_deref(), id)
    }

    /// Marks of every checkpoint that has any.
    pub fn all_marks(&self) -> Result<BTreeMap<Ulid, Marks>> {
        self.projections.all_marks(self.db.as_deref())
    }

    /// The tags in use, and the checkpoints that bear each, deleted ones included. Reads no marks beside tags.
    pub fn tags(&self) -> Result<BTreeMap<String, BTreeSet<Ulid>>> {
        self.tags_beginning("")
    }

    /// The same of tags that begin so.
    pub fn tags_beginning(&self, begins: &str) -> Result<BTreeMap<String, BTreeSet<Ulid>>> {
        self.projections.borne(self.db.as_deref(), Mark::Tag, begins)
    }

    /// The addresses that checkpoints are linked to, and the checkpoints of each, deleted ones included. Reads no marks beside links.
    pub fn links(&self) -> Result<BTreeMap<String, BTreeSet<Ulid>>> {
        self.projections.borne(self.db.as_deref(), Mark::Link, "")
    }

    /// The checkpoints with annotations, deleted ones included.
    pub fn annotated(&self) -> Result<BTreeSet<Ulid>> {
        self.projections.bearers(self.db.as_deref(), Mark::Annotation, "")
    }

    /// The checkpoints that were rejected, deleted ones included.
    pub fn rejected(&self) -> Result<BTreeSet<Ulid>> {
        self.projections.bearers(self.db.as_deref(), Mark::Rejection, "")
    }

    /// Hash of the last event; `None` before the first.
    pub fn last_event(&self) -> Result<Option<String>> {
        self.projections.last_event(self.db.as_deref())
    }

    /// The projections here, and the database behind them, for adding more to them.
    pub(crate) fn projections(&self) -> (Projections, Option<&Db>) {
        (self.projections.clone(), self.db.as_deref())
    }
}
