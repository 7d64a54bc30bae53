//! Which checkpoints are kept: by number, by age, thinned with age, and never those that somebody needs.

mod keep;
mod limit;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
pub use keep::{Kept, Removed, SAFETY};
pub use limit::{Forecast, forecast};
use parhelia_store::{
    Error, Store, create::Outcome, delete::delete_checkpoints_as, event::Actor, fold::Marks, id::Ulid, pin, progress::Progress,
    record::Checkpoint,
};
pub use report::Report;

use crate::{Result, config};

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// So many newest checkpoints of a session.
    pub keep_last: u64,
    /// No checkpoint that is older, in hours.
    pub max_age_hours: u64,
    /// Every one that was made because a task was done.
    pub keep_complete: bool,
    /// Every one that was made because something failed.
    pub keep_error: bool,
    /// Every periodic one of so many hours ...
    pub all_hours: u64,
    /// ... then one of each hour, for so many hours; then one of each day.
    pub hourly_hours: u64,
    /// The store may take so many bytes; 0 for any number.
    pub max_store_bytes: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            keep_last: 10,
            max_age_hours: 168,
            keep_complete: true,
            keep_error: true,
            all_hours: 1,
            hourly_hours: 24,
            max_store_bytes: 0,
        }
    }
}

impl From<&config::Retention> for Policy {
    fn from(set: &config::Retention) -> Self {
        Policy {
            keep_last: set.keep_last,
            max_age_hours: set.max_age_hours,
            keep_complete: set.keep_complete,
            keep_error: set.keep_error,
            all_hours: set.all_hours,
            hourly_hours: set.hourly_hours,
            max_store_bytes: set.max_store_bytes,
        }
    }
}

/// What is to become of each checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What goes, and why.
    pub remove: Vec<(Checkpoint, Removed)>,
    /// What stays, and why.
    pub keep: Vec<(Checkpoint, Kept)>,
}

/// Says what a policy makes of the checkpoints of a store, or of one session.
pub fn plan(store: &Store, policy: &Policy, session: Option<&str>, now: Timestamp) -> Result<Plan> {
    let view = store.refresh()?;
    let marks = view.all_marks()?;
    let heads: HashSet<Ulid> = view.sessions()?.into_iter().filter_map(|session| session.head).collect();
    let pins = pin::list(&store.layout().pins())?;
    let used: HashSet<Ulid> = pins.iter().filter(|pin| pin.alive).flat_map(|pin| pin.text.checkpoints.clone()).collect();
    let mut sessions: BTreeMap<&str, Vec<&Checkpoint>> = BTreeMap::new();
    for checkpoint in view.checkpoints()?.iter().rev() {
        sessions.entry(&checkpoint.record.session).or_default().push(checkpoint);
    }
    let none = Marks::default();
    let mut plan = Plan::default();
    for (_, checkpoints) in sessions.into_iter().filter(|(id, _)| session.is_none_or(|wanted| wanted == *id)) {
        let latest = checkpoints.iter().find(|c| !c.record.fenced).map(|c| c.record.id);
        let mut thinning = keep::Thinning::new(policy, now);
        for checkpoint in checkpoints {
            let id = checkpoint.record.id;
            let about = keep::About {
                checkpoint,
                marks: marks.get(&id).unwrap_or(&none),
                is_latest: latest == Some(id) || heads.contains(&id),
                is_used: used.contains(&id),
            };
            match thinning.judge(&about) {
                Ok(kept) => plan.keep.push((checkpoint.clone(), kept)),
                Err(removed) => plan.remove.push((checkpoint.clone(), removed)),
            }
        }
    }
    Ok(plan)
}

/// Removes what a session does not keep any more after a new checkpoint, where that is configured. The checkpoint is made by then, so a
/// failure is worth a word and no more.
pub fn after(
    store: &Store,
    outcome: &Outcome,
    config: &config::Retention,
    actor: &Actor,
    progress: &dyn Progress,
) -> Option<Report> {
    if outcome.skipped || !config.automatic {
        return None;
    }
    let actor = Actor { via: "retention".into(), ..actor.clone() };
    let session = outcome.checkpoint.record.session.as_str();
    let pruned = prune(store, &config.into(), Some(session), &actor, Timestamp::now(), progress);
    pruned.map_err(|e| progress.notice(&format!("the checkpoint is made, but older ones were not removed: {e}"))).ok()
}

/// Removes what a policy does not keep, of a store or of one session. Where the store is larger than it may be, the oldest of all sessions
/// go that nobody needs, and what they alone held is freed; what then still exceeds the limit is reported.
pub fn prune(
    store: &Store,
    policy: &Policy,
    session: Option<&str>,
    actor: &Actor,
    now: Timestamp,
    progress: &dyn Progress,
) -> Result<Report> {
    let planned = plan(store, policy, session, now)?;
    let mut report = Report::new(&planned, policy);
    report.removed = remove(store, planned.remove, actor, progress)?;
    if policy.max_store_bytes > 0 {
        limit::keep_to(store, policy, actor, now, progress, &mut report)?;
    }
    Ok(report)
}

/// Removes checkpoints, and says which those were: what somebody else has removed meanwhile is not among them.
fn remove(
    store: &Store,
    gone: Vec<(Checkpoint, Removed)>,
    actor: &Actor,
    progress: &dyn Progress,
) -> Result<Vec<(Checkpoint, Removed)>> {
    let mut by_reason: HashMap<Removed, Vec<Ulid>> = HashMap::new();
    for (checkpoint, reason) in &gone {
        by_reason.entry(*reason).or_default().push(checkpoint.record.id);
    }
    let mut removed = HashSet::new();
    for (reason, mut ids) in by_reason {
        while let Err(e) = delete_checkpoints_as(store, &ids, actor, Some(reason.text()), progress) {
            let before = ids.len();
            if let Error::NoCheckpoint { selector } = &e {
                ids.retain(|id| id.to_string() != *selector);
            }
            if ids.len() == before {
                return Err(e.into());
            }
        }
        removed.extend(ids);
    }
    Ok(gone.into_iter().filter(|(checkpoint, _)| removed.contains(&checkpoint.record.id)).collect())
}
