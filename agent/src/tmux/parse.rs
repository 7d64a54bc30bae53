//! Reading what tmux prints: each field stands behind its length in bytes, so that a name may hold any character.

use std::fmt::Write;

use crate::error::{Error, Result};

/// The format that prints these variables, each behind its length.
pub(super) fn format(variables: &[&str]) -> String {
    variables.iter().fold(String::new(), |mut text, name| {
        let _ = write!(text, "#{{n:{name}}}:#{{{name}}}");
        text
    })
}

/// The lines that tmux printed for a [`format()`] of `COUNT` variables.
pub(super) fn lines<const COUNT: usize>(mut printed: &[u8]) -> Result<Vec<[String; COUNT]>> {
    let mut lines = Vec::new();
    while !printed.is_empty() {
        let mut line = [const { String::new() }; COUNT];
        for field in &mut line {
            let (text, rest) = take(printed).ok_or_else(unreadable)?;
            (*field, printed) = (String::from_utf8_lossy(text).into_owned(), rest);
        }
        printed = printed.strip_prefix(b"\n").ok_or_else(unreadable)?;
        lines.push(line);
    }
    Ok(lines)
}

fn take(printed: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = printed.iter().position(|b| *b == b':')?;
    let length: usize = std::str::from_utf8(&printed[..colon]).ok()?.parse().ok()?;
    printed[colon + 1..].split_at_checked(length)
}

fn unreadable() -> Error {
    Error::Program { command: "tmux".into(), reason: "it printed what this release cannot read".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let read = lines::<2>("3:a:b0:\n5:x\ny\tz2:é\n".as_bytes()).unwrap();
        assert_eq!(read, [["a:b", ""], ["x\ny\tz", "é"]].map(|line| line.map(str::to_owned)));
        for bad in ["3:ab", "x:a\n", "1:a", "99999999999999999999:a\n", "1:ab\n"] {
            assert!(lines::<1>(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
