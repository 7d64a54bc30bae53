//! Retention of checkpoints: by number, by calendar, by age, thinned with age. Checkpoints that are needed stay whatever the rules say.

mod age;
mod asked;
mod calendar;
mod due;
mod held;
mod keep;
mod limit;
mod report;
mod settled;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

pub use asked::{forecast_for, prune_for};
pub use calendar::Calendar;
use jiff::{Timestamp, tz::TimeZone};
pub use keep::{KeepReason, RemovalReason, SAFETY};
pub use limit::{Forecast, forecast};
use parhelia_store::{
    Store,
    check::VerifyReport,
    clock,
    create::Outcome,
    delete::delete_chosen,
    event::Actor,
    id::Ulid,
    progress::Progress,
    record::{Brief, Checkpoint},
    view::View,
};
pub use report::RetentionReport;

use self::held::KeepSet;
use parhelia_host::{Result, config, draft::Draft};

/// The rules. A rule whose number is 0 is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Keep so many newest checkpoints of a session, however old they are.
    pub keep_last: u64,
    /// Keep the newest checkpoints of hours, days, weeks, months and years, however old they are.
    pub calendar: Calendar,
    /// Remove what no rule keeps, also where it is not too old. A calendar asks for that anyway.
    pub only_kept: bool,
    /// Remove what is older, in hours: of sessions of agents.
    pub max_age_hours: u64,
    /// Remove what is older, in hours: of folders that no agent has worked in.
    pub folder_max_age_hours: u64,
    /// Keep every one that was made because a task was done.
    pub keep_complete: bool,
    /// Keep every one that was made because something failed.
    pub keep_error: bool,
    /// Keep every one of so many hours ...
    pub all_hours: u64,
    /// ... then one periodic one of each hour, for so many hours; then one of each day.
    pub hourly_hours: u64,
    /// Bytes that the store may take.
    pub max_store_bytes: u64,
    /// Thin by the times of day that checkpoints bear, as somebody who is shown them expects, also where a clock has jumped. The maximum age
    /// goes by the time that went by, whoever asks.
    pub thins_by_clock: bool,
}

impl Policy {
    /// True if checkpoints that no rule keeps are removed even if they are not too old.
    fn removes_the_rest(&self) -> bool {
        self.only_kept || self.calendar.is_set()
    }

    /// The age from which checkpoints go, of an agent's session or a folder's; 0 where none does.
    fn max_age_hours_of(&self, is_agents: bool) -> u64 {
        if is_agents { self.max_age_hours } else { self.folder_max_age_hours }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            keep_last: 10,
            calendar: Calendar::default(),
            only_kept: false,
            max_age_hours: 168,
            folder_max_age_hours: 0,
            keep_complete: true,
            keep_error: true,
            all_hours: 1,
            hourly_hours: 24,
            max_store_bytes: 0,
            thins_by_clock: false,
        }
    }
}

impl From<&config::Retention> for Policy {
    fn from(set: &config::Retention) -> Self {
        Policy {
            keep_last: set.keep_last,
            calendar: Calendar {
                hourly: set.keep_hourly,
                daily: set.keep_daily,
                weekly: set.keep_weekly,
                monthly: set.keep_monthly,
                yearly: set.keep_yearly,
            },
            only_kept: false,
            max_age_hours: set.max_age_hours,
            folder_max_age_hours: set.folder_max_age_hours,
            keep_complete: set.keep_complete,
            keep_error: set.keep_error,
            all_hours: set.all_hours,
            hourly_hours: set.hourly_hours,
            max_store_bytes: set.max_store_bytes,
            thins_by_clock: false,
        }
    }
}

/// The fate of each checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Checkpoints to remove, and the reasons.
    pub remove: Vec<(Checkpoint, RemovalReason)>,
    /// Checkpoints to keep, and the reasons.
    pub keep: Vec<(Checkpoint, KeepReason)>,
}

/// The checkpoints of a store, or of one session, in order of commit.
fn checkpoints<'v>(view: &'v View, session: Option<&str>) -> parhelia_store::Result<Cow<'v, [Checkpoint]>> {
    let Some(session) = session else { return Ok(Cow::Borrowed(view.checkpoints()?)) };
    let mut found = view.newest_first_of(session)?.collect::<parhelia_store::Result<Vec<_>>>()?;
    found.reverse();
    Ok(Cow::Owned(found))
}

fn briefs(view: &View, session: Option<&str>) -> parhelia_store::Result<Vec<Brief>> {
    match session {
        Some(session) => view.briefs_of(session, 0),
        None => Ok(view.checkpoints()?.iter().map(Brief::from).collect()),
    }
}

/// Says what a policy makes of the checkpoints of a store, or of one session.
pub fn plan(store: &Store, policy: &Policy, session: Option<&str>, now: Timestamp) -> Result<Plan> {
    let view = store.refresh()?;
    let all = checkpoints(&view, session)?;
    let briefs: Vec<Brief> = all.iter().map(Brief::from).collect();
    let held = KeepSet::of(store, &view, &briefs)?;
    let mut sessions: BTreeMap<&str, Vec<(&Checkpoint, &Brief)>> = BTreeMap::new();
    for (checkpoint, brief) in all.iter().zip(&briefs).rev() {
        sessions.entry(&checkpoint.record.session).or_default().push((checkpoint, brief));
    }
    let mut plan = Plan::default();
    for (id, checkpoints) in sessions {
        let mut thinning = keep::Thinner::new(policy, held.of_agents.contains(id), now, TimeZone::system());
        for (checkpoint, brief) in checkpoints {
            match thinning.judge(&held.about(brief)) {
                Ok(kept) => plan.keep.push((checkpoint.clone(), held.reason(brief, kept))),
                Err(removed) => plan.remove.push((checkpoint.clone(), removed)),
            }
        }
    }
    held.whole()?;
    Ok(plan)
}

