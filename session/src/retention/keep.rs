//! The decision about one checkpoint.

use std::collections::HashSet;

use jiff::{Timestamp, tz::TimeZone};
use parhelia_store::{
    projection::{ApprovalStatus, Marks},
    record::{Checkpoint, Trigger},
};
use serde::Serialize;

use super::{Policy, age::Ages, calendar::Periods};

pub use parhelia_store::record::SAFETY;

/// The reason for keeping a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Its session's newest, with or without safety checkpoints, or the one that the next one follows.
    Latest,
    /// The parent of its session's head.
    Parent,
    /// Somebody approved it.
    Approved,
    /// It has a tag.
    Tagged,
    /// It is linked to an issue.
    Linked,
    /// A run was resumed from it.
    ResumedFrom,
    /// A rollback is under way that needs it, or may be undone with it.
    RolledBack,
    /// Something reads it right now, such as a mount.
    InUse,
    /// Somebody asked for it, with a message.
    Message,
    /// A task was done.
    Complete,
    /// Something failed.
    Error,
    /// It was made before something was overwritten.
    Safety,
    /// One of the last of its session.
    Recent,
    /// The newest of an hour, day, week, month or year that the calendar keeps.
    Calendar,
    /// Too young to be thinned.
    Young,
    /// The newest of its hour or day.
    Thinned,
    /// It was not made at an interval or between turns, and so is not thinned: somebody asked for it, detached, or ended the agent.
    NotPeriodic,
}

impl Kept {
    /// True if it stays even if the store is too large.
    pub fn is_protected(self) -> bool {
        !matches!(self, Kept::Recent | Kept::Calendar | Kept::Young | Kept::Thinned | Kept::NotPeriodic)
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Kept::Latest => "the latest of its session",
            Kept::Parent => "the one before the latest of its session",
            Kept::Approved => "approved",
            Kept::Tagged => "tagged",
            Kept::Linked => "linked to an issue",
            Kept::ResumedFrom => "a run was resumed from it",
            Kept::RolledBack => "needed by a rollback, or to undo it",
            Kept::InUse => "in use",
            Kept::Message => "made by hand, with a message",
            Kept::Complete => "made when a task was done",
            Kept::Error => "made when something failed",
            Kept::Safety => "a safety checkpoint",
            Kept::Recent => "one of the last of its session",
            Kept::Calendar => "kept by the calendar",
            Kept::Young => "too young to be thinned",
            Kept::Thinned => "the newest of its time",
            Kept::NotPeriodic => "no periodic one, not too old",
        }
    }
}

/// The reason for removing a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Removed {
    /// It is older than the maximum age.
    TooOld,
    /// No rule keeps it, where rules say what is kept.
    NoRule,
    /// A newer one of its hour or day is kept.
    Thinned,
    /// The store was larger than it may be.
    StoreTooLarge,
}

impl Removed {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Removed::TooOld => "older than the maximum age",
            Removed::NoRule => "no rule keeps it",
            Removed::Thinned => "a newer one of its time is kept",
            Removed::StoreTooLarge => "the store was larger than it may be",
        }
    }
}

/// A checkpoint, and what matters about it here.
pub(super) struct About<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) marks: &'a Marks,
    pub(super) is_latest: bool,
    pub(super) is_parent: bool,
    pub(super) is_resumed: bool,
    pub(super) is_rolled_back: bool,
    pub(super) is_used: bool,
}

impl About<'_> {
    /// True if it is needed, whatever the policy.
    pub(super) fn is_needed(&self) -> bool {
        self.needed().is_some()
    }

    fn needed(&self) -> Option<Kept> {
        let approved = self.marks.approval.as_ref().is_some_and(|approval| approval.status == ApprovalStatus::Approved);
        let record = &self.checkpoint.record;
        let has_message = record.message.as_ref().is_some_and(|message| !message.trim().is_empty());
        // An import is asked for by a person, whatever the trigger was where it comes from.
        let is_asked_for = record.trigger == Trigger::Manual || record.is_imported();
        let reasons = [
            (self.is_latest, Kept::Latest),
            (self.is_parent, Kept::Parent),
            (approved, Kept::Approved),
            (!self.marks.tags.is_empty(), Kept::Tagged),
            (!self.marks.links.is_empty(), Kept::Linked),
            (self.is_resumed, Kept::ResumedFrom),
            (self.is_rolled_back, Kept::RolledBack),
            (self.is_used, Kept::InUse),
            (has_message && is_asked_for && !record.is_safety(), Kept::Message),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, kept)| kept)
    }
}

