//! Chats: `<config>/tmp/<project>/chats/session-<minute>-<id's beginning>.jsonl`, one file for a conversation, which is appended to when it is
//! resumed.
//!
//! Each folder that the agent works in is a project, whose name is claimed in `<config>/projects.json` and by a file `.project_root` in the
//! project's folders. Only the first record of a chat holds its whole id. A resume first begins another chat with the same id, which holds no
//! message, and then goes on in the old one.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    error::Result,
    id::{is_conversation_id, is_session_id},
    kind::TranscriptLocation,
    process::canonical,
    regular::{self, entries},
    transcript::raw::{BESIDE, RawSet, TRANSCRIPT, is_plain},
};

/// The folder of its projects, in its own.
const PROJECTS: &str = "tmp";
/// The folder of copies that it makes for its own undo, with the same projects.
const HISTORY: &str = "history";
/// The names of projects by the folders that they are in.
const REGISTRY: &str = "projects.json";
/// Names the folder of a project.
const MARKER: &str = ".project_root";
const CHATS: &str = "chats";
const TOOL_OUTPUTS: &str = "tool-outputs";
/// Plans, tasks and trackers of a conversation, by their name in a checkpoint.
const WORK: &str = "work";
const SUBAGENTS: &str = "subagents";
/// Characters of an id in the name of its chat.
const SHORT_CHARACTERS: usize = 8;
/// The minute in the name of a chat whose own is not known.
const SOME_MINUTE: &str = "1970-01-01T00-00";
/// No first record is longer, and so much of a chat is searched for a message.
const BEGINNING_BYTES_MAX: u64 = 4 << 20;
const REGISTRY_BYTES_MAX: u64 = 16 << 20;
const MARKER_BYTES_MAX: u64 = 64 << 10;

#[derive(Default, Deserialize)]
struct Registry {
    projects: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct First {
    #[serde(rename = "sessionId")]
    session_id: String,
}

/// A conversation by the path of its chat.
pub(super) fn conversation_of(path: &Path) -> Option<String> {
    let name = path.file_name().and_then(OsStr::to_str).filter(|name| name.starts_with("session-"))?;
    let stem = name.strip_suffix(".jsonl").filter(|stem| is_session_id(stem))?;
    path.parent().filter(|folder| folder.ends_with(CHATS))?;
    // No conversation has the name of a chat that cannot be read.
    Some(first_id(path).unwrap_or_else(|| stem.to_owned()))
}

/// The agent's own folder that a chat lies in.
pub(super) fn config_of(path: &Path) -> Option<&Path> {
    path.ancestors().nth(3).filter(|projects| projects.ends_with(PROJECTS))?.parent()
}

/// The project's folder that a chat lies in.
fn project_of(path: &Path) -> Option<&Path> {
    path.parent()?.parent()
}

fn beginning(chat: &Path) -> Option<impl BufRead> {
    Some(BufReader::new(regular::open(chat).ok()?.take(BEGINNING_BYTES_MAX)))
}

fn first_id(chat: &Path) -> Option<String> {
    let mut line = String::new();
    beginning(chat)?.read_line(&mut line).ok()?;
    serde_json::from_str::<First>(&line).ok().map(|first| first.session_id).filter(|id| is_session_id(id))
}

/// True if a message stands in the beginning of a chat.
fn has_message(chat: &Path) -> bool {
    let Some(mut input) = beginning(chat) else { return false };
    let mut line = Vec::new();
    while let Ok(1..) = input.read_until(b'\n', &mut line) {
        if line.starts_with(b"{\"id\":") {
            return true;
        }
        line.clear();
    }
    false
}

fn short(conversation: &str) -> &str {
    conversation.get(..SHORT_CHARACTERS).unwrap_or(conversation)
}

/// All chats of a conversation, ordered; those without a message only where there is no other.
pub(super) fn copies(config: &Path, conversation: &str) -> Result<Vec<PathBuf>> {
    let end = format!("-{}.jsonl", short(conversation));
    let mut found = Vec::new();
    for project in entries(&config.join(PROJECTS))? {
        let is_named = |path: &PathBuf| path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.ends_with(&end));
        let chats = entries(&project.join(CHATS))?.into_iter().filter(is_named);
        found.extend(chats.filter(|path| conversation_of(path).as_deref() == Some(conversation) && path.is_file()));
    }
    if found.iter().any(|chat| has_message(chat)) {
        found.retain(|chat| has_message(chat));
    }
    Ok(found)
}

/// The place of a conversation's chat, for an agent that works in `folder`: where it is there already, else under a name of ours.
pub(super) fn place(config: &Path, folder: &Path, conversation: &str) -> PathBuf {
    let chats = project(config, folder).join(CHATS);
    let there = copies(config, conversation).unwrap_or_default();
    let there = there.into_iter().rfind(|path| path.parent() == Some(&chats));
    there.unwrap_or_else(|| chats.join(format!("session-{SOME_MINUTE}-{}.jsonl", short(conversation))))
}

