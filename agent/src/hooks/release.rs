//! The release of an agent's program, which tells the events that it knows. Older ones refuse a file of settings whole, with the user's permissions in it,
//! if it names an event that they do not know.

use std::{ffi::OsStr, path::Path};

use crate::{kind::Kind, package::installed_version, program};

/// A release of an agent's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32, pub u32, pub u32);

impl Release {
    /// The release of a program, by where it is installed: its npm package, or the name of its file. It is not run. None where neither tells.
    pub fn of(program: &Path) -> Option<Self> {
        Self::parse(&installed_version(&program.canonicalize().ok()?)?)
    }

    /// The release of a program, by its name in `search` or by its path.
    pub fn located(program: &OsStr, search: Option<&OsStr>) -> Option<Self> {
        Self::of(&program::locate(program, search)?)
    }

    fn parse(version: &str) -> Option<Self> {
        let mut numbers = version.split(['.', '-', '+']).map(|number| number.parse().ok());
        Some(Release(numbers.next()??, numbers.next()??, numbers.next()??))
    }
}

/// The events that go into the settings of a release, and for how long the agent waits for each.
pub(super) fn events(kind: Kind, release: Option<Release>) -> impl Iterator<Item = (&'static str, u64)> {
    kind.events().iter().copied().filter(move |(event, _)| kind.knows_event(event, release))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::kinds::KINDS;

    #[test]
    fn a_release_is_told_by_the_installation() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("node_modules/@anthropic-ai/claude-code");
        fs::create_dir_all(package.join("bin")).unwrap();
        fs::write(package.join("package.json"), r#"{"name":"@anthropic-ai/claude-code","version":"2.1.77"}"#).unwrap();
        fs::write(package.join("bin/claude.exe"), "").unwrap();
        symlink(package.join("bin/claude.exe"), folder.path().join("claude")).unwrap();
        assert_eq!(Release::of(&folder.path().join("claude")), Some(Release(2, 1, 77)));
        let native = folder.path().join("versions");
        fs::create_dir(&native).unwrap();
        fs::write(native.join("2.1.332"), "").unwrap();
        assert_eq!(Release::of(&native.join("2.1.332")), Some(Release(2, 1, 332)));
        fs::write(native.join("claude"), "").unwrap();
        assert_eq!((Release::of(&native.join("claude")), Release::of(&native.join("gone"))), (None, None));
        assert_eq!(Release::parse("2.2.0-beta.1"), Some(Release(2, 2, 0)));
    }

    #[test]
    fn a_release_gets_no_event_that_it_does_not_know() {
        let has = |release: Option<Release>, event: &str| events(KINDS[0], release).any(|(name, _)| name == event);
        let expected = [
            (Some(Release(2, 0, 30)), [false, false, false, true]),
            (Some(Release(2, 1, 77)), [true, false, false, true]),
            (None, [true, true, false, true]),
            (Some(Release(2, 1, 332)), [true, true, true, true]),
        ];
        for (release, known) in expected {
            let found = ["PermissionRequest", "StopFailure", "CwdChanged", "Notification"].map(|event| has(release, event));
            assert_eq!(found, known, "{release:?}");
        }
        assert!(!has(Some(Release(9, 0, 0)), "WorktreeCreate"), "such a hook makes the working tree in the agent's place");
    }
}
