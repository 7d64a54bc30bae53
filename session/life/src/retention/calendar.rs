//! Rules by calendar: the newest checkpoint of each of the last hours, days, weeks, months and years that have any.

use std::collections::HashSet;

use jiff::{Timestamp, tz::TimeZone};

/// The number of periods of each kind that keep their newest checkpoint, as restic and borg count: periods without a checkpoint are not
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calendar {
    /// Hours.
    pub hourly: u64,
    /// Days.
    pub daily: u64,
    /// Weeks, from Monday.
    pub weekly: u64,
    /// Months.
    pub monthly: u64,
    /// Years.
    pub yearly: u64,
}

impl Calendar {
    /// Checks whether any of its rules is on.
    pub fn is_set(&self) -> bool {
        *self != Calendar::default()
    }
}

/// The name of a period: the numbers of its kind, unused ones 0.
type Period = [i32; 5];

/// Counts periods, newest checkpoint first.
pub(super) struct Periods {
    zone: TimeZone,
    /// The rules: how many periods of each kind are kept, and those that have their checkpoint.
    rules: [(u64, HashSet<Period>); 5],
}

impl Periods {
    pub(super) fn new(calendar: &Calendar, zone: TimeZone) -> Self {
        let Calendar { hourly, daily, weekly, monthly, yearly } = *calendar;
        Periods { zone, rules: [hourly, daily, weekly, monthly, yearly].map(|wanted| (wanted, HashSet::new())) }
    }

    /// Counts a checkpoint of this time, and says whether a rule keeps it. A period counts once, also where a clock that was set back has
    /// left its checkpoints apart.
    pub(super) fn take(&mut self, created_at: Timestamp) -> bool {
        // Naming a period takes longer than everything else that is decided about a checkpoint.
        if self.rules.iter().all(|(wanted, taken)| taken.len() as u64 >= *wanted) {
            return false;
        }
        let at = created_at.to_zoned(self.zone.clone());
        let (year, month, day) = (i32::from(at.year()), i32::from(at.month()), i32::from(at.day()));
        let week = at.date().iso_week_date();
        let periods: [Period; 5] = [
            // The hour that comes twice when the clocks go back is two.
            [year, month, day, i32::from(at.hour()), at.offset().seconds()],
            [year, month, day, 0, 0],
            [i32::from(week.year()), i32::from(week.week()), 0, 0, 0],
            [year, month, 0, 0, 0],
            [year, 0, 0, 0, 0],
        ];
        let mut is_kept = false;
        for ((wanted, taken), period) in self.rules.iter_mut().zip(periods) {
            is_kept |= (taken.len() as u64) < *wanted && taken.insert(period);
        }
        is_kept
    }
}
