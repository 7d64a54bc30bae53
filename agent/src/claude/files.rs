//! The files of a conversation of Claude Code beside its transcript.
//!
//! | name in a checkpoint | file |
//! |---|---|
//! | `session/…` | the folder beside the transcript: `subagents/`, `tool-results/` |
//! | `tasks/…`, `file-history/…`, `image-cache/…` | `<config>/<name>/<id>/…`: task lists, backups of edited files, images |
//! | `todos/…` | `<config>/todos/<id>*.json`: to-do lists of older releases |

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::place::slug;
use crate::transcript::{
    Located,
    files::{BESIDE, RawSet, TRANSCRIPT, is_plain},
    locate::entries,
};

/// Folders of the configuration folder with one folder a conversation.
const BY_ID: [&str; 3] = ["tasks", "file-history", "image-cache"];
const TODOS: &str = "todos";

pub(super) fn beside(located: &Located, found: &mut RawSet) {
    found.folder(&located.transcript.with_extension(""), Path::new(BESIDE));
    let Some(config) = &located.config else { return };
    for kind in BY_ID {
        found.folder(&config.join(kind).join(&located.agent_session), Path::new(kind));
    }
    for path in entries(&config.join(TODOS)).unwrap_or_default() {
        let name = path.file_name().unwrap_or_default().to_owned();
        if name.as_bytes().starts_with(located.agent_session.as_bytes()) {
            found.file(&path, Path::new(TODOS).join(name));
        }
    }
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
        let located = Located::by_session(&config, "a1").unwrap();
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
    fn names_that_lead_out_have_no_destination() {
        for bad in ["", "/etc/x", "../x", "session/../../x", "session", "transcript.jsonl/x", "other/x", "./session"] {
            let to = destination(Path::new(bad), Path::new("/c"), Path::new("/w"), "a");
            assert!(to.as_ref().is_none_or(|to| to.starts_with("/c/projects/-w/a")), "{bad}: {to:?}");
        }
    }
}