/// The folder of the project that the agent takes a folder for, or will take it for.
fn project(config: &Path, folder: &Path) -> PathBuf {
    let folder = canonical(folder);
    let projects = config.join(PROJECTS);
    let bases = [projects.clone(), config.join(HISTORY)];
    let owner = |base: &Path, name: &str| owner(&base.join(name));
    let is_its = |owner: &str| Path::new(owner.trim()) == folder;
    let registry = regular::read(&config.join(REGISTRY), REGISTRY_BYTES_MAX).ok();
    let registry: Registry = registry.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let registered = folder.to_str().and_then(|folder| registry.projects.get(folder)).filter(|name| is_name(name));
    if let Some(name) = registered
        && bases.iter().all(|base| owner(base, name).is_none_or(|owner| is_its(&owner)))
    {
        return projects.join(name);
    }
    let marked = |base: &PathBuf| {
        let found = entries(base).unwrap_or_default();
        found.into_iter().find(|path| self::owner(path).is_some_and(|owner| is_its(&owner)))
    };
    if let Some(name) = bases.iter().find_map(marked).as_deref().and_then(Path::file_name) {
        return projects.join(name);
    }
    let name = name_for(&folder);
    let is_free = |name: &String| {
        !registry.projects.values().any(|taken| taken == name) && bases.iter().all(|base| owner(base, name).is_none())
    };
    let numbered = (1u32..).map(|number| format!("{name}-{number}"));
    projects.join(std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or_default())
}

/// The folder that a project's folder is for.
fn owner(project: &Path) -> Option<String> {
    String::from_utf8(regular::read(&project.join(MARKER), MARKER_BYTES_MAX).ok()?).ok()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The name that the agent gives to the project in a folder, where no other has it.
fn name_for(folder: &Path) -> String {
    let base = folder.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let parts: Vec<&str> = base.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "project".into() } else { parts.join("-") }
}

/// Adds the files of a conversation beside its chat.
///
/// | name in a checkpoint | file in the project's folder |
/// |---|---|
/// | `session/subagents/…` | `chats/<id>/…` |
/// | `work/…` | `<id>/…`: plans, tasks, trackers; only where the id is a UUID |
/// | `tool-outputs/…` | `tool-outputs/session-<id>/…` |
pub(super) fn beside(located: &TranscriptLocation, found: &mut RawSet) {
    let Some(project) = project_of(&located.transcript).filter(|_| located.config.is_some()) else { return };
    for (name, folder) in folders(project, &located.agent_session) {
        found.folder(&folder, &name);
    }
}

fn folders(project: &Path, conversation: &str) -> Vec<(PathBuf, PathBuf)> {
    let mut folders = vec![
        (Path::new(BESIDE).join(SUBAGENTS), project.join(CHATS).join(conversation)),
        (TOOL_OUTPUTS.into(), project.join(TOOL_OUTPUTS).join(format!("session-{conversation}"))),
    ];
    // Any text can be an id on the command line, also the name of a folder that is every conversation's.
    if is_conversation_id(conversation) {
        folders.insert(1, (WORK.into(), project.join(conversation)));
    }
    folders
}

