//! Points in time on the command line: `2h`, `3 days`, `2026-01-16`, `2026-01-16 14:35`, RFC 3339.

use jiff::{Span, Timestamp, civil::DateTime, tz::TimeZone};
use parhelia_store::clock;

/// The time that a text names: a date and time here, or so long before now.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    at(text, clock::timestamp(), TimeZone::system())
}

fn at(text: &str, now: Timestamp, zone: TimeZone) -> Result<Timestamp, String> {
    let text = text.trim();
    let bad =
        || "give a time such as 2026-01-16, '2026-01-16 14:35' or 2026-01-16T14:35:00Z, or an age such as 30m, 2h, 3d".to_owned();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(span) = text.parse::<Span>() {
        return now.to_zoned(zone).checked_sub(span.abs()).map(|zoned| zoned.timestamp()).map_err(|_| bad());
    }
    let local = text.parse::<DateTime>().map_err(|_| bad())?;
    local.to_zoned(zone).map(|zoned| zoned.timestamp()).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ages_are_understood() {
        let now: Timestamp = "2026-01-16T14:35:00Z".parse().unwrap();
        for (text, expected) in [
            ("2h", "2026-01-16T12:35:00Z"),
            ("3 days", "2026-01-13T14:35:00Z"),
            ("1 day ago", "2026-01-15T14:35:00Z"),
            ("2026-01-10", "2026-01-10T00:00:00Z"),
            ("2026-01-10 08:30", "2026-01-10T08:30:00Z"),
            ("2026-01-10T08:30:00+02:00", "2026-01-10T06:30:00Z"),
        ] {
            assert_eq!(at(text, now, TimeZone::UTC).map(|time| time.to_string()), Ok(expected.to_owned()), "{text}");
        }
        for bad in ["", "yesterday", "12", "2026-13-01", "999999y"] {
            assert!(at(bad, now, TimeZone::UTC).is_err(), "{bad}");
        }
    }
}
