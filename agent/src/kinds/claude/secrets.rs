//! The agent's own credentials: files that no checkpoint takes in.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    folder::{ConfigFolder, FolderNames},
    secrets::{SecretFiles, SecretFolder},
};

/// The agent's settings, with keys and the account, in the home folder or in its configuration folder.
const SETTINGS: &str = ".claude.json";
/// Its tokens, in its configuration folder.
const CREDENTIALS: &str = ".credentials.json";
/// Suffixes of the names that the agent gives a file when it replaces it, copies it or finds it damaged.
const COPIES: [&str; 4] = ["", ".backup*", ".corrupted.*", ".tmp.*"];
/// The keys of its sessions, in this folder of its configuration folder.
const KEYS: (&str, &str) = ("sessions", "*.key");

/// The agent's credentials, wherever a workspace is: by name, and for the agent that the environment tells of, by the files themselves.
pub(super) fn secrets(own_folder: FolderNames, variable: &dyn Fn(&str) -> Option<OsString>) -> SecretFiles {
    let config =
        ConfigFolder::by(own_folder, variable).map(|found| found.path).map(|folder| folder.canonicalize().unwrap_or(folder));
    let home = variable("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let names = [SETTINGS, CREDENTIALS];
    let (folder, key) = KEYS;
    let keys = |path_end: PathBuf, beside: &[&str]| SecretFolder {
        path_end,
        beside: beside.iter().map(|name| (*name).to_owned()).collect(),
        names: vec![key.to_owned()],
    };
    let mut folders = vec![keys(Path::new(".claude").join(folder), &[]), keys(folder.into(), &names)];
    folders.extend(config.iter().map(|config| keys(config.join(folder), &[])));
    let own = home.iter().chain(&config).flat_map(|folder| names.map(|name| folder.join(name)));
    let in_folder = config.iter().flat_map(|config| fs::read_dir(config.join(folder)).into_iter().flatten().flatten());
    let own_keys = in_folder.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "key"));
    SecretFiles {
        names: names.iter().flat_map(|name| COPIES.map(|copy| format!("{name}{copy}"))).collect(),
        folders,
        files: own.chain(own_keys).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        pattern
            .split_once('*')
            .map_or(pattern == name, |(start, end)| name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)))
    }

    #[test]
    fn names_copies_and_the_agents_own_files() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("elsewhere");
        fs::create_dir_all(config.join("sessions")).unwrap();
        fs::write(config.join("sessions/1.key"), "").unwrap();
        fs::write(config.join("sessions/1.json"), "").unwrap();
        let (at_home, in_config) = (home.path().as_os_str().to_owned(), config.as_os_str().to_owned());
        let names = FolderNames { variable: "CLAUDE_CONFIG_DIR", in_home: ".claude", in_variable: None };
        let secrets = secrets(names, &|name| match name {
            "HOME" => Some(at_home.clone()),
            "CLAUDE_CONFIG_DIR" => Some(in_config.clone()),
            _ => None,
        });
        for name in [".claude.json", ".claude.json.backup", ".claude.json.backup.1", ".claude.json.tmp.1.2", ".credentials.json"]
        {
            assert!(secrets.names.iter().any(|pattern| matches(pattern, name)), "{name}");
        }
        for name in ["claude.json", ".claude.json.example", "credentials.json", "1.key", ".claude.jsonl"] {
            assert!(!secrets.names.iter().any(|pattern| matches(pattern, name)), "{name}");
        }
        let key = config.canonicalize().unwrap().join("sessions/1.key");
        assert!(secrets.files.contains(&key) && secrets.files.contains(&home.path().join(".claude.json")));
        assert!(!secrets.files.iter().any(|path| path.ends_with("1.json")));
    }
}