pub(super) fn destination(name: &Path, config: &Path, folder: &Path, conversation: &str) -> Option<PathBuf> {
    if name.as_os_str() == OsStr::new(TRANSCRIPT) {
        return Some(place(config, folder, conversation));
    }
    let project = project(config, folder);
    let mut folders = folders(&project, conversation).into_iter();
    let (rest, to) = folders.find_map(|(start, to)| Some((name.strip_prefix(start).ok()?, to)))?;
    (is_plain(name) && !rest.as_os_str().is_empty()).then(|| to.join(rest))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ID: &str = "8b0e0f3c-5d0c-4a52-9c0e-0d6a4a1f0c11";

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn first(id: &str) -> String {
        format!("{{\"sessionId\":\"{id}\",\"projectHash\":\"x\"}}\n")
    }

    #[test]
    fn a_chat_is_known_by_its_first_record() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join(".gemini");
        let chats = config.join("tmp/w/chats");
        let (ours, stub) =
            (chats.join("session-2026-11-26T13-07-8b0e0f3c.jsonl"), chats.join("session-2026-11-26T13-08-8b0e0f3c.jsonl"));
        write(&stub, &(first(ID) + "{\"$set\":{}}\n"));
        assert_eq!(copies(&config, ID).unwrap(), std::slice::from_ref(&stub), "there is no other");
        write(&ours, &(first(ID) + "{\"$set\":{}}\n{\"id\":\"m\",\"type\":\"user\"}\n"));
        write(&chats.join("session-2026-11-26T13-09-8b0e0f3c.jsonl"), &first("8b0e0f3c-another"));
        write(&chats.join("session-2026-11-26T13-10-8b0e0f3c.jsonl"), "");
        assert_eq!(copies(&config, ID).unwrap(), std::slice::from_ref(&ours));
        assert_eq!((conversation_of(&ours).as_deref(), config_of(&ours)), (Some(ID), Some(&*config)));
        let unread = chats.join("session-2026-11-26T13-10-8b0e0f3c.jsonl");
        assert_eq!(conversation_of(&unread).as_deref(), Some("session-2026-11-26T13-10-8b0e0f3c"));
        for other in ["tmp/w/chats/a.jsonl", "tmp/w/session-x-8b0e0f3c.jsonl", "tmp/w/chats/session-x-8b0e0f3c.json"] {
            assert_eq!(conversation_of(&config.join(other)), None, "{other}");
        }
        assert!(copies(&config, "unknown").unwrap().is_empty());
    }

    #[test]
    fn the_place_is_in_the_project_that_the_agent_takes_the_folder_for() {
        let config = tempfile::tempdir().unwrap();
        let config = config.path();
        let of = |folder: &str| project(config, Path::new(folder)).strip_prefix(config).unwrap().to_str().unwrap().to_owned();
        assert_eq!(of("/x/My Work!"), "tmp/my-work");
        assert_eq!((of("/"), of("/x/é")), ("tmp/project".into(), "tmp/project".into()));
        write(&config.join("tmp/work/.project_root"), "/other/work");
        write(&config.join("history/work-1/.project_root"), "/a/work");
        assert_eq!(
            (of("/other/work"), of("/a/work"), of("/b/work")),
            ("tmp/work".into(), "tmp/work-1".into(), "tmp/work-2".into())
        );
        write(&config.join("projects.json"), r#"{"projects":{"/b/work":"of-b","/c/work":"work","/d":"../d"}}"#);
        assert_eq!((of("/b/work"), of("/c/work"), of("/d")), ("tmp/of-b".into(), "tmp/work-2".into(), "tmp/d".into()));
        let made = place(config, Path::new("/b/work"), ID);
        assert!(made.ends_with("tmp/of-b/chats/session-1970-01-01T00-00-8b0e0f3c.jsonl"), "{}", made.display());
        let there = config.join("tmp/of-b/chats/session-2026-11-26T13-07-8b0e0f3c.jsonl");
        write(&there, &first(ID));
        assert_eq!(place(config, Path::new("/b/work"), ID), there);
        assert_ne!(place(config, Path::new("/a/work"), ID), there, "another folder's");
    }

    #[test]
    fn everything_of_one_conversation_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join(".gemini");
        let chat = config.join("tmp/w/chats/session-2026-11-26T13-07-8b0e0f3c.jsonl");
        write(&chat, &(first(ID) + "{\"to"));
        write(&config.join(format!("tmp/w/chats/{ID}/sub.jsonl")), &first("sub"));
        write(&config.join(format!("tmp/w/{ID}/plans/a.md")), "plan");
        write(&config.join(format!("tmp/w/tool-outputs/session-{ID}/o.txt")), "out");
        write(&config.join("tmp/w/tool-outputs/session-other/o.txt"), "another's");
        write(&config.join("oauth_creds.json"), "secret");
        let located = TranscriptLocation::by_session(&config, ID).unwrap();
        assert_eq!((located.kind.name(), located.config.as_deref()), ("gemini", Some(&*config)));
        let set = RawSet::find(&located).unwrap();
        let names: Vec<_> = set.files.iter().map(|file| file.name.to_str().unwrap()).collect();
        assert_eq!(names, ["transcript.jsonl", "session/subagents/sub.jsonl", "work/plans/a.md", "tool-outputs/o.txt"]);
        assert_eq!((set.files[0].torn_bytes, set.subagents().count()), (4, 1));
        write(&config.join("projects.json"), r#"{"projects":{"/w":"w"}}"#);
        for file in &set.files {
            assert_eq!(destination(&file.name, &config, Path::new("/w"), ID).as_ref(), Some(&file.source));
        }
        for shared in ["chats", "tool-outputs"] {
            let names = |folders: Vec<(PathBuf, PathBuf)>| folders.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
            let project = config.join("tmp/w");
            assert!(!names(folders(&project, shared)).contains(&WORK.into()));
            assert_eq!(destination(Path::new("work/session-x.jsonl"), &config, Path::new("/w"), shared), None, "{shared}");
        }
        for bad in ["", "/etc/x", "../x", "work", "work/../../x", "transcript.jsonl/x", "session/x", "other/x"] {
            assert_eq!(destination(Path::new(bad), &config, Path::new("/w"), ID), None, "{bad}");
        }
    }
}
