//! The agent's own folder: the one that its environment names, and how it finds that again in another environment.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::process::canonical;

/// Names the folder itself.
const CONFIG: &str = "CLAUDE_CONFIG_DIR";
/// Names the folder in which it is otherwise.
const HOME: &str = "HOME";
/// What it is called there.
const IN_HOME: &str = ".claude";

/// The agent's own folder, and the variable that names it: which files the agent looks for beside it depends on that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFolder {
    /// The folder.
    #[serde(with = "parhelia_name::shown")]
    pub path: PathBuf,
    /// `CLAUDE_CONFIG_DIR`, or `HOME`.
    pub variable: String,
}

/// The agent's own folder, as its environment names it: `CLAUDE_CONFIG_DIR`, or `.claude` in the home folder.
pub fn config_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    ConfigFolder::of(variable).map(|found| found.path)
}

impl ConfigFolder {
    /// The one that an environment names.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let named = |path: PathBuf, variable: &str| ConfigFolder { path, variable: variable.to_owned() };
        set(CONFIG).map(|path| named(path, CONFIG)).or_else(|| set(HOME).map(|home| named(home.join(IN_HOME), HOME)))
    }

    /// The one that a transcript lies in.
    pub fn of_transcript(path: &Path) -> Option<Self> {
        let folder = path.parent()?.parent().filter(|projects| projects.ends_with("projects"))?.parent()?;
        let variable = if folder.ends_with(IN_HOME) { HOME } else { CONFIG };
        Some(ConfigFolder { path: folder.to_owned(), variable: variable.to_owned() })
    }

    /// Whether it is the same folder, found in the same way.
    pub fn is_same(&self, other: &Self) -> bool {
        self.variable == other.variable && canonical(&self.path) == canonical(&other.path)
    }

    /// The variables with which the agent finds it, where `here` is what it would find: a value, or none for one that must not be set.
    pub fn environment(&self, here: Option<&Self>) -> Vec<(String, Option<OsString>)> {
        if here.is_some_and(|here| here.is_same(self)) {
            return Vec::new();
        }
        let home = self.path.parent().filter(|_| self.variable == HOME && self.path.ends_with(IN_HOME));
        match home {
            Some(home) => vec![(CONFIG.into(), None), (HOME.into(), Some(home.into()))],
            None => vec![(CONFIG.into(), Some(self.path.clone().into()))],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Option<ConfigFolder> {
        ConfigFolder::of(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v)))
    }

    #[test]
    fn it_is_what_the_environment_says() {
        let path = |pairs: &[(&str, &str)]| of(pairs).map(|found| found.path);
        assert_eq!(path(&[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c")]), Some("/c".into()));
        assert_eq!(path(&[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "")]), Some("/h/.claude".into()));
        assert_eq!(path(&[("HOME", ""), ("CLAUDE_CONFIG_DIR", "")]), None);
        assert_eq!(path(&[]), None);
    }

    #[test]
    fn another_environment_is_made_to_name_it() {
        let (by_home, by_name) = (of(&[("HOME", "/h")]).unwrap(), of(&[("CLAUDE_CONFIG_DIR", "/c")]).unwrap());
        assert!(by_home.environment(Some(&by_home)).is_empty());
        let home = [("CLAUDE_CONFIG_DIR".to_owned(), None), ("HOME".to_owned(), Some("/h".into()))];
        let other = of(&[("HOME", "/other")]);
        for here in [Some(&by_name), other.as_ref(), None] {
            assert_eq!(by_home.environment(here), home);
        }
        // The same folder, but the agent keeps another file for its logins.
        assert_eq!(by_home.environment(of(&[("CLAUDE_CONFIG_DIR", "/h/.claude")]).as_ref()), home);
        assert_eq!(by_name.environment(Some(&by_home)), [("CLAUDE_CONFIG_DIR".to_owned(), Some("/c".into()))]);
    }

    #[test]
    fn a_transcript_tells_where_it_is() {
        let of = |path: &str| ConfigFolder::of_transcript(Path::new(path)).map(|found| (found.path, found.variable));
        assert_eq!(of("/h/.claude/projects/-w/id.jsonl"), Some(("/h/.claude".into(), "HOME".into())));
        assert_eq!(of("/c/projects/-w/id.jsonl"), Some(("/c".into(), "CLAUDE_CONFIG_DIR".into())));
        assert_eq!(of("/c/id.jsonl"), None);
    }
}
