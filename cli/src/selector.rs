//! `ID:path` on the command line. The path may be any bytes; the id is text.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use crate::exit::{Failure, Result};

/// A checkpoint, and a path in it where one was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which checkpoint.
    pub checkpoint: String,
    /// The path behind the colon.
    pub path: Option<Vec<u8>>,
}

/// Splits `ID` or `ID:path` at the first colon.
pub fn parse(text: &OsStr) -> Result<Place> {
    let bytes = text.as_bytes();
    let (id, path) = match bytes.iter().position(|&b| b == b':') {
        Some(colon) => (&bytes[..colon], Some(&bytes[colon + 1..])),
        None => (bytes, None),
    };
    let checkpoint = std::str::from_utf8(id).ok().filter(|id| !id.is_empty());
    let checkpoint = checkpoint.ok_or_else(|| Failure::Usage(format!("'{}' names no checkpoint", text.display())))?.to_owned();
    if path.is_some_and(|path| path.contains(&0) || path.split(|&b| b == b'/').any(|part| part == b"..")) {
        return Err(Failure::Usage(format!("'{}': the path must not contain '..'", text.display())));
    }
    Ok(Place { checkpoint, path: path.map(<[u8]>::to_vec) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_colon_splits() {
        let place = |id: &str, path: Option<&[u8]>| Place { checkpoint: id.into(), path: path.map(<[u8]>::to_vec) };
        assert_eq!(parse(OsStr::new("latest~2")).unwrap(), place("latest~2", None));
        assert_eq!(parse(OsStr::from_bytes(b"01AB:a:\xff")).unwrap(), place("01AB", Some(b"a:\xff")));
        assert_eq!(parse(OsStr::new("s@latest:")).unwrap(), place("s@latest", Some(b"")));
        for bad in ["", ":x", "latest:../x", "latest:a/.."] {
            assert!(parse(OsStr::new(bad)).is_err(), "{bad}");
        }
    }
}
