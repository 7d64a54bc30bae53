//! Rollouts: `<config>/sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`, one file for a conversation, which is appended to when it is resumed.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    error::Result,
    id::is_conversation_id,
    process::canonical,
    regular::{self, entries},
};

const SESSIONS: &str = "sessions";
/// No first record is longer: it has the agent's instructions in it.
const FIRST_BYTES_MAX: u64 = 16 << 20;
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

/// The files of all conversations, ordered.
fn all(config: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![config.join(SESSIONS)];
    // Years, months, days, files.
    for _ in 0..4 {
        let below: Result<Vec<Vec<PathBuf>>> = found.iter().map(|folder| entries(folder)).collect();
        found = below?.concat();
    }
    Ok(found)
}

/// All rollouts of a conversation, ordered.
pub(super) fn copies(config: &Path, conversation: &str) -> Result<Vec<PathBuf>> {
    let is_its = |path: &PathBuf| conversation_of(path) == Some(conversation) && path.is_file();
    Ok(all(config)?.into_iter().filter(is_its).collect())
}

/// Rollouts of conversations that began in a folder at this time or later: those that were changed since, and whose first record names the
/// folder and a later time.
pub(super) fn begun_since(config: &Path, since: SystemTime, folder: &Path) -> Result<Vec<PathBuf>> {
    let folder = canonical(folder);
    let is_changed = |path: &PathBuf| path.metadata().and_then(|found| found.modified()).is_ok_and(|time| time >= since);
    let is_its = |path: &PathBuf| {
        let Some((cwd, began)) = beginning(path) else { return false };
        canonical(&cwd) == folder && SystemTime::from(began) >= since
    };
    Ok(all(config)?.into_iter().filter(|path| conversation_of(path).is_some() && is_changed(path) && is_its(path)).collect())
}

/// The folder in which a conversation began, and when, by the first record of its rollout.
fn beginning(rollout: &Path) -> Option<(PathBuf, Timestamp)> {
    let mut line = String::new();
    BufReader::new(regular::open(rollout).ok()?).take(FIRST_BYTES_MAX).read_line(&mut line).ok()?;
    let record: Value = serde_json::from_str(&line).ok()?;
    Some((record["payload"]["cwd"].as_str()?.into(), record["payload"]["timestamp"].as_str()?.parse().ok()?))
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
    fn what_began_in_a_folder_is_told_from_what_went_on() {
        let folder = tempfile::tempdir().unwrap();
        let write = |id: &str, cwd: &str, at: &str| {
            let path = path(folder.path(), id);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let record = serde_json::json!({ "type": "session_meta", "payload": { "id": id, "cwd": cwd, "timestamp": at } });
            std::fs::write(&path, format!("{record}\n")).unwrap();
            path
        };
        let id = |n: u32| format!("01a2154c-22b6-70b1-b7fb-bf069e4647a{n}");
        let ours = write(&id(1), "/w", "2026-11-26T00:00:05Z");
        write(&id(2), "/w", "2026-11-25T00:00:00Z");
        write(&id(3), "/other", "2026-11-26T00:00:05Z");
        std::fs::write(path(folder.path(), &id(4)), "{\"torn").unwrap();
        let since: Timestamp = "2026-11-26T00:00:00Z".parse().unwrap();
        let found = |since: Timestamp| begun_since(folder.path(), since.into(), Path::new("/w")).unwrap();
        assert_eq!(found(since), [ours]);
        assert!(found("2200-01-01T00:00:00Z".parse().unwrap()).is_empty());
    }

    #[test]
    fn other_names_are_no_rollouts() {
        for name in ["a.jsonl", "rollout-.jsonl", "rollout-é.jsonl", &format!("rollout-x-{ID}.json"), &format!("{ID}.jsonl")] {
            assert_eq!(conversation_of(Path::new(name)), None, "{name}");
        }
        assert_eq!(config_of(Path::new("/a/b.jsonl")), None);
    }
}
