//! Ages of a session's checkpoints. A clock that jumps makes nothing older: where the time that really went by is known, it alone counts.

use jiff::{SignedDuration, Timestamp};
use parhelia_store::{
    clock::{self, Uptime},
    record::Brief,
};

/// A machine that has run for this long has its clock set: until then, time before its start counts only as far as it is known.
const SETTLED: SignedDuration = SignedDuration::from_hours(1);

/// A moment: the time of day that a clock showed, and the time for which the machine had run.
#[derive(Clone, Debug)]
struct Moment {
    time: Timestamp,
    uptime: Option<Uptime>,
}

/// The ages of a session's checkpoints, newest first: each is that of the next newer one, and the time between the two.
pub(super) struct Ages {
    now: Timestamp,
    newer: Moment,
    age: SignedDuration,
}

impl Ages {
    /// Ages at a time of day. The time for which the machine has run by then is read, or follows from a time that is not now.
    pub(super) fn at(now: Timestamp) -> Self {
        let ahead_ms = now.duration_since(clock::timestamp()).as_millis();
        let uptime = Uptime::now().map(|read| {
            let up_ms = i128::from(read.up_ms).saturating_add(ahead_ms).max(0);
            Uptime { up_ms: u64::try_from(up_ms).unwrap_or(u64::MAX), ..read }
        });
        Ages { now, newer: Moment { time: now, uptime }, age: SignedDuration::ZERO }
    }

    /// The age of the next older checkpoint.
    pub(super) fn next(&mut self, brief: &Brief) -> SignedDuration {
        let older = Moment { time: brief.created_at, uptime: brief.uptime.clone() };
        self.age = self.age.saturating_add(self.between(&older));
        self.newer = older;
        self.age
    }

    /// The time from an older moment to the one before.
    fn between(&self, older: &Moment) -> SignedDuration {
        let newer = &self.newer;
        let known = match (&older.uptime, &newer.uptime) {
            (Some(older), Some(newer)) => older.ms_until(newer),
            _ => None,
        };
        if let Some(ms) = known {
            return SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX));
        }
        // By the clock as it was then, and as it is now; it may have been wrong either time, and the shorter time takes away less.
        let by_now = self.now.duration_since(older.time).saturating_sub(self.age);
        let by_clock = newer.time.duration_since(older.time).min(by_now).max(SignedDuration::ZERO);
        // Since its start, the machine has run for this long at least.
        let Some(up) = newer.uptime.as_ref().filter(|_| older.uptime.is_some()).map(up) else { return by_clock };
        if self.age.saturating_add(up) >= SETTLED { by_clock.max(up) } else { up }
    }
}

fn up(uptime: &Uptime) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(uptime.up_ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_800_000_000;
    const HOUR: i64 = 3600;
    const DAY: i64 = 24 * HOUR;

    /// A moment by the clock, and by the seconds for which a start of a machine had run; none where that was not recorded.
    fn moment(time: i64, uptime: Option<(&str, i64)>) -> Moment {
        let uptime = uptime.map(|(boot, secs)| Uptime { boot: boot.into(), up_ms: secs as u64 * 1000 });
        Moment { time: Timestamp::from_second(START + time).unwrap(), uptime }
    }

    /// Ages in seconds, newest first, of moments in order.
    fn ages(moments: &[Moment]) -> Vec<i64> {
        let (now, before) = moments.split_last().unwrap();
        let mut ages = Ages { now: now.time, newer: now.clone(), age: SignedDuration::ZERO };
        let next = |older: &Moment| {
            ages.age += ages.between(older);
            ages.newer = older.clone();
            ages.age.as_secs()
        };
        before.iter().rev().map(next).collect()
    }

    #[test]
    fn a_jump_of_the_clock_is_no_age() {
        let at = |time, up| moment(time, Some(("a", up)));
        // Ahead by eight days for two checkpoints, and right again.
        let ahead = [at(0, 10_000), at(60, 10_060), at(8 * DAY + 120, 10_120), at(8 * DAY + 180, 10_180)];
        assert_eq!(ages(&ahead), [60, 120, 180]);
        assert_eq!(ages(&[&ahead[..], &[at(240, 10_240)]].concat()), [60, 120, 180, 240]);
        // Set back, and years later a clock that was wrong from the start is set.
        assert_eq!(ages(&[at(0, 100), at(-5 * DAY, 160), at(-5 * DAY + 60, 220)]), [60, 120]);
        assert_eq!(ages(&[at(0, 100), at(300 * DAY, 160)]), [60]);
    }

    #[test]
    fn time_that_went_by_is_age() {
        let at = |time, up| moment(time, Some(("a", up)));
        assert_eq!(ages(&[at(0, 100), at(DAY, 100 + DAY), at(9 * DAY, 100 + 9 * DAY)]), [8 * DAY, 9 * DAY]);
        // Another start of the machine, which has run for two hours; two days lie between.
        let later = [at(0, 100), moment(2 * DAY, Some(("b", HOUR))), moment(2 * DAY + HOUR, Some(("b", 2 * HOUR)))];
        assert_eq!(ages(&later), [HOUR, 2 * DAY + HOUR]);
        // Nothing was recorded by an earlier release.
        assert_eq!(ages(&[moment(0, None), moment(DAY, None), at(3 * DAY, 50)]), [2 * DAY, 3 * DAY]);
    }

    #[test]
    fn behind_a_start_of_the_machine_time_counts_once_its_clock_is_set() {
        let before = moment(0, Some(("a", 100)));
        let booted = |time, up| moment(time, Some(("b", up)));
        assert_eq!(ages(&[before.clone(), booted(8 * DAY, 300)]), [300], "the clock may be wrong");
        assert_eq!(ages(&[before.clone(), booted(8 * DAY, 300), booted(8 * DAY + HOUR, HOUR + 300)]), [HOUR, 8 * DAY + HOUR]);
        // It was wrong at the start, and is set by now; or it was right, and jumps.
        assert_eq!(ages(&[before.clone(), booted(8 * DAY, 300), booted(DAY, HOUR + 300)]), [HOUR, DAY]);
        assert_eq!(ages(&[before, booted(DAY, 300), booted(9 * DAY, HOUR + 300)]), [HOUR, DAY + HOUR]);
    }
}
