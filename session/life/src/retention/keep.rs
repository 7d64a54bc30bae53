//! The decision about one checkpoint.

use std::collections::HashSet;

use jiff::{Timestamp, tz::TimeZone};
use parhelia_ledger::{ApprovalStatus, Marks};
use parhelia_store::{
    id::Ulid,
    record::{Brief, Trigger},
};
use serde::Serialize;

use super::{Policy, age::Ages, calendar::Periods};

pub use parhelia_store::record::SAFETY;

/// The reason for keeping a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepReason {
    /// Its session's newest, with or without safety checkpoints, or the one that the next one follows.
    Latest,
    /// The parent of its session's head.
    Parent,
    /// A person has approved it.
    Approved,
    /// Its session is another machine's, whose retention decides.
    Elsewhere,
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

impl KeepReason {
    /// True if it stays even if the store is too large.
    pub fn is_protected(self) -> bool {
        !matches!(
            self,
            KeepReason::Recent | KeepReason::Calendar | KeepReason::Young | KeepReason::Thinned | KeepReason::NotPeriodic
        )
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            KeepReason::Latest => "the latest of its session",
            KeepReason::Parent => "the one before the latest of its session",
            KeepReason::Approved => "approved",
            KeepReason::Elsewhere => "of another machine",
            KeepReason::Tagged => "tagged",
            KeepReason::Linked => "linked to an issue",
            KeepReason::ResumedFrom => "a run was resumed from it",
            KeepReason::RolledBack => "needed by a rollback, or to undo it",
            KeepReason::InUse => "in use",
            KeepReason::Message => "made by hand, with a message",
            KeepReason::Complete => "made when a task was done",
            KeepReason::Error => "made when something failed",
            KeepReason::Safety => "a safety checkpoint",
            KeepReason::Recent => "one of the last of its session",
            KeepReason::Calendar => "kept by the calendar",
            KeepReason::Young => "too young to be thinned",
            KeepReason::Thinned => "the newest of its time",
            KeepReason::NotPeriodic => "no periodic one, not too old",
        }
    }
}

/// The reason for removing a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalReason {
    /// It is older than the maximum age.
    TooOld,
    /// No rule keeps it, where rules say what is kept.
    NoRule,
    /// A newer one of its hour or day is kept.
    Thinned,
    /// The store was larger than it may be.
    StoreTooLarge,
}

impl RemovalReason {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            RemovalReason::TooOld => "older than the maximum age",
            RemovalReason::NoRule => "no rule keeps it",
            RemovalReason::Thinned => "a newer one of its time is kept",
            RemovalReason::StoreTooLarge => "the store was larger than it may be",
        }
    }
}

/// A checkpoint, and what matters about it here.
pub(super) struct About<'a> {
    pub(super) brief: &'a Brief,
    pub(super) is_elsewhere: bool,
    pub(super) is_latest: bool,
    pub(super) is_parent: bool,
    pub(super) is_resumed: bool,
    pub(super) is_rolled_back: bool,
    pub(super) is_used: bool,
    /// Reads its marks, and finds the reason in them, if there is one. Reading costs more than everything else.
    pub(super) marked: &'a dyn Fn(Ulid) -> Option<KeepReason>,
}

impl About<'_> {
    /// True if it is needed, whatever the policy.
    pub(super) fn is_needed(&self) -> bool {
        self.needed().is_some() || self.marked().is_some()
    }

    fn marked(&self) -> Option<KeepReason> {
        (self.marked)(self.brief.id)
    }

    /// The reason for which it is needed, apart from its marks.
    fn needed(&self) -> Option<KeepReason> {
        let brief = self.brief;
        // An import is asked for by a person, whatever the trigger was where it comes from.
        let is_asked_for = brief.trigger == Some(Trigger::Manual) || brief.is_imported;
        let reasons = [
            (self.is_elsewhere, KeepReason::Elsewhere),
            (self.is_latest && !brief.is_safety, KeepReason::Latest),
            // The newest one of a session stays, whatever its age.
            (self.is_latest, KeepReason::Safety),
            (self.is_parent, KeepReason::Parent),
            (self.is_resumed, KeepReason::ResumedFrom),
            (self.is_rolled_back, KeepReason::RolledBack),
            (self.is_used, KeepReason::InUse),
            (brief.has_message && is_asked_for && !brief.is_safety, KeepReason::Message),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, kept)| kept)
    }
}

/// The reason for keeping a checkpoint that is in its marks.
pub(super) fn marked(marks: &Marks) -> Option<KeepReason> {
    let approved = marks.approval.as_ref().is_some_and(|approval| approval.status == ApprovalStatus::Approved);
    let reasons = [
        (approved, KeepReason::Approved),
        (!marks.tags.is_empty(), KeepReason::Tagged),
        (!marks.links.is_empty(), KeepReason::Linked),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, kept)| kept)
}

/// Judges the checkpoints of one session, newest first.
pub(super) struct Thinner<'a> {
    policy: &'a Policy,
    /// The age from which checkpoints go; 0 where none does.
    max_age_hours: u64,
    now: Timestamp,
    ages: Ages,
    recent: u64,
    periods: Periods,
    taken: HashSet<(bool, i64)>,
}

