//! The clock that stamps files, and what can be told of it: how long ago something was, and whether somebody has set it back since.

use std::fs;

use jiff::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};

use serde::{Deserialize, Serialize};

use crate::{
    codec::{DecodeError, Decoder},
    format::context,
    id::hex,
    meta::Time,
};

const SECOND_NANOS: i64 = 1_000_000_000;
/// Stamps of filesystems that count nanoseconds follow the kernel's tick, at most 10 ms.
const TICK_NANOS: i64 = 20_000_000;
/// Stamps without a fraction count whole seconds, or two of them (FAT).
const WHOLE_SECONDS_NANOS: i64 = 2 * SECOND_NANOS + TICK_NANOS;
/// A clock that was set back by less than this is taken for one that was not: the units above cover it.
const STEP_NANOS: i64 = SECOND_NANOS / 2;

/// Times that [`next`] looks at the clock, a millisecond apart: many ticks. After that, somebody has set the clock back.
const NEXT_TRIES: usize = 200;

/// The bytes of an encoded [`Clock`].
pub const CLOCK_BYTES: usize = 36;

/// The nanoseconds from `earlier` to `later`; negative where it is the other way round.
pub fn nanos_between(earlier: Time, later: Time) -> i64 {
    let nanos = i64::from(later.nanos) - i64::from(earlier.nanos);
    later.secs.saturating_sub(earlier.secs).saturating_mul(SECOND_NANOS).saturating_add(nanos)
}

/// Least distance of two changes whose stamps differ for certain, in nanoseconds, judged by a stamp of the same filesystem. A stamp
/// of a finer filesystem that happens to have no fraction is taken for a coarse one, which costs a second look at its file.
pub fn stamp_unit_nanos(stamp: Time) -> i64 {
    if stamp.nanos == 0 { WHOLE_SECONDS_NANOS } else { TICK_NANOS }
}

/// True if a change at `read_at` or later could bear this stamp: a file with it must be read again. Both are of the same clock.
pub fn is_racy(stamp: Time, read_at: Time) -> bool {
    nanos_between(stamp, read_at) <= stamp_unit_nanos(stamp)
}

/// A reading of the clock that stamps local files, beside one of the clock that nobody can set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The time of day.
    pub time: Time,
    /// Nanoseconds since the machine was started, sleep included.
    pub up_nanos: u64,
    /// Boot id: one start of one machine.
    pub boot: [u8; 16],
}

impl Clock {
    /// Both clocks as they are now.
    pub fn now() -> Self {
        let up = clock_gettime(ClockId::Boottime);
        Clock {
            time: now(),
            up_nanos: (up.tv_sec as u64).saturating_mul(SECOND_NANOS as u64).saturating_add(up.tv_nsec as u64),
            boot: boot_id(),
        }
    }

    /// The earliest time of day that the clock may have shown since this reading, if somebody has set it back since. A stamp of that
    /// time or later may have been given twice.
    pub fn set_back_to(&self, now: &Clock) -> Option<Time> {
        let up = match self.same_boot(now) {
            true => now.up_nanos.checked_sub(self.up_nanos),
            false => Some(now.up_nanos),
        };
        // Time in another namespace, which tells nothing of this one.
        let Some(up) = up else { return Some(Time { secs: i64::MIN, nanos: 0 }) };
        let earliest = minus(now.time, up);
        (nanos_between(earliest, self.time) > STEP_NANOS).then_some(earliest)
    }

    /// True if at least so many nanoseconds went by from this reading to `now`.
    pub fn is_older_than(&self, nanos: i64, now: &Clock) -> bool {
        match self.same_boot(now) {
            true => now.up_nanos.saturating_sub(self.up_nanos) >= nanos as u64,
            // Nothing that was seen before a start of the machine is as young as that. Without `/proc`, nobody knows of a start.
            false => self.boot != [0; 16] && now.boot != [0; 16],
        }
    }

    fn same_boot(&self, other: &Clock) -> bool {
        self.boot == other.boot && self.boot != [0; 16]
    }

    /// Encodes it in [`CLOCK_BYTES`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.time.secs.to_le_bytes());
        out.extend_from_slice(&self.time.nanos.to_le_bytes());
        out.extend_from_slice(&self.up_nanos.to_le_bytes());
        out.extend_from_slice(&self.boot);
    }

    /// Reads what [`Clock::encode`] wrote.
    pub fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let time = Time { secs: d.u64("clock")? as i64, nanos: d.u32("clock")? };
        Ok(Clock { time, up_nanos: d.u64("clock")?, boot: d.array("clock")? })
    }
}

/// A reading of the clock that nobody can set, as records keep it: the time for which a machine had run. Between two readings of one start of a
/// machine it tells how much time really went by, whatever somebody did to the time of day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uptime {
    /// The start of the machine. A hash: the kernel's own number is nobody else's business.
    pub boot: String,
    /// Milliseconds since that start, sleep included.
    pub up_ms: u64,
}

impl Uptime {
    /// The reading now; none where the kernel does not tell which start of the machine this is.
    pub fn now() -> Option<Self> {
        let clock = Clock::now();
        let boot = blake3::derive_key(context::BOOT, &clock.boot);
        (clock.boot != [0; 16]).then(|| Uptime { boot: hex(&boot[..8]), up_ms: clock.up_nanos / 1_000_000 })
    }

