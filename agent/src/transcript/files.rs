//! The raw files of a conversation: which there are, how much of each is kept, and where each goes when it is brought back.
//!
//! | name in a checkpoint | file |
//! |---|---|
//! | `transcript.jsonl` | the transcript |
//! | `session/…` | the folder beside it: `subagents/`, `tool-results/` |
//! | `tasks/…`, `file-history/…`, `image-cache/…` | `<config>/<name>/<id>/…`: task lists, backups of edited files, images |
//! | `todos/…` | `<config>/todos/<id>*.json`: to-do lists of older releases |
//!
//! Settings, credentials and keys lie elsewhere and are never taken.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use super::{
    cut::cut,
    locate::{Located, entries},
};
use crate::error::{IoContext, Result};

/// The transcript's name.
pub const TRANSCRIPT: &str = "transcript.jsonl";
/// The name of the folder beside it.
const SESSION: &str = "session";
/// Folders of the configuration folder with one folder a conversation.
const BY_ID: [&str; 3] = ["tasks", "file-history", "image-cache"];
const TODOS: &str = "todos";

/// Most files that are taken beside the transcript.
const FILES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 16;

/// A file of a conversation, or its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFile {
    /// Its name in a checkpoint.
    pub name: PathBuf,
    /// Where it is now.
    pub source: PathBuf,
    /// How much of it is kept, from its beginning: of transcripts the whole records, of other files everything, which may be more by the
    /// time it is read.
    pub bytes: u64,
    /// What was behind that.
    pub torn_bytes: u64,
}

impl RawFile {
    /// Whether the agent only appends to it; other files it writes anew.
    pub fn only_grows(&self) -> bool {
        only_grows(&self.name)
    }
}

fn only_grows(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("jsonl"))
}

/// Files that were found but not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// The raw files of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawSet {
    /// The files, the transcript first.
    pub files: Vec<RawFile>,
    /// What is not among them.
    pub left_out: Vec<LeftOut>,
}

impl RawSet {
    /// Looks for all files of a conversation. The transcript must be there.
    pub fn find(located: &Located) -> Result<Self> {
        let mut set = RawSet::default();
        let at = cut(&located.transcript)?;
        let (source, name) = (located.transcript.clone(), TRANSCRIPT.into());
        set.files.push(RawFile { name, source, bytes: at.bytes, torn_bytes: at.torn_bytes });
        set.walk(&located.folder(), Path::new(SESSION), 0);
        if let Some(config) = &located.config {
            for kind in BY_ID {
                set.walk(&config.join(kind).join(&located.agent_session), Path::new(kind), 0);
            }
            set.todos(&config.join(TODOS), &located.agent_session);
        }
        Ok(set)
    }

    /// What a headless agent has printed: one file.
    pub fn of_stream(log: &Path) -> Result<Self> {
        let at = cut(log)?;
        let file = RawFile { name: TRANSCRIPT.into(), source: log.to_owned(), bytes: at.bytes, torn_bytes: at.torn_bytes };
        Ok(RawSet { files: vec![file], left_out: Vec::new() })
    }

    /// Brings files that the agent writes anew to how they are at a later look: a part of a new content would be worth nothing.
    pub fn update(&mut self, now: RawSet) {
        let now: BTreeMap<PathBuf, RawFile> = now.files.into_iter().map(|file| (file.name.clone(), file)).collect();
        self.files.retain_mut(|file| match now.get(&file.name) {
            _ if file.only_grows() => true,
            Some(now) => {
                file.bytes = now.bytes;
                true
            }
            None => false,
        });
    }

    fn walk(&mut self, folder: &Path, name: &Path, depth: usize) {
        if depth > DEPTH_MAX {
            return self.leave_out(folder, "it lies too deep");
        }
        match entries(folder) {
            Err(e) => self.leave_out(folder, e),
            Ok(paths) => {
                for path in paths {
                    let name = name.join(path.file_name().unwrap_or_default());
                    self.take(&path, name, depth);
                }
            }
        }
    }

