//! Sizes, counts, times and tables as people read them. JSON has the exact numbers.

use std::borrow::Cow;

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

/// A column is not cut to less than this.
const COLUMN_MIN: usize = 8;

/// Lines of cells, each column as wide as its widest cell. `right` names columns that are aligned to the right. Where the lines would be wider
/// than `width`, the widest columns are cut; the first one, which names what the line is about, is not.
pub fn table(rows: &[Vec<String>], right: &[usize], width: Option<usize>) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..columns).map(widest).collect();
    if let Some(most) = width {
        let between = 2 * columns.saturating_sub(1);
        while widths.iter().sum::<usize>() + between > most {
            // The last of the widest, which is prose rather than a number.
            let Some(column) = (1..columns).filter(|column| widths[*column] > COLUMN_MIN).max_by_key(|column| widths[*column])
            else {
                break;
            };
            widths[column] -= 1;
        }
    }
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let cell = cut(cell, widths[i]);
            let fill = " ".repeat(widths[i] - cell.chars().count());
            if i > 0 {
                line.push_str("  ");
            }
            if right.contains(&i) {
                line.push_str(&fill);
                line.push_str(&cell);
            } else {
                line.push_str(&cell);
                line.push_str(&fill);
            }
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The beginning of a text, with a mark where it was cut.
fn cut(text: &str, characters_max: usize) -> Cow<'_, str> {
    if text.chars().count() <= characters_max {
        return text.into();
    }
    let kept: String = text.chars().take(characters_max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_cut_to_its_width_in_the_widest_columns() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["ID", "N", "MESSAGE"]), row(["01KAN7R2", "12", "a long message that goes on"])];
        assert_eq!(table(&rows, &[1], None)[1], "01KAN7R2  12  a long message that goes on");
        assert_eq!(table(&rows, &[1], Some(30))[1], "01KAN7R2  12  a long message…");
        assert_eq!(table(&rows, &[1], Some(5))[1], "01KAN7R2  12  a long…", "an id is not cut");
    }

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
    }

    #[test]
    fn odd_times_are_shown_all_the_same() {
        assert_eq!(file_time(Time { secs: i64::MAX, nanos: 0 }), format!("@{}", i64::MAX));
    }
}
