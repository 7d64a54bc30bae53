//! The files of a conversation of Claude Code beside its transcript.
//!
//! | name in a checkpoint | file |
//! |---|---|
//! | `session/…` | the folder beside the transcript: `subagents/`, `tool-results/` |
//! | `tasks/…`, `file-history/…`, `image-cache/…` | `<config>/<name>/<id>/…`: task lists, backups of edited files, images |
//! | `memory/…` | `<config>/projects/<folder>/memory/…`: what the agent has noted of the project |
//! | `plans/…` | `<config>/plans/<name>*.md`: plans of the conversation, by the name that its records have |
//! | `todos/…` | `<config>/todos/<id>*.json`: to-do lists of older releases |

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read, Seek, SeekFrom},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::place::slug;
use crate::{
    kind::TranscriptLocation,
    regular::{self, entries},
    transcript::raw::{BESIDE, RawSet, TRANSCRIPT, is_plain},
};

/// Folders of the configuration folder with one folder a conversation.
const BY_ID: [&str; 3] = ["tasks", "file-history", "image-cache"];
const TODOS: &str = "todos";
/// The folder of a project's notes, beside its conversations. Other conversations have them, too.
const MEMORY: &str = "memory";
/// No more of them is captured, in files and in bytes: the agent reads them whole at each start, so that they are short.
const MEMORY_FILES_MAX: usize = 64;
const MEMORY_BYTES_MAX: u64 = 1 << 20;
const PLANS: &str = "plans";
/// Bytes that are read of a transcript's end: every record there has the name of the conversation's plan.
const TAIL_BYTES: u64 = 256 << 10;

pub(super) fn beside(located: &TranscriptLocation, found: &mut RawSet) {
    found.folder(&located.transcript.with_extension(""), Path::new(BESIDE));
    let Some(config) = &located.config else { return };
    for kind in BY_ID {
        found.folder(&config.join(kind).join(&located.agent_session), Path::new(kind));
    }
    memory(located, found);
    plans(located, config, found);
    for path in entries(&config.join(TODOS)).unwrap_or_default() {
        let name = path.file_name().unwrap_or_default().to_owned();
        if name.as_bytes().starts_with(located.agent_session.as_bytes()) {
            found.file(&path, Path::new(TODOS).join(name));
        }
    }
}

/// Adds the notes of the project.
fn memory(located: &TranscriptLocation, found: &mut RawSet) {
    let Some(folder) = located.transcript.parent().map(|project| project.join(MEMORY)) else { return };
    let mut left = MEMORY_BYTES_MAX;
    for path in entries(&folder).unwrap_or_default().into_iter().take(MEMORY_FILES_MAX) {
        let length = path.symlink_metadata().ok().filter(fs::Metadata::is_file).map_or(u64::MAX, |metadata| metadata.len());
        if length <= left {
            left -= length;
            found.file(&path, Path::new(MEMORY).join(path.file_name().unwrap_or_default()));
        }
    }
}

/// Adds the plans of the conversation.
fn plans(located: &TranscriptLocation, config: &Path, found: &mut RawSet) {
    let names = plan_names(&located.transcript).unwrap_or_default();
    if names.is_empty() {
        return;
    }
    for path in entries(&config.join(PLANS)).unwrap_or_default() {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_its = |name: &String| stem == *name || stem.strip_prefix(&**name).is_some_and(|rest| rest.starts_with('-'));
        if path.extension().is_some_and(|end| end == "md") && names.iter().any(is_its) {
            found.file(&path, Path::new(PLANS).join(path.file_name().unwrap_or_default()));
        }
    }
}

/// The names of plans that the last records of a transcript have.
fn plan_names(transcript: &Path) -> io::Result<BTreeSet<String>> {
    let mut file = regular::open(transcript)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let has_name = |line: &&[u8]| line.windows(8).any(|part| part == b"\"slug\":\"");
    let records =
        tail.split(|byte| *byte == b'\n').filter(has_name).filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    Ok(records.filter_map(|record| record["slug"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)).collect())
}

/// True of a file that other conversations have, too: it is put back only where it is missing.
pub(super) fn is_shared(name: &Path) -> bool {
    name.starts_with(MEMORY)
}