    fn take(&mut self, path: &Path, name: PathBuf, depth: usize) {
        let metadata = match fs::symlink_metadata(path).at("read", path) {
            Ok(metadata) => metadata,
            // It was there a moment ago: the agent removed it.
            Err(_) => return,
        };
        let is_lock = path.file_name().is_some_and(|name| name.as_bytes().ends_with(b".lock"));
        if metadata.is_dir() {
            self.walk(path, &name, depth + 1);
        } else if !metadata.is_file() {
            self.leave_out(path, "it is no regular file");
        } else if self.files.len() >= FILES_MAX {
            self.leave_out(path, "there are too many files");
        } else if !is_lock {
            match extent(path, &metadata) {
                Ok((bytes, torn_bytes)) => self.files.push(RawFile { name, source: path.to_owned(), bytes, torn_bytes }),
                Err(e) => self.leave_out(path, e),
            }
        }
    }

    fn todos(&mut self, folder: &Path, id: &str) {
        for path in entries(folder).unwrap_or_default() {
            let name = path.file_name().unwrap_or_default().to_owned();
            if name.as_bytes().starts_with(id.as_bytes()) {
                self.take(&path, Path::new(TODOS).join(name), 0);
            }
        }
    }

    fn leave_out(&mut self, path: &Path, reason: impl ToString) {
        self.left_out.push(LeftOut { path: path.to_owned(), reason: reason.to_string() });
    }

    /// The transcripts of subagents, by the name of their file.
    pub fn subagents(&self) -> impl Iterator<Item = (String, &RawFile)> {
        let folder = Path::new(SESSION).join("subagents");
        self.files.iter().filter_map(move |file| {
            let name = file.name.strip_prefix(&folder).ok()?;
            (name.extension() == Some(OsStr::new("jsonl"))).then(|| (name.to_string_lossy().into_owned(), file))
        })
    }
}

/// How much of a file is kept, and what is behind that.
fn extent(path: &Path, metadata: &fs::Metadata) -> Result<(u64, u64)> {
    if only_grows(path) {
        let at = cut(path)?;
        return Ok((at.bytes, at.torn_bytes));
    }
    Ok((metadata.len(), 0))
}

/// Where a file of a conversation goes, by its name in a checkpoint: below a configuration folder, in a project's folder of the given
/// slug. None for a name that is none of ours, or leads out.
pub fn destination(name: &Path, config: &Path, slug: &str, agent_session: &str) -> Option<PathBuf> {
    let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain || slug.contains('/') || slug.starts_with('.') || slug.is_empty() {
        return None;
    }
    let project = config.join("projects").join(slug);
    let mut parts = name.components();
    let first = parts.next()?.as_os_str().to_str()?;
    let rest = parts.as_path();
    let has_rest = !rest.as_os_str().is_empty();
    match first {
        TRANSCRIPT if !has_rest => Some(project.join(format!("{agent_session}.jsonl"))),
        SESSION if has_rest => Some(project.join(agent_session).join(rest)),
        TODOS if has_rest => Some(config.join(TODOS).join(rest)),
        kind if BY_ID.contains(&kind) && has_rest => Some(config.join(kind).join(agent_session).join(rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(destination(&file.name, &config, "-w", "a1").as_ref(), Some(&file.source));
        }
    }

    #[test]
    fn names_that_lead_out_have_no_destination() {
        for bad in ["", "/etc/x", "../x", "session/../../x", "session", "transcript.jsonl/x", "other/x", "./session"] {
            let to = destination(Path::new(bad), Path::new("/c"), "-w", "a");
            assert!(to.as_ref().is_none_or(|to| to.starts_with("/c/projects/-w/a")), "{bad}: {to:?}");
        }
        assert_eq!(destination(Path::new("session/x"), Path::new("/c"), "../..", "a"), None);
    }
}
