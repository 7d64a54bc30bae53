//! What becomes of one checkpoint.

use std::collections::HashSet;

use jiff::Timestamp;
use parhelia_store::{
    fold::{ApprovalStatus, Marks},
    record::{Checkpoint, Trigger},
};
use serde::Serialize;

use super::Policy;

pub use parhelia_store::record::SAFETY;

/// Why a checkpoint stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Its session's newest, or the one that the next one follows.
    Latest,
    /// Somebody approved it.
    Approved,
    /// It has a tag.
    Tagged,
    /// It is linked to an issue.
    Linked,
    /// A rollback is under way that needs it, or may be undone with it.
    RolledBack,
    /// Something reads it right now, such as a mount.
    InUse,
    /// A task was done.
    Complete,
    /// Something failed.
    Error,
    /// It was made before something was overwritten.
    Safety,
    /// One of the last of its session.
    Recent,
    /// The newest of its hour or day, or too young to be thinned.
    Thinned,
    /// It was not made at an interval or between turns, and so is not thinned: somebody asked for it, detached, or ended the agent.
    NotPeriodic,
}

impl Kept {
    /// Whether not even a store that is too large makes it go.
    pub fn is_protected(self) -> bool {
        !matches!(self, Kept::Recent | Kept::Thinned | Kept::NotPeriodic)
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Kept::Latest => "the latest of its session",
            Kept::Approved => "approved",
            Kept::Tagged => "tagged",
            Kept::Linked => "linked to an issue",
            Kept::RolledBack => "needed by a rollback, or to undo it",
            Kept::InUse => "in use",
            Kept::Complete => "made when a task was done",
            Kept::Error => "made when something failed",
            Kept::Safety => "a safety checkpoint",
            Kept::Recent => "one of the last of its session",
            Kept::Thinned => "the newest of its time",
            Kept::NotPeriodic => "no periodic one, not too old",
        }
    }
}

/// Why a checkpoint goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Removed {
    /// It is older than any may be.
    TooOld,
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
    pub(super) is_rolled_back: bool,
    pub(super) is_used: bool,
}

impl About<'_> {
    /// Whether somebody needs it, whatever the policy.
    pub(super) fn is_needed(&self) -> bool {
        self.needed().is_some()
    }

    fn needed(&self) -> Option<Kept> {
        let approved = self.marks.approval.as_ref().is_some_and(|approval| approval.status == ApprovalStatus::Approved);
        let reasons = [
            (self.is_latest, Kept::Latest),
            (approved, Kept::Approved),
            (!self.marks.tags.is_empty(), Kept::Tagged),
            (!self.marks.links.is_empty(), Kept::Linked),
            (self.is_rolled_back, Kept::RolledBack),
            (self.is_used, Kept::InUse),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, kept)| kept)
    }
}

/// Judges the checkpoints of one session, newest first.
pub(super) struct Thinning<'a> {
    policy: &'a Policy,
    now: Timestamp,
    recent: u64,
    taken: HashSet<(bool, i64)>,
}

impl<'a> Thinning<'a> {
    pub(super) fn new(policy: &'a Policy, now: Timestamp) -> Self {
        Thinning { policy, now, recent: 0, taken: HashSet::new() }
    }

    pub(super) fn judge(&mut self, about: &About<'_>) -> Result<Kept, Removed> {
        let record = &about.checkpoint.record;
        // What lies in the future, by a clock that was wrong, is new.
        let age_hours = self.now.duration_since(record.created_at).as_hours().max(0) as u64;
        let is_old = age_hours >= self.policy.max_age_hours;
        if let Some(kept) = self.protected(about, is_old) {
            return Ok(kept);
        }
        if is_old {
            return Err(Removed::TooOld);
        }
        let is_periodic = record.trigger == Trigger::Periodic;
        let hour = record.created_at.as_second().div_euclid(3600);
        let by_hour = age_hours < self.policy.hourly_hours;
        // Another one beside them is no reason to keep fewer of those that are thinned.
        let is_first = is_periodic && self.taken.insert((by_hour, if by_hour { hour } else { hour.div_euclid(24) }));
        if self.recent < self.policy.keep_last && !record.fenced {
            self.recent += 1;
            return Ok(Kept::Recent);
        }
        if !is_periodic {
            return Ok(Kept::NotPeriodic);
        }
        if is_first || age_hours < self.policy.all_hours { Ok(Kept::Thinned) } else { Err(Removed::Thinned) }
    }

    fn protected(&self, about: &About<'_>, is_old: bool) -> Option<Kept> {
        let record = &about.checkpoint.record;
        let reasons = [
            (self.policy.keep_complete && record.trigger == Trigger::Complete, Kept::Complete),
            (self.policy.keep_error && record.trigger == Trigger::Error, Kept::Error),
            (!is_old && record.trigger_detail.as_deref() == Some(SAFETY), Kept::Safety),
        ];
        about.needed().or_else(|| reasons.into_iter().find(|(holds, _)| *holds).map(|(_, kept)| kept))
    }
}
