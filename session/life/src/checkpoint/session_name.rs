//! Names of sessions that folders get.

use std::{os::unix::ffi::OsStrExt, path::Path};

use parhelia_store::name::{self, is_session};

use parhelia_host::{Error, Refusal, Result};

/// So much of a folder's name is taken into a session's.
const STEM_BYTES_MAX: usize = 64;

/// A name that somebody gave, if it can be a session's.
pub fn checked_name(name: &str) -> Result<String> {
    match is_session(name) {
        true => Ok(name.to_owned()),
        false => Err(Refusal::NoSessionName { name: name.to_owned() }.into()),
    }
}

/// Fails where a text cannot be a session's name for people: it has no words, or characters that end a line.
pub fn check_given(name: &str) -> Result<()> {
    match name.trim().is_empty() || name.chars().any(char::is_control) {
        true => Err(Error::Invalid(format!(
            "'{}' cannot be a session's name: give a word or more, on one line",
            name::printable(name)
        ))),
        false => Ok(()),
    }
}

/// The name for a workspace: the folder's, made harmless, and a short hash of its path, so that two folders of one name differ.
pub fn derived_name(workspace: &Path) -> String {
    let name = workspace.file_name().unwrap_or_default().to_string_lossy();
    let mut stem = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' };
        if stem.len() < STEM_BYTES_MAX && !(c == '-' && stem.ends_with('-')) {
            stem.push(c);
        }
    }
    let stem = stem.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let stem = if stem.is_empty() { "workspace" } else { stem };
    let hash = name::hash(workspace.as_os_str().as_bytes());
    format!("{stem}-{}", &hash[..6])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_names_are_valid_and_distinct() {
        for path in ["/", "/home/me/My Project (2)", "/ä/ö", "/.hidden", "/a/-rf", &format!("/{}", "x".repeat(255))] {
            let name = derived_name(Path::new(path));
            assert_eq!(checked_name(&name).unwrap(), name, "{path}");
        }
        assert!(derived_name(Path::new("/home/me/My Project (2)")).starts_with("My-Project-2-"));
        assert_ne!(derived_name(Path::new("/a/x")), derived_name(Path::new("/b/x")));
        assert!(derived_name(Path::new("/")).starts_with("workspace-"));
    }

    #[test]
    fn names_that_would_confuse_selectors_are_refused() {
        for bad in ["", "a:b", "a@b", "-x", ".x", "a/b", "a b", "ä", &"x".repeat(129)] {
            assert!(checked_name(bad).is_err(), "{bad}");
        }
    }
}
