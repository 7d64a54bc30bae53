//! Everything that matters to somebody who decides whether a session is resumed.

use parhelia_host::{
    Host, Result,
    run::{self, Life},
};
use parhelia_ledger::{Session, Status};
use parhelia_store::{Store, id::Ulid};

use super::{Choice, Fate, Foreseen, choose_ahead, preference, unasked};
use crate::overview::Overview;

/// The state of a session, and what a resume would do.
pub struct Diagnosis {
    /// The session as the store knows it.
    pub session: Session,
    /// True if its workspace is there.
    pub is_there: bool,
    /// The life of its agent.
    pub life: Life,
    /// The session at one glance.
    pub overview: Overview,
    /// The checkpoint to go on from.
    pub choice: Choice,
    /// The effect of a resume on the workspace; none where there is nothing to resume.
    pub fate: Option<Foreseen>,
}

impl Diagnosis {
    /// Looks at a session. `from` is the checkpoint that somebody has chosen to go on from.
    pub fn of(store: &Store, host: &dyn Host, session: Session, from: Option<Ulid>) -> Result<Self> {
        let choice = choose_ahead(store, &session, from, preference(store, host, &session)?)?;
        let overview = Overview::of(store, &session)?;
        let life = run::life_of(store, &session)?;
        let is_resumable = !life.is_alive() && session.status != Status::Ended;
        let fate = is_resumable.then(|| Foreseen::of(store, host, &session, &choice, from.is_some()));
        let is_there = session.workspace.as_ref().is_some_and(|place| place.folder().is_dir());
        Ok(Diagnosis { session, is_there, life, overview, choice, fate })
    }

    /// True if it has ended for good.
    pub fn has_ended(&self) -> bool {
        self.session.status == Status::Ended
    }

    /// True if the workspace stays as it is, where a rollback of it was interrupted.
    pub fn is_half_rolled_back(&self) -> bool {
        self.overview.interrupted_rollback.is_some() && matches!(self.fate, Some(Foreseen::Fate(Fate::Keep)))
    }
}

/// The ids of those of some sessions that are not resumed without being asked for.
pub fn left_alone<'a>(store: &Store, host: &dyn Host, sessions: &'a [Session]) -> Result<Vec<&'a str>> {
    let mut left = Vec::new();
    for session in sessions {
        left.extend(unasked(store, host, session, None)?.map(|_| session.id.as_str()));
    }
    Ok(left)
}
