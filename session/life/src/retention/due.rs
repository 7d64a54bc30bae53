//! Retention after a new checkpoint of one session. It goes by briefs: records are read of what goes, and nothing beyond the session itself is
//! asked for before something would go.

use jiff::{Timestamp, tz::TimeZone};
use parhelia_ledger::LedgerView as _;
use parhelia_store::{
    Store,
    record::{Brief, Checkpoint},
};

use super::{KeepReason, KeepSet, Policy, RemovalReason, keep::Thinner, settled::SettledPrefix};
use parhelia_host::Result;

/// The checkpoints of a session that go, with their records.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) remove: Vec<(Checkpoint, RemovalReason)>,
    /// The number of those that were looked at and stay, and of those of them that are too young to be thinned.
    pub(super) kept: u64,
    pub(super) young: u64,
}

/// The checkpoints of a session that a policy does not keep.
pub(super) fn due(store: &Store, policy: &Policy, session: &str, now: Timestamp) -> Result<Due> {
    let view = store.refresh()?;
    let of_session: Vec<_> = view.session(session)?.into_iter().collect();
    let is_agents = KeepSet::newest(&of_session, &[]).of_agents.contains(session);
    let settled = SettledPrefix::read(store, session, policy, is_agents, now);
    let briefs = view.briefs_of(session, settled.sequence)?;
    let mut judged = judge(policy, session, &KeepSet::newest(&of_session, &briefs), &briefs, now);
    // Whatever holds more of them only makes fewer go.
    if !judged.remove.is_empty() {
        let held = KeepSet::of(store, &view, &briefs)?;
        judged = judge(policy, session, &held, &briefs, now);
        held.whole()?;
    }
    settled.grow(store, session, policy, policy.max_age_hours_of(is_agents), &judged.keep);
    let mut due = Due { kept: judged.keep.len() as u64, young: judged.young, ..Due::default() };
    for (brief, removed) in judged.remove {
        due.remove.extend(view.checkpoint(brief.id)?.map(|checkpoint| (checkpoint, removed)));
    }
    Ok(due)
}

struct Judgement<'b> {
    remove: Vec<(&'b Brief, RemovalReason)>,
    /// In order of commit.
    keep: Vec<&'b Brief>,
    young: u64,
}

/// Judges the checkpoints of a session, which are in order of commit.
fn judge<'b>(policy: &Policy, session: &str, held: &KeepSet<'_>, briefs: &'b [Brief], now: Timestamp) -> Judgement<'b> {
    let mut thinning = Thinner::new(policy, held.of_agents.contains(session), now, TimeZone::system());
    let mut judged = Judgement { remove: Vec::new(), keep: Vec::new(), young: 0 };
    for brief in briefs.iter().rev() {
        match thinning.judge(&held.about(brief)) {
            Ok(kept) => {
                judged.keep.push(brief);
                judged.young += u64::from(kept == KeepReason::Young);
            }
            Err(removed) => judged.remove.push((brief, removed)),
        }
    }
    judged.keep.reverse();
    judged
}
