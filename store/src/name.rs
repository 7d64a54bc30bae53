//! Names of entries and of sessions. How any name is shown, parsed and joined: [`parhelia_name`].

use std::borrow::Cow;

pub use parhelia_name::*;

use crate::{
    error::{Error, Result},
    format::NAME_BYTES_MAX,
};

/// True if these bytes can be one entry's name in a folder.
pub fn is_valid(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name != b"."
        && name != b".."
        && !name.iter().any(|&b| b == b'/' || b == 0)
}

/// A session's name is at most this long.
pub const SESSION_BYTES_MAX: usize = 128;

/// True if a session can have this name: letters, digits, `.`, `_` and `-`, a letter or digit first.
pub fn is_session(name: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.len() <= SESSION_BYTES_MAX && name.chars().all(is_fine)
}

/// Fails where a session cannot have this name.
pub fn check_session(name: &str) -> Result<()> {
    if is_session(name) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "'{}' cannot be a session's name: give letters, digits, '.', '_' and '-', a letter or digit first, at most {SESSION_BYTES_MAX}",
        display(name.as_bytes())
    )))
}

/// Name of a session's own file in a folder of many: the session's name, or a hash of a name that no session can have. A store that somebody
/// has forged may have those.
pub fn session_file(session: &str) -> Cow<'_, str> {
    match is_session(session) {
        true => Cow::Borrowed(session),
        false => Cow::Owned(format!("_{}", hash(session.as_bytes()))),
    }
}

/// Hex digits that stand for a name where it cannot stand itself: BLAKE3 of its bytes.
pub fn hash(name: &[u8]) -> String {
    blake3::hash(name).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangerous_names_are_invalid() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert!(!is_valid(bad), "{bad:?}");
        }
        assert!(is_valid(&[b'x'; 255]) && is_valid(b"..."));
    }

    #[test]
    fn a_session_s_file_stays_in_its_folder() {
        for fine in ["s", "work-1.2_x", &"x".repeat(128)] {
            assert_eq!(session_file(fine), fine);
        }
        let bad = ["", ".", "..", "../x", "a/b", "/a", ".hidden", "a\0b", "a\nb", &"x".repeat(129)];
        let files: std::collections::HashSet<_> = bad.iter().map(|name| session_file(name).into_owned()).collect();
        assert_eq!(files.len(), bad.len());
        assert!(files.iter().all(|file| is_valid(file.as_bytes()) && file.starts_with('_') && !is_session(file)));
    }
}
