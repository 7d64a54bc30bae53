//! `ID:path` on the command line. The path may be any bytes; the id is text.

use parhelia_store::name::NameExt as _;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use parhelia_ledger::selector;
use parhelia_store::{name, record::Checkpoint};

use crate::exit::{Failure, Result};

/// A checkpoint, and a path in it where one was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The selector before the colon, such as an id, a part of one, `latest` or `tag:NAME`.
    pub checkpoint: String,
    /// The path behind the colon.
    pub path: Option<Vec<u8>>,
}

impl Selector {
    /// The path from the workspace folder of the checkpoint. An absolute path may begin with the folder that was captured.
    pub fn path_in(&self, checkpoint: &Checkpoint) -> Vec<u8> {
        let path = name::as_path(self.path.as_deref().unwrap_or_default());
        let workspace = name::parse(&checkpoint.record.workspace.path);
        let inside = path.strip_prefix(name::as_path(&workspace)).unwrap_or(path);
        name::components(inside.as_os_str().as_bytes()).collect::<Vec<_>>().join(&b'/')
    }
}

/// Splits `ID` or `ID:path` at the first colon, `tag:TAG:path` at the second.
pub fn parse(text: &OsStr) -> Result<Selector> {
    let bytes = text.as_bytes();
    let (id, path) = match selector::colon(bytes) {
        Some(colon) => (&bytes[..colon], Some(&bytes[colon + 1..])),
        None => (bytes, None),
    };
    let checkpoint = std::str::from_utf8(id).ok().filter(|id| !id.is_empty());
    let checkpoint = checkpoint.ok_or_else(|| Failure::Usage(format!("'{}' names no checkpoint", text.shown())))?.to_owned();
    if path.is_some_and(|path| path.contains(&0) || path.split(|&b| b == b'/').any(|part| part == b"..")) {
        return Err(Failure::Usage(format!("'{}': the path must not contain '..'", text.shown())));
    }
    Ok(Selector { checkpoint, path: path.map(<[u8]>::to_vec) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_colon_splits() {
        let place = |id: &str, path: Option<&[u8]>| Selector { checkpoint: id.into(), path: path.map(<[u8]>::to_vec) };
        assert_eq!(parse(OsStr::new("latest~2")).unwrap(), place("latest~2", None));
        assert_eq!(parse(OsStr::from_bytes(b"01AB:a:\xff")).unwrap(), place("01AB", Some(b"a:\xff")));
        assert_eq!(parse(OsStr::new("s@latest:")).unwrap(), place("s@latest", Some(b"")));
        assert_eq!(parse(OsStr::from_bytes(b"tag:a/b:c:\xff")).unwrap(), place("tag:a/b", Some(b"c:\xff")));
        assert_eq!(parse(OsStr::new("s@tag:a/b")).unwrap(), place("s@tag:a/b", None));
        for bad in ["", ":x", "latest:../x", "latest:a/..", "tag:x:../y"] {
            assert!(parse(OsStr::new(bad)).is_err(), "{bad}");
        }
    }
}