impl<'a> Thinner<'a> {
    pub(super) fn new(policy: &'a Policy, is_agents: bool, now: Timestamp, zone: TimeZone) -> Self {
        let (max_age_hours, periods) = (policy.max_age_hours_of(is_agents), Periods::new(&policy.calendar, zone));
        Thinner { policy, max_age_hours, now, ages: Ages::at(now), recent: 0, periods, taken: HashSet::new() }
    }

    /// Decides about the next checkpoint. Its marks are asked for where they make a difference: where it would be removed, or keep its hour or
    /// day, which a marked one does not. So another reason may be given for keeping a marked one.
    pub(super) fn judge(&mut self, about: &About<'_>) -> Result<KeepReason, RemovalReason> {
        let brief = about.brief;
        let age_hours = self.ages.next(brief).as_hours().max(0) as u64;
        let shown_hours = match self.policy.thins_by_clock {
            // What lies in the future, by a clock that was wrong, is new.
            true => self.now.duration_since(brief.created_at).as_hours().max(0) as u64,
            false => age_hours,
        };
        // Those that are kept anyway count as well: the last five are five.
        let by_number = self.by_number(brief);
        if let Some(kept) = self.protected(about, age_hours) {
            return Ok(kept);
        }
        let (is_first, by_hour, period) = self.period(brief, shown_hours);
        if is_first && let Some(marked) = about.marked() {
            return Ok(marked);
        }
        if is_first {
            self.taken.insert(period);
        }
        let by_time = self.by_time(brief, shown_hours, is_first, by_hour);
        self.unmarked(brief, age_hours, by_number, by_time).or_else(|removed| match is_first {
            // Its marks were asked for by now.
            true => Err(removed),
            false => about.marked().ok_or(removed),
        })
    }

    fn unmarked(
        &self,
        brief: &Brief,
        age_hours: u64,
        by_number: Option<KeepReason>,
        by_time: Option<By>,
    ) -> Result<KeepReason, RemovalReason> {
        if let Some(kept) = by_number {
            return Ok(kept);
        }
        if is_reached(age_hours, self.max_age_hours) {
            return Err(RemovalReason::TooOld);
        }
        match (by_time, self.policy.removes_the_rest()) {
            (Some(By::Age), _) => Ok(KeepReason::Young),
            (Some(By::Hour), _) | (Some(By::Day), false) => Ok(KeepReason::Thinned),
            // Calendar rules replace the rule that keeps one a day without an end.
            (Some(By::Day) | None, true) => Err(RemovalReason::NoRule),
            (None, false) if brief.trigger == Some(Trigger::Periodic) => Err(RemovalReason::Thinned),
            (None, false) => Ok(KeepReason::NotPeriodic),
        }
    }

    /// The reason for keeping it that is independent of number, calendar and marks: it is needed, or kept for its trigger or as a safety
    /// checkpoint.
    fn protected(&self, about: &About<'_>, age_hours: u64) -> Option<KeepReason> {
        let brief = about.brief;
        // Folders without a maximum age keep safety checkpoints for as long as an agent's session does.
        let safety_hours = if self.max_age_hours > 0 { self.max_age_hours } else { self.policy.max_age_hours };
        let reasons = [
            (self.policy.keep_complete && brief.trigger == Some(Trigger::Complete), KeepReason::Complete),
            (self.policy.keep_error && brief.trigger == Some(Trigger::Error), KeepReason::Error),
            (brief.is_safety && !is_reached(age_hours, safety_hours), KeepReason::Safety),
        ];
        about.needed().or_else(|| reasons.into_iter().find(|(holds, _)| *holds).map(|(_, kept)| kept))
    }

    /// The rules that know no age. What is beside the session's history, fenced or made for safety, takes no place in them.
    fn by_number(&mut self, brief: &Brief) -> Option<KeepReason> {
        if brief.fenced || brief.is_safety {
            return None;
        }
        let by_calendar = self.periods.take(brief.created_at);
        if self.recent < self.policy.keep_last {
            self.recent += 1;
            return Some(KeepReason::Recent);
        }
        by_calendar.then_some(KeepReason::Calendar)
    }

    /// The hour or day of a checkpoint, and whether it is the first that would use it up: only periodic checkpoints do.
    fn period(&self, brief: &Brief, age_hours: u64) -> (bool, bool, (bool, i64)) {
        let hour = brief.created_at.as_second().div_euclid(3600);
        let by_hour = age_hours < self.policy.hourly_hours;
        let period = (by_hour, if by_hour { hour } else { hour.div_euclid(24) });
        let is_periodic = brief.trigger == Some(Trigger::Periodic);
        (is_periodic && !self.taken.contains(&period), by_hour, period)
    }

    /// The rule that keeps it from being thinned, if any.
    fn by_time(&self, brief: &Brief, age_hours: u64, is_first: bool, by_hour: bool) -> Option<By> {
        let is_periodic = brief.trigger == Some(Trigger::Periodic);
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
