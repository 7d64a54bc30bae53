//! Sizes, counts and times as people read them. JSON has the exact numbers.

use jiff::{Timestamp, tz::TimeZone};
use parhelia_store::{name, tree::Time};

/// A size in binary units, with three digits that mean something.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 1023.5 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

/// A number with its digits in groups: `12,345`.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// An amount in US dollars.
pub fn cost(usd: f64) -> String {
    if usd > 0.0 && usd < 0.01 {
        return "<$0.01".to_owned();
    }
    format!("${usd:.2}")
}

/// A duration in its largest unit that says something: `30 minutes`.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..120 => count(seconds, "second"),
        120..7200 => count(seconds / 60, "minute"),
        7200..172_800 => count(seconds / 3600, "hour"),
        _ => count(seconds / 86_400, "day"),
    }
}

/// A number and its noun: `1 file`, `12,345 files`.
pub fn count(number: u64, noun: &str) -> String {
    let grouped = self::number(number);
    let plural = match noun {
        _ if number == 1 => noun.to_owned(),
        "entry" => "entries".to_owned(),
        "delivery" => "deliveries".to_owned(),
        _ => format!("{noun}s"),
    };
    format!("{grouped} {plural}")
}

/// The time since a moment, such as `5 minutes ago`; the date if that is long ago.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs();
    let unit = |n: i64, noun: &str| format!("{} ago", count(n.unsigned_abs(), noun));
    match seconds {
        i64::MIN..-5 => local(then),
        -5..5 => "just now".to_owned(),
        5..120 => unit(seconds, "second"),
        120..7200 => unit(seconds / 60, "minute"),
        7200..172_800 => unit(seconds / 3600, "hour"),
        172_800..2_592_000 => unit(seconds / 86_400, "day"),
        _ => local(then),
    }
}

/// The same for a cell of a table: `5m ago`, or the date.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs();
    match seconds {
        -5..5 => "now".to_owned(),
        5..120 => format!("{seconds}s ago"),
        120..7200 => format!("{}m ago", seconds / 60),
        7200..172_800 => format!("{}h ago", seconds / 3600),
        172_800..2_592_000 => format!("{}d ago", seconds / 86_400),
        _ => then.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string(),
    }
}

/// A time in the user's own time zone, to the second.
pub fn local(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A file's time as a timestamp, if it is one that calendars know.
pub fn timestamp(time: Time) -> Option<Timestamp> {
    let nanos = i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
    Timestamp::from_nanosecond(nanos).ok()
}

/// A file's time in the user's own time zone; seconds since 1970 where no calendar has it.
pub fn file_time(time: Time) -> String {
    timestamp(time).map_or_else(|| format!("@{}", time.secs), local)
}

/// A path as it is shown.
pub fn path(bytes: &[u8]) -> String {
    name::display(bytes)
}

/// A path as a word of a command line that is pasted into a shell.
pub fn shell(bytes: &[u8]) -> String {
    name::shell(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let expected = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (15 << 20, "15.0 MiB"),
            (1 << 40, "1.00 TiB"),
            (1_048_575, "1.00 MiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in expected {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn counts_have_their_noun() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(1_234_567, "file"), "1,234,567 files");
        assert_eq!(count(0, "entry"), "0 entries");
    }

    #[test]
    fn times_are_relative_while_that_says_more() {
        let now: Timestamp = "2026-01-16T14:35:00Z".parse().unwrap();
        let before = |seconds: i64| Timestamp::from_second(now.as_second() - seconds).unwrap();
        assert_eq!(ago(now, now), "just now");
        assert_eq!(ago(before(300), now), "5 minutes ago");
        assert_eq!(ago(before(86_400), now), "24 hours ago");
        assert!(ago(before(90 * 86_400), now).starts_with("2025-10-"));
        assert!(ago(before(-3600), now).starts_with("2026-01-"));
        assert_eq!(
            (&*age(before(20), now), &*age(before(300), now), &*age(before(86_400), now)),
            ("20s ago", "5m ago", "24h ago")
        );
        assert!(age(before(90 * 86_400), now).starts_with("2025-10-"));
    }

    #[test]
    fn odd_times_are_shown_all_the_same() {
        assert_eq!(file_time(Time { secs: i64::MAX, nanos: 0 }), format!("@{}", i64::MAX));
    }
}
