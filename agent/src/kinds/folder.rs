//! The agent's own folder, and which kind of agent's it is.

use std::{ffi::OsString, path::Path};

use super::{KINDS, all};
use crate::{
    folder::{ConfigFolder, HOME},
    kind::Kind,
    process::canonical,
};

impl ConfigFolder {
    /// The one of a kind of agent that an environment names.
    pub fn of(kind: Kind, variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        Self::by(kind.folder_names(), variable)
    }

    /// The one that a transcript lies in.
    pub fn of_transcript(path: &Path) -> Option<Self> {
        let (kind, folder) = all().into_iter().rev().find_map(|kind| Some((kind, kind.located(path)?.config?)))?;
        let names = kind.folder_names();
        let variable = if folder.ends_with(names.in_home) && names.in_variable.is_none() { HOME } else { names.variable };
        Some(ConfigFolder { path: folder, variable: variable.to_owned() })
    }

    /// The kind of agent whose folder it is.
    pub fn kind(&self) -> Kind {
        let is_of = |kind: &Kind| {
            let names = kind.folder_names();
            // Several programs may have folders in the one that a variable names.
            let is_in_it = self.variable == names.variable && names.in_variable.is_none_or(|inside| self.path.ends_with(inside));
            is_in_it || self.variable == HOME && self.path.ends_with(names.in_home)
        };
        all().into_iter().find(is_of).unwrap_or(KINDS[0])
    }

    /// True if it is the same folder, found in the same way. A variable that names a folder around it is no other way than `HOME`.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_way =
            self.variable == other.variable || self.kind() == other.kind() && self.kind().folder_names().in_variable.is_some();
        is_way && canonical(&self.path) == canonical(&other.path)
    }

    /// The variables with which the agent finds it, where `here` is what it would find: a value, or none for one that must not be set.
    pub fn environment(&self, here: Option<&Self>) -> Vec<(String, Option<OsString>)> {
        if here.is_some_and(|here| here.is_same(self)) {
            return Vec::new();
        }
        let names = self.kind().folder_names();
        if let Some(inside) = names.in_variable {
            let around = self.path.ancestors().nth(Path::new(inside).components().count()).unwrap_or(&self.path);
            return vec![(names.variable.into(), Some(around.into()))];
        }
        let home = self.path.ancestors().nth(Path::new(names.in_home).components().count());
        let home = home.filter(|_| self.variable == HOME && self.path.ends_with(names.in_home));
        let own = |value: Option<OsString>| (!names.variable.is_empty()).then(|| (names.variable.to_owned(), value));
        match home {
            Some(home) => own(None).into_iter().chain([(HOME.into(), Some(home.into()))]).collect(),
            None => own(Some(self.path.clone().into())).into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Option<ConfigFolder> {
        ConfigFolder::of(KINDS[0], |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v)))
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
