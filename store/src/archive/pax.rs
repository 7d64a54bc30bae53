//! The parts of the tar format that both directions share: PAX records, numbers, times.

use crate::tree::Time;

/// Length of a tar block.
pub(super) const BLOCK: usize = 512;

/// Appends a PAX record: its own length in decimal, a space, key, `=`, value, newline.
pub(super) fn put_record(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    out.extend_from_slice(length.to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// The records of a PAX header; nothing if they do not parse.
pub(super) fn records(mut bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().take(20).position(|&b| b == b' ')?;
        let length: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
        let record = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|&b| b == b'=')?;
        found.push((&record[..equals], &record[equals + 1..]));
        bytes = &bytes[length..];
    }
    Some(found)
}

/// A time as PAX writes it: decimal seconds, with a fraction where there is one.
pub(super) fn time_text(time: Time) -> String {
    let total = i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
    let sign = if total < 0 { "-" } else { "" };
    let (secs, nanos) = (total.unsigned_abs() / 1_000_000_000, total.unsigned_abs() % 1_000_000_000);
    if nanos == 0 { format!("{sign}{secs}") } else { format!("{sign}{secs}.{nanos:09}") }
}

/// Reads what [`time_text`] and other programs write. More digits than nanoseconds have are cut.
pub(super) fn parse_time(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (secs, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) || !secs.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let total = i128::from(secs.parse::<u64>().ok()?) * 1_000_000_000 + i128::from(nanos.parse::<u32>().ok()?);
    let total = if negative { -total } else { total };
    let secs = i64::try_from(total.div_euclid(1_000_000_000)).ok()?;
    Some(Time { secs, nanos: total.rem_euclid(1_000_000_000) as u32 })
}

/// An xattr's name as a PAX key may hold it: `%` and `=` are escaped, as GNU tar does.
pub(super) fn escape_xattr(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for &b in name {
        match b {
            b'%' => out.extend_from_slice(b"%25"),
            b'=' => out.extend_from_slice(b"%3D"),
            b => out.push(b),
        }
    }
    out
}

/// The inverse of [`escape_xattr`]; other `%` stay.
pub(super) fn unescape_xattr(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut at = 0;
    while at < name.len() {
        let (byte, length) = match name.get(at..at + 3) {
            Some(b"%25") => (b'%', 3),
            Some(b"%3D") => (b'=', 3),
            _ => (name[at], 1),
        };
        out.push(byte);
        at += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_round_trip(list in proptest::collection::vec(("[a-zA-Z.]{1,20}", proptest::collection::vec(any::<u8>(), 0..1200)), 0..5)) {
            let mut bytes = Vec::new();
            for (key, value) in &list {
                put_record(&mut bytes, key.as_bytes(), value);
            }
            let expected: Vec<(&[u8], &[u8])> = list.iter().map(|(k, v)| (k.as_bytes(), &v[..])).collect();
            prop_assert_eq!(records(&bytes), Some(expected));
        }

        #[test]
        fn any_bytes_parse_or_fail_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = records(&bytes);
            let _ = parse_time(&bytes);
            let _ = unescape_xattr(&bytes);
        }

        #[test]
        fn times_round_trip(secs in any::<i32>(), nanos in 0u32..1_000_000_000) {
            let time = Time { secs: i64::from(secs), nanos };
            prop_assert_eq!(parse_time(time_text(time).as_bytes()), Some(time));
        }

        #[test]
        fn xattr_names_round_trip(name in proptest::collection::vec(prop_oneof![Just(b'%'), Just(b'='), any::<u8>()], 0..12)) {
            let escaped = escape_xattr(&name);
            prop_assert!(!escaped.contains(&b'='));
            prop_assert_eq!(unescape_xattr(&escaped), name);
        }
    }

    #[test]
    fn a_time_before_1970_is_one_negative_number() {
        assert_eq!(time_text(Time { secs: -5, nanos: 7 }), "-4.999999993");
        assert_eq!(time_text(Time { secs: -5, nanos: 0 }), "-5");
        assert_eq!(parse_time(b"1.5x"), None);
    }
}
