//! Patterns over names that are not UTF-8: libraries of globs take text alone.

use std::borrow::Cow;

use super::display;

/// Text with each byte that is in no UTF-8 text as `\xNN`, as [`display`] shows it; everything else stays. A path that is matched against what
/// [`pattern`] returns has to be given so.
pub fn lossless(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.utf8_chunks().map(|part| part.valid().to_owned() + &display(part.invalid())).collect(),
    }
}

/// A glob with `\xNN` of a byte above ASCII standing for that byte, which is how paths show it. In other globs a backslash makes the
/// character behind it stand for itself.
pub fn pattern(typed: &str) -> Cow<'_, str> {
    if !typed.contains("\\x") {
        return typed.into();
    }
    let mut out = String::with_capacity(typed.len() + 2);
    for (i, part) in typed.split("\\x").enumerate() {
        if i > 0 {
            out.push_str(if is_byte(part.as_bytes()) { "\\\\x" } else { "\\x" });
        }
        out.push_str(part);
    }
    out.into()
}

fn is_byte(digits: &[u8]) -> bool {
    matches!(digits, [b'8' | b'9' | b'a'..=b'f', second, ..] if matches!(second, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_no_text_are_written_out() {
        assert_eq!(lossless(b"bad\xff\\name \xc3\xa9"), "bad\\xff\\name é");
        assert_eq!(pattern("bad\\xff*"), "bad\\\\xff*");
        assert_eq!(pattern("\\x41 \\*"), "\\x41 \\*");
    }
}
