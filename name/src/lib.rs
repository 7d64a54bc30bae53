//! Names and paths are bytes. These helpers show them to people and in JSON, read them back, and join them.

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod pattern;
pub mod step;

use std::{borrow::Cow, ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

pub use pattern::{lossless, pattern};

/// A path for people and for JSON: bytes that are not printable UTF-8 are shown as `\xNN`, newlines as `\n`, a backslash as `\\`.
/// Characters that steer how text is shown count as not printable.
pub fn display(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for part in path.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                c if steers(c) => escape(&mut out, c),
                c => out.push(c),
            }
        }
        for b in part.invalid() {
            out.push_str(&format!("\\x{b:02x}"));
        }
    }
    out
}

/// Names that the operating system knows as bytes, as text for people.
pub trait NameExt {
    /// The text that [`display`] gives for it.
    fn shown(&self) -> String;
}

impl NameExt for [u8] {
    fn shown(&self) -> String {
        display(self)
    }
}

impl NameExt for OsStr {
    fn shown(&self) -> String {
        display(self.as_bytes())
    }
}

impl NameExt for Path {
    fn shown(&self) -> String {
        self.as_os_str().shown()
    }
}

/// A path as a word of a command line that is pasted into a shell. What [`display`] would escape is written as `$'…'`, which bash, zsh and
/// ksh read.
pub fn shell(path: &[u8]) -> String {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+@%:,".contains(b);
    if !path.is_empty() && path.iter().all(is_plain) {
        return String::from_utf8_lossy(path).into_owned();
    }
    let shown = display(path);
    match std::str::from_utf8(path).ok().filter(|text| shown == text.replace('\\', "\\\\")) {
        Some(text) => format!("'{}'", text.replace('\'', r"'\''")),
        None => format!("$'{}'", shown.replace('\'', r"\'")),
    }
}

/// Text for people, with every character escaped that steers how text is shown, as [`display`] escapes it. Lines and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| steers(c) && c != '\n' && c != '\t';
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| if is_bad(c) { escape(&mut out, c) } else { out.push(c) });
    Cow::Owned(out)
}

/// True if a character is invisible and changes how a terminal shows what is around it: control characters, marks of writing direction,
/// zero-width characters, separators of lines and paragraphs, tags.
fn steers(c: char) -> bool {
    let is_format = |c| {
        matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    c.is_control() || !c.is_ascii() && is_format(c)
}

fn escape(out: &mut String, c: char) {
    c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| out.push_str(&format!("\\x{b:02x}")));
}

/// The bytes that [`display`] shows as this text.
pub fn parse(shown: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let byte = escape.strip_prefix('x').and_then(|hex| lower_hex(hex.get(..2)?));
        let (byte, length) = match (escape.bytes().next(), byte) {
            (Some(b'n'), _) => (b'\n', 1),
            (_, Some(byte)) => (byte, 3),
            (Some(b'\\'), _) => (b'\\', 1),
            _ => (b'\\', 0),
        };
        out.push(byte);
        rest = &escape[length..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// The byte of two hex digits. One spelling names one byte: capital letters are refused.
fn lower_hex(digits: &str) -> Option<u8> {
    let is_ours = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    digits.bytes().all(is_ours).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// `folder/name`, or `name` where the folder is the root.
pub fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() {
        return name.to_vec();
    }
    let mut path = Vec::with_capacity(folder.len() + 1 + name.len());
    path.extend_from_slice(folder);
    path.push(b'/');
    path.extend_from_slice(name);
    path
}

/// The components of a path inside a checkpoint; empty ones and `.` are passed over.
pub fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// A path inside a checkpoint, then the folders that it lies in, from the innermost to the root.
pub fn with_folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let above = |path: &&'_ [u8]| path.iter().rposition(|&b| b == b'/').unwrap_or(0);
    std::iter::successors(Some(path), move |path| (!path.is_empty()).then(|| &path[..above(path)]))
}

/// The extension of a name, without the dot; empty where there is none.
pub fn extension(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&b| b == b'.') {
        Some(dot) if dot > 0 => &name[dot + 1..],
        _ => &[],
    }
}

/// Bytes as a path of the operating system.
pub fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Paths in JSON, for `#[serde(with = ...)]`: as [`display`] shows them, since JSON has no other way to say every path.
pub mod shown {
    use std::{ops::Deref, path::PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    use super::NameExt;

    /// Writes a path.
    pub fn serialize<P: Deref<Target: NameExt>, S: Serializer>(path: &P, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&path.shown())
    }

    /// Reads a path.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(super::as_path(&super::parse(&String::deserialize(deserializer)?)).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_in_each_folder_above_and_in_the_root() {
        let above = |path: &'static str| with_folders(path.as_bytes()).map(display).collect::<Vec<_>>();
        assert_eq!(above("a/bc/d"), ["a/bc/d", "a/bc", "a", ""]);
        assert_eq!(above("a"), ["a", ""]);
        assert_eq!(above(""), [""]);
    }

    #[test]
    fn odd_names_are_shown_without_ambiguity() {
        assert_eq!(display(b"a\nb\\\xff\x1b"), "a\\nb\\\\\\xff\\x1b");
        assert_eq!(display("ä".as_bytes()), "ä");
    }

    #[test]
    fn what_steers_a_terminal_is_shown_escaped() {
        let marks = "\u{7}\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{e0041}";
        for mark in marks.chars() {
            let (name, bytes) = (format!("a{mark}b"), mark.to_string().into_bytes());
            let escaped: String = bytes.iter().map(|b| format!("\\x{b:02x}")).collect();
            assert_eq!(display(name.as_bytes()), format!("a{escaped}b"));
            assert_eq!(printable(&name), format!("a{escaped}b"));
            assert_eq!(parse(&display(name.as_bytes())), name.as_bytes());
        }
        let plain = "two\tcolumns\nä 漢字 ❤️ \\ עברית";
        assert_eq!(printable(plain), plain);
        assert_eq!(display("漢字 ❤️ עברית".as_bytes()), "漢字 ❤️ עברית");
    }

    #[test]
    fn words_for_a_shell_are_quoted_where_they_must_be() {
        for (path, word) in [
            (&b"/a/b-1_2.c@d%e+f:g,h"[..], "/a/b-1_2.c@d%e+f:g,h"),
            (b"", "''"),
            (b"/a b", "'/a b'"),
            (b"/it's", r"'/it'\''s'"),
            (b"/a;rm $(x) `y` \"z\" ~ * & | < > # !", "'/a;rm $(x) `y` \"z\" ~ * & | < > # !'"),
            (b"/back\\slash", r"'/back\slash'"),
            ("/\u{e4}".as_bytes(), "'/\u{e4}'"),
            (b"/a\nb's\\", r"$'/a\nb\'s\\'"),
            (b"/\xff1\x1b", r"$'/\xff1\x1b'"),
        ] {
            assert_eq!(shell(path), word);
            let read = std::process::Command::new("bash").args(["-c", &format!("printf %s {word}")]).output().unwrap();
            assert_eq!(read.stdout, path, "{word}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_back() {
        assert_eq!(parse(r"\x4A\q"), br"\x4A\q");
        for bytes in [&b"/plain/path"[..], b"a\nb\\\xff\x1b\\n\\x41", "\u{e4}\u{85}".as_bytes()] {
            assert_eq!(parse(&display(bytes)), bytes);
        }
    }

    #[test]
    fn extensions() {
        assert_eq!(extension(b"a.tar.gz"), b"gz");
        assert_eq!(extension(b".profile"), b"");
    }
}
