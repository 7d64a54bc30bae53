//! Names of sessions, and the workspace they are derived from.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_store::{
    name,
    name::{SESSION_BYTES_MAX, is_session},
};

use crate::exit::{Failure, OPEN_WORKSPACE, Result};

/// So much of a folder's name is taken into a session's.
const STEM_BYTES_MAX: usize = 64;

/// The absolute path of a workspace, symlinks resolved.
pub fn workspace(path: &Path) -> Result<PathBuf> {
    let failed = |source| Failure::File { action: OPEN_WORKSPACE, path: path.to_owned(), source };
    let absolute = path.canonicalize().map_err(failed)?;
    if !absolute.is_dir() {
        return Err(Failure::Usage(format!("the workspace {} is not a folder", path.display())));
    }
    Ok(absolute)
}

/// A name that the user gave, if it can be one.
pub fn checked(name: &str) -> Result<String> {
    if is_session(name) {
        return Ok(name.to_owned());
    }
    Err(Failure::Usage(format!(
        "'{name}' cannot be a session's name: give letters, digits, '.', '_' and '-', a letter or digit first, at most {SESSION_BYTES_MAX}"
    )))
}

/// The name for a workspace: the folder's, made harmless, and a short hash of its path, so that two folders of one name differ.
pub fn derived(workspace: &Path) -> String {
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
            let name = derived(Path::new(path));
            assert_eq!(checked(&name).unwrap(), name, "{path}");
        }
        assert!(derived(Path::new("/home/me/My Project (2)")).starts_with("My-Project-2-"));
        assert_ne!(derived(Path::new("/a/x")), derived(Path::new("/b/x")));
        assert!(derived(Path::new("/")).starts_with("workspace-"));
    }

    #[test]
    fn names_that_would_confuse_selectors_are_refused() {
        for bad in ["", "a:b", "a@b", "-x", ".x", "a/b", "a b", "ä", &"x".repeat(129)] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }
}
