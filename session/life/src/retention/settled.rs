//! The settled beginning of a session: its oldest checkpoints, of which none goes before some time, whatever comes behind them. What is due
//! after a new checkpoint is looked for behind it, so that a session may have many.
//!
//! It is noted in the store's cache. Without the note, all checkpoints of the session are looked at once.

use std::{io, path::PathBuf};

use jiff::Timestamp;
use parhelia_store::{
    Store,
    files::{self, How},
    record::{Brief, Trigger},
};
use serde::{Deserialize, Serialize};

use super::Policy;

/// So many newest checkpoints are never settled.
const NEWEST: usize = 64;
/// A beginning is noted where it has grown by so many.
const GROWTH: usize = 64;
const BYTES_MAX: u64 = 4096;

/// The settled beginning of a session.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SettledPrefix {
    /// A hash of the session, the policy and what else it depends on.
    of: String,
    /// The sequence of its last checkpoint; 0 where nothing is settled.
    pub(super) sequence: u64,
    /// The time at which the first of them may go; none where that is never.
    until: Option<Timestamp>,
}

impl SettledPrefix {
    /// The note of a session; none if it is of another policy, or out of date.
    pub(super) fn read(store: &Store, session: &str, policy: &Policy, is_agents: bool, now: Timestamp) -> Self {
        let of = of(session, policy, is_agents);
        let read = files::open(&path(store, session), How::Read).and_then(|file| files::read_all(&file, BYTES_MAX));
        let noted: Option<SettledPrefix> = read.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let holds = |noted: &SettledPrefix| noted.of == of && noted.until.is_none_or(|until| now < until);
        noted.filter(holds).unwrap_or(SettledPrefix { of, ..SettledPrefix::default() })
    }

    /// Notes how much more is settled by now. `behind` are the checkpoints behind it that stay, in order of commit.
    pub(super) fn grow(mut self, store: &Store, session: &str, policy: &Policy, max_age_hours: u64, behind: &[&Brief]) {
        let old = &behind[..behind.len().saturating_sub(NEWEST)];
        let stays: Vec<&&Brief> = old.iter().take_while(|brief| stays(brief, policy)).collect();
        let Some(last) = stays.last().filter(|_| stays.len() >= GROWTH) else { return };
        self.sequence = last.sequence;
        // A clock may have been set back between them.
        let passing = stays.iter().filter(|brief| max_age_hours > 0 && !is_permanent(brief, policy));
        let first = passing.map(|brief| brief.created_at).min();
        let goes = first.and_then(|at| at.checked_add(jiff::SignedDuration::from_hours(i64::try_from(max_age_hours).ok()?)).ok());
        self.until = self.until.into_iter().chain(goes).min();
        // Without it, more is looked at.
        let _ = self.write(store, session);
    }

    fn write(&self, store: &Store, session: &str) -> io::Result<()> {
        use io::Write;
        let mut file = files::open(&path(store, session), How::Make)?;
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec(self)?)
    }
}

/// True if a checkpoint stays until it is too old, if that is ever, by itself: neither a time that others use up, nor a number, nor what is
/// said of it makes a difference.
fn stays(brief: &Brief, policy: &Policy) -> bool {
    brief.trigger != Some(Trigger::Periodic) && !brief.is_safety && !brief.fenced && !policy.removes_the_rest()
}

/// True if it stays however old it is.
fn is_permanent(brief: &Brief, policy: &Policy) -> bool {
    match brief.trigger {
        Some(Trigger::Complete) => policy.keep_complete,
        Some(Trigger::Error) => policy.keep_error,
        Some(Trigger::Manual) => brief.has_message,
        _ => false,
    }
}

fn of(session: &str, policy: &Policy, is_agents: bool) -> String {
    blake3::hash(format!("1 {session}\0{policy:?} {is_agents}").as_bytes()).to_hex().to_string()
}

fn path(store: &Store, session: &str) -> PathBuf {
    let hash = blake3::hash(session.as_bytes()).to_hex();
    store.layout().cache().join(format!("{}.settled", &hash[..32]))
}
