//! Rollouts: `<config>/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, one file for a conversation, which is appended to when it is resumed.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use crate::{command::is_conversation_id, error::Result, transcript::locate::entries};

const SESSIONS: &str = "sessions";
/// Length of an id, in characters.
const ID_CHARACTERS: usize = 36;

/// The id of the conversation in a rollout, by its name.
pub(super) fn conversation_of(path: &Path) -> Option<&str> {
    let stem = path.file_stem().and_then(OsStr::to_str).filter(|_| path.extension() == Some(OsStr::new("jsonl")))?;
    let rest = stem.strip_prefix("rollout-")?;
    let id = rest.get(rest.len().checked_sub(ID_CHARACTERS)?..)?;
    is_conversation_id(id).then_some(id)
}

/// The agent's own folder that a rollout lies in.
pub(super) fn config_of(path: &Path) -> Option<&Path> {
    path.ancestors().nth(4).filter(|sessions| sessions.ends_with(SESSIONS))?.parent()
}

/// All rollouts of a conversation, ordered.
pub(super) fn copies(config: &Path, conversation: &str) -> Result<Vec<PathBuf>> {
    let mut folders = vec![config.join(SESSIONS)];
    // Years, months, days.
    for _ in 0..3 {
        let below: Result<Vec<Vec<PathBuf>>> = folders.iter().map(|folder| entries(folder)).collect();
        folders = below?.concat();
    }
    let below: Result<Vec<Vec<PathBuf>>> = folders.iter().map(|folder| entries(folder)).collect();
    let is_its = |path: &PathBuf| conversation_of(path) == Some(conversation) && path.is_file();
    Ok(below?.concat().into_iter().filter(is_its).collect())
}

/// The place of a rollout that is not there: by the time in its id (RFC 9562, version 7), in UTC.
pub(super) fn path(config: &Path, conversation: &str) -> PathBuf {
    let digits: String = conversation.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    let millis = i64::from_str_radix(&digits, 16).unwrap_or_default();
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
    let name = format!("rollout-{}-{conversation}.jsonl", time.strftime("%Y-%m-%dT%H-%M-%S"));
    config.join(SESSIONS).join(time.strftime("%Y/%m/%d").to_string()).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a2154c-22b6-70b1-b7fb-bf069e4647a8";

    #[test]
    fn a_rollout_is_found_by_its_id_wherever_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        let made = path(folder.path(), ID);
        assert!(made.ends_with(format!("sessions/2026/11/26/rollout-2026-11-26T00-40-40-{ID}.jsonl")), "{}", made.display());
        assert_eq!((conversation_of(&made), config_of(&made)), (Some(ID), Some(folder.path())));
        assert!(copies(folder.path(), ID).unwrap().is_empty());
        let other = folder.path().join(format!("sessions/2020/01/02/rollout-2020-01-02T00-00-00-{ID}.jsonl"));
        for path in [&made, &other] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}\n").unwrap();
        }
        std::fs::write(other.with_file_name("rollout-x.jsonl"), "").unwrap();
        assert_eq!(copies(folder.path(), ID).unwrap(), [other, made]);
    }

    #[test]
    fn other_names_are_no_rollouts() {
        for name in ["a.jsonl", "rollout-.jsonl", "rollout-é.jsonl", &format!("rollout-x-{ID}.json"), &format!("{ID}.jsonl")] {
            assert_eq!(conversation_of(Path::new(name)), None, "{name}");
        }
        assert_eq!(config_of(Path::new("/a/b.jsonl")), None);
    }
}
