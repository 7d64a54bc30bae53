//! The command line by which the agent calls us.

use std::path::{Path, PathBuf};

use parhelia_name::NameExt as _;

use crate::error::{Error, Result};

/// The command of a hook, as it stands in the agent's settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookCommand {
    /// The program; by its name alone it is looked for where the agent looks.
    pub program: PathBuf,
    /// The store, where it is not the default one.
    pub store: Option<PathBuf>,
}

impl HookCommand {
    /// Fails if a path of it cannot be written into settings, which are text.
    pub(super) fn ensure_text(&self) -> Result<()> {
        let paths = std::iter::once(&self.program).chain(&self.store);
        match paths.into_iter().find(|path| path.to_str().is_none()) {
            None => Ok(()),
            Some(path) => Err(Error::Invalid(format!(
                "cannot install hooks: {} is not UTF-8, and the agent's settings are\nGive a store and a program at other paths",
                path.shown()
            ))),
        }
    }

    /// The command of a line as it stands in settings; none where this would write another line.
    pub fn of_text(text: &str) -> Option<Self> {
        let rest = text.strip_suffix(" hook")?;
        let program = rest.split(" --store ").next()?;
        let program = program
            .strip_prefix('\'')
            .and_then(|rest| rest.strip_suffix('\''))
            .map_or_else(|| program.to_owned(), |own| own.replace(r"'\''", "'"));
        let command = HookCommand { program: program.into(), store: store_of(text) };
        (command.text() == text).then_some(command)
    }

    /// As a line for a shell.
    pub fn text(&self) -> String {
        let mut text = quoted(&self.program);
        if let Some(store) = &self.store {
            text.push_str(" --store ");
            text.push_str(&quoted(store));
        }
        text.push_str(" hook");
        text
    }
}

/// Checks whether a hook's command is one of ours, whichever program and store it names.
pub fn is_ours(command: &str) -> bool {
    let Some(rest) = command.trim().strip_suffix("hook").filter(|rest| rest.ends_with(char::is_whitespace)) else { return false };
    let program = rest.split(" --store ").next().unwrap_or_default().trim().trim_matches(['\'', '"']);
    let name = program.rsplit('/').next().unwrap_or_default();
    name == "parhelia"
}

/// The store that a hook's command names, where it names one.
pub fn store_of(command: &str) -> Option<PathBuf> {
    let (_, rest) = command.trim().strip_suffix("hook")?.trim_end().split_once(" --store ")?;
    let rest = rest.trim();
    if let Some(text) = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Some(PathBuf::from(text));
    }
    let quoted = rest.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    Some(PathBuf::from(quoted.map_or_else(|| rest.to_owned(), |text| text.replace(r"'\''", "'"))))
}

fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_commands_are_known_again() {
        for (program, store) in [
            ("parhelia", None),
            ("parhelia", Some("/srv/plain")),
            ("/usr/bin/parhelia", Some("/srv/it's a store")),
            ("/with space/parhelia", None),
        ] {
            let command = HookCommand { program: program.into(), store: store.map(PathBuf::from) };
            assert!(is_ours(&command.text()), "{}", command.text());
            assert_eq!(store_of(&command.text()), command.store, "{}", command.text());
            assert_eq!(HookCommand::of_text(&command.text()).as_ref(), Some(&command));
        }
        assert_eq!(HookCommand { program: "parhelia".into(), store: None }.text(), "parhelia hook");
        for other in ["other hook", "parhelia webhook", "parhelia", "hook", "", "echo parhelia hook", "parhelia-x hook"] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
