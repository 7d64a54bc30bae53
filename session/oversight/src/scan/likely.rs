//! Tests at a keyword that cost less than a rule's pattern. Each fails only where no secret of the rule can belong to that keyword: what it
//! passes is for the pattern to decide.
//!
//! A pattern sees what lies within some KiB around its keywords. A test gives up, and passes, well before it has gone so far.

use std::ops::Range;

use super::rule::Rule;

/// Bytes behind a keyword that a test looks at.
const BYTES_MAX: usize = 1024;
/// Longest name behind a keyword of a literal: `s`, a separator and `production`; and the longest text between that and a literal's quote.
const SUFFIX_BYTES: usize = 12;
const GAP_BYTES: usize = 48;

/// True if so many bytes of which tokens consist follow.
pub(super) fn is_followed(bytes: &[u8], keyword: Range<usize>, bytes_min: usize) -> bool {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.~+/=".contains(byte);
    bytes.get(keyword.end..keyword.end + bytes_min).is_some_and(|next| next.iter().all(is_of_token))
}

/// True between a hexadecimal digit and a digit.
pub(super) fn is_preceded_by_hex(bytes: &[u8], keyword: Range<usize>) -> bool {
    let before = keyword.start.checked_sub(1).and_then(|at| bytes.get(at));
    before.is_some_and(u8::is_ascii_hexdigit) && bytes.get(keyword.end).is_some_and(u8::is_ascii_digit)
}

/// True at the beginning of what may be a JSON Web Token: of its first part, behind which another one begins.
pub(super) fn is_web_token(bytes: &[u8], keyword: Range<usize>) -> bool {
    let rest = behind(bytes, keyword.end);
    let part = run(rest, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    part == BYTES_MAX || (part >= 14 && bytes[keyword].ends_with(b"J") && rest[part..].starts_with(b".eyJ"))
}

/// True behind the scheme of a URL that has a password.
pub(super) fn is_before_password(rule: &Rule, bytes: &[u8], keyword: Range<usize>) -> bool {
    let rest = behind(bytes, keyword.end);
    let user = run(rest, |byte| byte.is_ascii_alphanumeric() || b"_.%~-".contains(&byte));
    if user > 64 || rest.get(user) != Some(&b':') {
        return false;
    }
    let rest = &rest[user + 1..];
    let password = run(rest, |byte| !is_space(byte) && !b":@/\"'<>{}$`\\".contains(&byte));
    (6..=128).contains(&password) && rest.get(password) == Some(&b'@') && rule.is_secret(&rest[..password])
}

/// True behind a name that a quoted secret is assigned to.
pub(super) fn is_before_literal(rule: &Rule, bytes: &[u8], keyword: Range<usize>) -> bool {
    let rest = behind(bytes, keyword.end);
    let suffix = run(rest, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if suffix > SUFFIX_BYTES {
        return false;
    }
    let rest = &rest[suffix..];
    let is_of_gap = |byte: u8| is_space(byte) || is_quote(byte) || byte.is_ascii_alphabetic() || b"]:=>!,&".contains(&byte);
    let gap = run(&rest[..rest.len().min(GAP_BYTES)], is_of_gap);
    let quotes = rest[..gap].iter().enumerate().filter(|(_, byte)| is_quote(**byte)).map(|(at, _)| at);
    quotes.map(|quote| &rest[quote + 1..]).any(|rest| {
        let literal = run(rest, |byte| !is_space(byte) && !is_quote(byte) && byte != b'\\');
        let is_closed = rest.get(literal).is_some_and(|byte| is_quote(*byte));
        is_closed && (10..=200).contains(&literal) && rule.is_secret(&rest[..literal])
    })
}

/// True behind the name of a setting whose value is a secret.
pub(super) fn is_before_value(rule: &Rule, bytes: &[u8], keyword: Range<usize>) -> bool {
    let rest = behind(bytes, keyword.end);
    let is_blank = |byte| matches!(byte, b' ' | b'\t');
    let name = run(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let sign = name + run(&rest[name..], is_blank);
    if name > 21 || !matches!(rest.get(sign), Some(b'=' | b':')) {
        return sign == BYTES_MAX;
    }
    let begin = sign + 1 + run(&rest[sign + 1..], is_blank);
    let value = run(&rest[begin..], |byte| byte.is_ascii_alphanumeric() || b"+/=_.~!@%^*-".contains(&byte));
    // One that goes on behind what is looked at here may still end where the pattern stops looking.
    begin + value == BYTES_MAX || ((10..=200).contains(&value) && rule.is_secret(&rest[begin..begin + value]))
}

fn behind(bytes: &[u8], at: usize) -> &[u8] {
    &bytes[at..bytes.len().min(at + BYTES_MAX)]
}

/// The number of bytes at the beginning that are of a kind.
fn run(bytes: &[u8], is: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !is(*byte)).unwrap_or(bytes.len())
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// White space as patterns have it.
fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}