    /// The milliseconds from this reading to a later one; none where they are of different starts, or of different clocks.
    pub fn ms_until(&self, later: &Uptime) -> Option<u64> {
        (self.boot == later.boot).then(|| later.up_ms.checked_sub(self.up_ms)).flatten()
    }
}

/// The time of day, as it is recorded and shown. Whatever asks for it asks here or below; tests that step the clock do so for a process.
pub fn timestamp() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the one place")]
    Timestamp::now()
}

/// The time of day by which the kernel stamps files of local filesystems.
pub fn now() -> Time {
    time(clock_gettime(ClockId::RealtimeCoarse))
}

/// The same, once it is later than every stamp that was given before the call. Some milliseconds.
///
/// Since Linux 6.13 a stamp may be finer than the kernel's tick and later than what [`now`] shows even after its next step (multigrain
/// timestamps, `Documentation/filesystems/multigrain-ts.rst`); the fine clock is ahead of both.
pub fn next() -> Time {
    let before = time(clock_gettime(ClockId::Realtime));
    for _ in 0..NEXT_TRIES {
        if nanos_between(before, now()) > 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    now()
}

fn time(read: Timespec) -> Time {
    Time { secs: read.tv_sec, nanos: read.tv_nsec as u32 }
}

fn minus(time: Time, nanos: u64) -> Time {
    let (secs, nanos) = ((nanos / SECOND_NANOS as u64) as i64, (nanos % SECOND_NANOS as u64) as u32);
    match time.nanos.checked_sub(nanos) {
        Some(left) => Time { secs: time.secs.saturating_sub(secs), nanos: left },
        None => Time { secs: time.secs.saturating_sub(secs + 1), nanos: time.nanos + SECOND_NANOS as u32 - nanos },
    }
}

fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or_default().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64, nanos: u32) -> Time {
        Time { secs, nanos }
    }

    fn clock(secs: i64, up_secs: u64, boot: u8) -> Clock {
        Clock { time: at(secs, 5), up_nanos: up_secs * 1_000_000_000 + 5, boot: [boot; 16] }
    }

    #[test]
    fn a_stamp_says_itself_how_long_it_may_be_given_again() {
        assert!(is_racy(at(100, 7), at(100, 8)) && is_racy(at(100, 7), at(100, 20_000_007)));
        assert!(!is_racy(at(100, 7), at(100, 20_000_008)));
        assert!(is_racy(at(100, 0), at(101, 999_999_999)) && is_racy(at(100, 0), at(102, 0)));
        assert!(!is_racy(at(100, 0), at(103, 0)));
        assert!(is_racy(at(100, 7), at(99, 0)), "a stamp of the future");
    }

    #[test]
    fn the_next_time_is_later_than_every_stamp_before() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for round in 0..50 {
            // Whoever looks at a stamp has the kernel make the next one a fine one.
            file.as_file().metadata().unwrap();
            fs::write(file.path(), round.to_string()).unwrap();
            let before = time(clock_gettime(ClockId::Realtime));
            let next = next();
            let stat = rustix::fs::fstat(file.as_file()).unwrap();
            let stamp = Time { secs: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 };
            assert!(nanos_between(stamp, next) > 0 && nanos_between(before, next) > 0, "{stamp:?} {before:?} {next:?}");
        }
    }

    #[test]
    fn readings_of_one_start_tell_the_time_between_them() {
        let at = |boot: &str, up_ms| Uptime { boot: boot.into(), up_ms };
        assert_eq!(at("a", 5).ms_until(&at("a", 12)), Some(7));
        assert_eq!((at("a", 5).ms_until(&at("b", 12)), at("a", 5).ms_until(&at("a", 4))), (None, None));
        let now = Uptime::now().unwrap();
        assert!(now.ms_until(&Uptime::now().unwrap()).is_some_and(|ms| ms < 600_000) && now.boot.len() == 16);
    }

    #[test]
    fn a_clock_that_was_set_back_is_noticed() {
        let before = clock(1000, 50, 1);
        for (now, expected) in [
            (clock(1010, 60, 1), None),
            (clock(5010, 60, 1), None),
            // Ten seconds went by, but the clock shows five less.
            (clock(995, 60, 1), Some(985)),
            // It may have been set back right after the first reading.
            (clock(1005, 60, 1), Some(995)),
            // Another start of the machine, 20 s ago.
            (clock(2000, 20, 2), None),
            (clock(990, 20, 2), Some(970)),
            (clock(2000, 40, 1), Some(i64::MIN)),
        ] {
            assert_eq!(before.set_back_to(&now).map(|time| time.secs), expected, "{now:?}");
        }
        assert!(!before.is_older_than(1, &clock(1, 1, 0)) && !clock(1, 1, 0).is_older_than(1, &clock(1, 9, 0)));
        assert!(before.is_older_than(1, &clock(1, 1, 2)) && !before.is_older_than(11_000_000_000, &clock(9, 60, 1)));
        let mut bytes = Vec::new();
        before.encode(&mut bytes);
        assert_eq!(bytes.len(), CLOCK_BYTES);
        assert_eq!(Clock::decode(&mut Decoder::new(&bytes)).unwrap(), before);
        let now = Clock::now();
        assert_ne!(now.boot, [0; 16]);
        assert_eq!(now.set_back_to(&Clock::now()), None);
    }
}