/// Judges the checkpoints of one session, newest first.
pub(super) struct Thinning<'a> {
    policy: &'a Policy,
    /// The age from which checkpoints go; 0 where none does.
    max_age_hours: u64,
    now: Timestamp,
    ages: Ages,
    recent: u64,
    periods: Periods,
    taken: HashSet<(bool, i64)>,
}

impl<'a> Thinning<'a> {
    pub(super) fn new(policy: &'a Policy, is_agents: bool, now: Timestamp, zone: TimeZone) -> Self {
        let max_age_hours = if is_agents { policy.max_age_hours } else { policy.folder_max_age_hours };
        let periods = Periods::new(&policy.calendar, zone);
        Thinning { policy, max_age_hours, now, ages: Ages::at(now), recent: 0, periods, taken: HashSet::new() }
    }

    pub(super) fn judge(&mut self, about: &About<'_>) -> Result<Kept, Removed> {
        let record = &about.checkpoint.record;
        let age_hours = self.ages.next(record).as_hours().max(0) as u64;
        let shown_hours = match self.policy.thins_by_clock {
            // What lies in the future, by a clock that was wrong, is new.
            true => self.now.duration_since(record.created_at).as_hours().max(0) as u64,
            false => age_hours,
        };
        // Those that are kept anyway count as well: the last five are five.
        let by_number = self.by_number(about.checkpoint);
        if let Some(kept) = self.protected(about, age_hours) {
            return Ok(kept);
        }
        let by_time = self.by_time(about.checkpoint, shown_hours);
        if let Some(kept) = by_number {
            return Ok(kept);
        }
        if is_reached(age_hours, self.max_age_hours) {
            return Err(Removed::TooOld);
        }
        match (by_time, self.policy.removes_the_rest()) {
            (Some(By::Age), _) => Ok(Kept::Young),
            (Some(By::Hour), _) | (Some(By::Day), false) => Ok(Kept::Thinned),
            // Calendar rules replace the rule that keeps one a day without an end.
            (Some(By::Day) | None, true) => Err(Removed::NoRule),
            (None, false) if record.trigger == Trigger::Periodic => Err(Removed::Thinned),
            (None, false) => Ok(Kept::NotPeriodic),
        }
    }

    /// The reason for keeping it that is independent of number and calendar: it is needed, or kept for its trigger or as a safety
    /// checkpoint.
    fn protected(&self, about: &About<'_>, age_hours: u64) -> Option<Kept> {
        let record = &about.checkpoint.record;
        // Folders without a maximum age keep safety checkpoints for as long as an agent's session does.
        let safety_hours = if self.max_age_hours > 0 { self.max_age_hours } else { self.policy.max_age_hours };
        let reasons = [
            (self.policy.keep_complete && record.trigger == Trigger::Complete, Kept::Complete),
            (self.policy.keep_error && record.trigger == Trigger::Error, Kept::Error),
            (about.checkpoint.record.is_safety() && !is_reached(age_hours, safety_hours), Kept::Safety),
        ];
        about.needed().or_else(|| reasons.into_iter().find(|(holds, _)| *holds).map(|(_, kept)| kept))
    }

    /// The rules that know no age. What is beside the session's history, fenced or made for safety, takes no place in them.
    fn by_number(&mut self, checkpoint: &Checkpoint) -> Option<Kept> {
        let record = &checkpoint.record;
        if record.fenced || record.is_safety() {
            return None;
        }
        let by_calendar = self.periods.take(record.created_at);
        if self.recent < self.policy.keep_last {
            self.recent += 1;
            return Some(Kept::Recent);
        }
        by_calendar.then_some(Kept::Calendar)
    }

    /// The rule that keeps it from being thinned, if any. Only periodic checkpoints use up their hour or day.
    fn by_time(&mut self, Checkpoint { record, .. }: &Checkpoint, age_hours: u64) -> Option<By> {
        let hour = record.created_at.as_second().div_euclid(3600);
        let by_hour = age_hours < self.policy.hourly_hours;
        let is_periodic = record.trigger == Trigger::Periodic;
        let is_first = is_periodic && self.taken.insert((by_hour, if by_hour { hour } else { hour.div_euclid(24) }));
        let is_young = age_hours < self.policy.all_hours && (is_periodic || self.policy.removes_the_rest());
        match (is_young, is_first, by_hour) {
            (true, ..) => Some(By::Age),
            (false, true, true) => Some(By::Hour),
            (false, true, false) => Some(By::Day),
            _ => None,
        }
    }
}

/// The rule that keeps a checkpoint from being thinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// It is young.
    Age,
    /// It is the newest of its hour.
    Hour,
    /// It is the newest of its day, without an end.
    Day,
}

/// Checks whether an age has reached a limit. 0 is no limit.
fn is_reached(age_hours: u64, limit_hours: u64) -> bool {
    limit_hours > 0 && age_hours >= limit_hours
}