pub(super) fn destination(name: &Path, config: &Path, folder: &Path, agent_session: &str) -> Option<PathBuf> {
    if !is_plain(name) {
        return None;
    }
    let project = config.join("projects").join(slug(folder));
    let mut parts = name.components();
    let first = parts.next()?.as_os_str().to_str()?;
    let rest = parts.as_path();
    let has_rest = !rest.as_os_str().is_empty();
    match first {
        TRANSCRIPT if !has_rest => Some(project.join(format!("{agent_session}.jsonl"))),
        BESIDE if has_rest => Some(project.join(agent_session).join(rest)),
        MEMORY if has_rest => Some(project.join(MEMORY).join(rest)),
        PLANS if has_rest => Some(config.join(PLANS).join(rest)),
        TODOS if has_rest => Some(config.join(TODOS).join(rest)),
        kind if BY_ID.contains(&kind) && has_rest => Some(config.join(kind).join(agent_session).join(rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn everything_of_one_conversation_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join(".claude");
        let write = |path: &str, text: &str| {
            let path = config.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("projects/-w/a1.jsonl", "{}\n{\"to");
        write("projects/-w/a1/subagents/agent-x.jsonl", "{}\n{}\nt");
        write("projects/-w/a1/subagents/agent-x.meta.json", "{}");
        write("projects/-w/a1/tool-results/b.txt", "result");
        write("projects/-w/a2/tool-results/b.txt", "another's");
        write("tasks/a1/1.json", "{}");
        write("tasks/a1/.lock", "");
        write("todos/a1-agent-a1.json", "[]");
        write("todos/a2.json", "[]");
        write(".claude.json", "secret");
        std::os::unix::fs::symlink("/etc/passwd", config.join("projects/-w/a1/link")).unwrap();
        let located = TranscriptLocation::by_session(&config, "a1").unwrap();
        let set = RawSet::find(&located).unwrap();
        let found: Vec<_> = set.files.iter().map(|f| (f.name.to_str().unwrap(), f.bytes, f.torn_bytes)).collect();
        let expected = [
            ("transcript.jsonl", 3, 4),
            ("session/subagents/agent-x.jsonl", 6, 1),
            ("session/subagents/agent-x.meta.json", 2, 0),
            ("session/tool-results/b.txt", 6, 0),
            ("tasks/1.json", 2, 0),
            ("todos/a1-agent-a1.json", 2, 0),
        ];
        assert_eq!(found, expected);
        assert_eq!(set.left_out.len(), 1);
        assert_eq!(set.subagents().map(|(name, _)| name).collect::<Vec<_>>(), ["agent-x.jsonl"]);
        for file in &set.files {
            assert_eq!(destination(&file.name, &config, Path::new("/w"), "a1").as_ref(), Some(&file.source));
        }
    }

    #[test]
    fn notes_of_the_project_and_plans_of_the_conversation_belong_to_it() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join(".claude");
        let write = |path: &str, bytes: &[u8]| {
            let path = config.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("projects/-w/a1.jsonl", b"{\"slug\":\"quiet-lobster\"}\n");
        write("projects/-w/memory/MEMORY.md", b"notes");
        write("projects/-w/memory/long.md", &vec![b'x'; 2 << 20]);
        for plan in ["quiet-lobster", "quiet-lobster-agent-1", "quiet-lobsters", "other"] {
            write(&format!("plans/{plan}.md"), b"# plan");
        }
        let set = RawSet::find(&TranscriptLocation::by_session(&config, "a1").unwrap()).unwrap();
        let found: Vec<_> = set.files.iter().map(|file| file.name.to_str().unwrap()).collect();
        assert_eq!(found, ["transcript.jsonl", "memory/MEMORY.md", "plans/quiet-lobster-agent-1.md", "plans/quiet-lobster.md"]);
        for file in &set.files {
            assert_eq!(destination(&file.name, &config, Path::new("/w"), "a1").as_ref(), Some(&file.source));
        }
        assert!(is_shared(Path::new("memory/MEMORY.md")) && !is_shared(Path::new("plans/x.md")));
    }

    #[test]
    fn names_that_lead_out_have_no_destination() {
        for bad in ["", "/etc/x", "../x", "session/../../x", "session", "transcript.jsonl/x", "other/x", "./session"] {
            let to = destination(Path::new(bad), Path::new("/c"), Path::new("/w"), "a");
            assert!(to.as_ref().is_none_or(|to| to.starts_with("/c/projects/-w/a")), "{bad}: {to:?}");
        }
    }
}