/// Thins the session of a new checkpoint, as configured. Older ones go only in favour of one that is whole, and of the session's own folder.
pub(crate) fn thin_after(draft: &Draft<'_>) -> Option<RetentionReport> {
    let is_sound = !draft.options.of_another_folder && draft.report().is_some_and(VerifyReport::is_ok);
    if !draft.request.thins || !is_sound {
        return None;
    }
    let by = (draft.actor(), draft.host.call().is_agents);
    after(draft.store, &draft.outcome, &draft.request.config.retention, by, draft.observer)
}

/// Removes what a session does not keep any more after a new checkpoint, where that is configured. What other sessions have stays as it is where an
/// agent makes the checkpoint, also if the store is larger than it may be. The checkpoint is made by then, so a failure is worth a word and
/// no more.
fn after(
    store: &Store,
    outcome: &Outcome,
    config: &config::Retention,
    (actor, is_agents): (&Actor, bool),
    progress: &dyn Progress,
) -> Option<RetentionReport> {
    if outcome.skipped || !config.automatic {
        return None;
    }
    let actor = Actor { via: "retention".into(), ..actor.clone() };
    let session = outcome.checkpoint.record.session.as_str();
    let mut policy = Policy::from(config);
    if is_agents {
        policy.max_store_bytes = 0;
    }
    let pruned = thin(store, &policy, session, &actor, clock::timestamp(), progress);
    if is_agents && let Ok(Some(excess)) = limit::excess(store, config.max_store_bytes) {
        progress.notice(&format!(
            "the store is {} MiB larger than it may be (retention.max_store_bytes); what other sessions have goes when their user or the \
             service thins the store, and not for an agent's checkpoint",
            excess.div_ceil(1 << 20)
        ));
    }
    if let Some(e) = pruned.as_ref().map_or_else(Some, |report| report.failed.as_ref()) {
        progress.notice(&format!("the checkpoint is made, but not all older ones were removed that may go: {e}"));
    }
    pruned.ok()
}

/// Removes what a policy does not keep of one session, as [`prune`] does. Reads no record that stays, so that a session may have many.
fn thin(
    store: &Store,
    policy: &Policy,
    session: &str,
    actor: &Actor,
    now: Timestamp,
    progress: &dyn Progress,
) -> Result<RetentionReport> {
    store.ensure_not_younger()?;
    let due = due::due(store, policy, session, now)?;
    let report =
        RetentionReport { kept: due.kept, young: due.young, max_store_bytes: policy.max_store_bytes, ..Default::default() };
    carry_out(store, policy, Some(session), &due.remove, (actor, now), progress, report)
}

/// Removes what a policy does not keep, of a store or of one session. Where the store is larger than it may be, the oldest of all sessions
/// go that nobody needs, and what they alone held is freed; what then still exceeds the limit is reported. What fails once something has
/// been removed is in the report.
pub fn prune(
    store: &Store,
    policy: &Policy,
    session: Option<&str>,
    actor: &Actor,
    now: Timestamp,
    progress: &dyn Progress,
) -> Result<RetentionReport> {
    store.ensure_not_younger()?;
    let planned = plan(store, policy, session, now)?;
    let report = RetentionReport::new(&planned, policy);
    carry_out(store, policy, session, &planned.remove, (actor, now), progress, report)
}

/// Removes what was planned, and what makes the store larger than it may be.
fn carry_out(
    store: &Store,
    policy: &Policy,
    session: Option<&str>,
    planned: &[(Checkpoint, RemovalReason)],
    (actor, now): (&Actor, Timestamp),
    progress: &dyn Progress,
    mut report: RetentionReport,
) -> Result<RetentionReport> {
    let removed = remove(store, session, planned, actor, progress, &mut report);
    let pruned = removed.and_then(|()| match policy.max_store_bytes {
        0 => Ok(()),
        _ => limit::keep_to(store, policy, actor, now, progress, &mut report),
    });
    match pruned {
        Err(e) if report.removed.is_empty() && report.freed_bytes == 0 => return Err(e),
        other => report.failed = other.err(),
    }
    Ok(report)
}

/// Removes checkpoints, and reports which those were: not what somebody else has removed meanwhile, and not what is needed by now.
fn remove(
    store: &Store,
    session: Option<&str>,
    gone: &[(Checkpoint, RemovalReason)],
    actor: &Actor,
    progress: &dyn Progress,
    report: &mut RetentionReport,
) -> Result<()> {
    let mut by_reason: BTreeMap<&str, Vec<Ulid>> = BTreeMap::new();
    for (checkpoint, reason) in gone {
        by_reason.entry(reason.text()).or_default().push(checkpoint.record.id);
    }
    for (reason, ids) in by_reason {
        let still_free = |view: &View| {
            let briefs = briefs(view, session)?;
            let held = KeepSet::of(store, view, &briefs)?;
            let by_id: HashMap<Ulid, &Brief> = briefs.iter().map(|brief| (brief.id, brief)).collect();
            let is_free = |id: &Ulid| by_id.get(id).is_some_and(|brief| !held.about(brief).is_needed());
            let free = ids.iter().copied().filter(is_free).collect();
            held.whole().map(|()| free)
        };
        let removed: HashSet<Ulid> = delete_chosen(store, &still_free, actor, Some(reason), progress)?.into_iter().collect();
        report.removed.extend(gone.iter().filter(|(checkpoint, _)| removed.contains(&checkpoint.record.id)).cloned());
    }
    Ok(())
}
