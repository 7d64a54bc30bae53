//! A stash entry of uncommitted changes, made without touching index, HEAD, branches or files.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{error::Result, program};

const LIMIT: Duration = Duration::from_secs(60);

/// What became of the uncommitted changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stash {
    /// They are an entry of the stash: its commit.
    Made(String),
    /// There were none, or there is no git.
    Nothing,
    /// They could not be stashed; the safety checkpoint has them.
    Not(String),
}

/// A workspace's git, by command lines that leave the repository's own index alone: what they write goes into a copy.
struct Git<'a> {
    workspace: &'a Path,
    /// Whether git knows who commits.
    has_identity: bool,
}

impl<'a> Git<'a> {
    fn of(workspace: &'a Path) -> Self {
        Git { workspace, has_identity: has_identity(workspace) }
    }

    fn command(&self, index: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.workspace).args(arguments);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"] {
            command.env_remove(name);
        }
        command.env("GIT_INDEX_FILE", index).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
        // Whoever has given no name is somebody, too.
        for (name, value) in [("NAME", "parhelia"), ("EMAIL", "parhelia@localhost")] {
            for role in ["AUTHOR", "COMMITTER"] {
                let variable = format!("GIT_{role}_{name}");
                if std::env::var_os(&variable).is_none() && !self.has_identity {
                    command.env(variable, value);
                }
            }
        }
        command
    }
}

fn has_identity(workspace: &Path) -> bool {
    let asked = program::run(Command::new("git").arg("-C").arg(workspace).args(["config", "user.email"]), LIMIT);
    asked.is_ok_and(|text| !text.trim_ascii().is_empty())
}

fn line(printed: Vec<u8>) -> String {
    String::from_utf8_lossy(&printed).trim().to_owned()
}

/// Puts uncommitted changes of tracked files into a stash entry.
pub(super) fn make(workspace: &Path, message: &str) -> Stash {
    match try_make(workspace, message) {
        Ok(stash) => stash,
        Err(e) => Stash::Not(e.to_string()),
    }
}

fn try_make(workspace: &Path, message: &str) -> Result<Stash> {
    if !workspace.join(".git").exists() {
        return Ok(Stash::Nothing);
    }
    let git = Git::of(workspace);
    let own = line(program::run(
        git.command(Path::new(""), &["rev-parse", "--git-path", "index"]).env_remove("GIT_INDEX_FILE"),
        LIMIT,
    )?);
    let own = workspace.join(PathBuf::from(OsString::from(own)));
    let folder = std::env::temp_dir().join(format!("parhelia-{}", parhelia_store::id::OpId::generate()));
    parhelia_store::disk::make_folder(&folder)?;
    let index = folder.join("index");
    let done = (|| {
        if own.exists() {
            std::fs::copy(&own, &index).map_err(|source| crate::error::Error::Io {
                action: "copy",
                path: own.clone(),
                source,
            })?;
        }
        let commit = line(program::run(&mut git.command(&index, &["stash", "create", message]), LIMIT)?);
        if commit.is_empty() {
            return Ok(Stash::Nothing);
        }
        program::run(&mut git.command(&index, &["stash", "store", "-m", message, &commit]), LIMIT)?;
        Ok(Stash::Made(commit))
    })();
    let _ = std::fs::remove_dir_all(&folder);
    done
}

/// Takes the entry away again, if it is there still.
pub(super) fn drop_entry(workspace: &Path, commit: &str) -> Result<()> {
    let (git, index) = (Git::of(workspace), Path::new("/nonexistent/index"));
    let list = line(program::run(&mut git.command(index, &["stash", "list", "--format=%H"]), LIMIT)?);
    if let Some(at) = list.lines().position(|found| found == commit) {
        program::run(&mut git.command(index, &["stash", "drop", &format!("stash@{{{at}}}")]), LIMIT)?;
    }
    Ok(())
}
