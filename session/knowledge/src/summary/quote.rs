//! Texts of a conversation as a summary quotes them.

use std::sync::LazyLock;

use parhelia_agent::environment::redact::{self, REDACTED};
use parhelia_store::name::printable;

use parhelia_oversight::scan::Detector;

/// The most bytes of a text that are looked at.
const LOOKED_BYTES_MAX: usize = 8 << 10;

static DETECTOR: LazyLock<Detector> = LazyLock::new(Detector::default);

/// A text in one line of at most so many characters, without control characters and without what looks like a secret.
pub fn quoted(text: &str, characters_max: usize) -> String {
    let text = without_secrets(&text[..text.floor_char_boundary(LOOKED_BYTES_MAX)]);
    let line = redact::prose(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    let line = printable(&line);
    match line.char_indices().nth(characters_max) {
        Some((end, _)) => format!("{}...", line[..end].trim_end()),
        None => line.into_owned(),
    }
}

/// A text with its lines, without other control characters and without what looks like a secret.
pub(super) fn cleaned(text: &str) -> String {
    let text = redact::prose(&without_secrets(&text.replace("\r\n", "\n")));
    // Code between backticks has words of its own, such as flags.
    let code: Vec<String> = text.split('`').map(redact::prose).collect();
    printable(&code.join("`")).into_owned()
}

fn without_secrets(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for found in DETECTOR.find(PATH, text.as_bytes()) {
        out.extend_from_slice(&text.as_bytes()[at..found.secret.start]);
        out.extend_from_slice(REDACTED.as_bytes());
        at = found.secret.end;
    }
    out.extend_from_slice(&text.as_bytes()[at..]);
    String::from_utf8_lossy(&out).into_owned()
}

/// The kind of file as which a text is looked at: a command may set variables, as settings do.
const PATH: &[u8] = b".env";

/// A text in which nothing is markup but code between backticks.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let digits = digits_of_item(text);
    out.push_str(&text[..digits]);
    let mut rest = &text[digits..];
    if digits > 0 || rest.starts_with(['#', '>', '-', '+', '*', '=', '|', '~', ':']) {
        out.push('\\');
    }
    while let Some(at) = rest.find(['`', '<', ']', '!', '\\']) {
        out.push_str(&rest[..at]);
        let sign = &rest[at..=at];
        rest = &rest[at..];
        let used = match sign {
            "`" => code(rest, &mut out),
            "]" | "!" if !rest[1..].starts_with(['(', '[']) => {
                out.push_str(sign);
                1
            }
            _ => {
                out.push('\\');
                out.push_str(sign);
                1
            }
        };
        rest = &rest[used..];
    }
    out.push_str(rest);
    out
}

/// The digits of a number that would begin an item of a list.
fn digits_of_item(text: &str) -> usize {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_item = text[digits..].starts_with([')', '.']) && text[digits + 1..].starts_with(' ');
    if is_item { digits } else { 0 }
}

/// Writes code between backticks, or backticks that close nowhere as they are seen. Returns the bytes of it.
fn code(text: &str, out: &mut String) -> usize {
    let ticks = text.bytes().take_while(|byte| *byte == b'`').count();
    let fence = &text[..ticks];
    let mut from = ticks;
    while let Some(found) = text[from..].find(fence).map(|at| from + at) {
        let run = text[found..].bytes().take_while(|byte| *byte == b'`').count();
        if run == ticks {
            out.push_str(&text[..found + run]);
            return found + run;
        }
        from = found + run;
    }
    (0..ticks).for_each(|_| out.push_str("\\`"));
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_one_harmless_line() {
        assert_eq!(quoted(" a\n\tb \u{1b}[31mc", 20), "a b \\x1b[31mc");
        assert_eq!(quoted("abcdef", 3), "abc...");
        let quote = quoted("run with AWS_SECRET=1 and ghp_0123456789abcdefghijklmnopqrstuvwxyz12 now", 200);
        assert!(!quote.contains("ghp_0123") && quote.contains("[redacted]") && quote.ends_with(" now"), "{quote}");
    }

    #[test]
    fn markup_is_text_but_for_code() {
        for (text, expected) in [
            ("### Blockers", "\\### Blockers"),
            ("`a <b> c` and <b>", "`a <b> c` and \\<b>"),
            ("an open ` and <!-- x", "an open \\` and \\<!-- x"),
            ("``a ` b`` ```", "``a ` b`` \\`\\`\\`"),
            ("![x](y) [z](y) [ok] !", "\\![x\\](y) [z\\](y) [ok] !"),
            ("- item", "\\- item"),
            ("1. one", "1\\. one"),
            ("a\\b", "a\\\\b"),
        ] {
            assert_eq!(escaped(text), expected, "{text}");
        }
    }
}
