//! A stash entry of uncommitted changes, made without touching index, HEAD, branches or files, and without running anything that the
//! repository brings.
//!
//! Changes of a file that has a filter are not stashed: without the filter the entry would hold other content than git's own would (a
//! large file instead of a reference to it, plain text instead of encrypted one). The safety checkpoint has them.

#![expect(clippy::disallowed_methods, reason = "writes into git's temporary folder")]

use parhelia_store::name::NameExt as _;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use parhelia_store::name;

use parhelia_agent::{
    git::{self, Entry, Environment, Repository, RepositoryWriter, Shadow},
    regular,
};
use parhelia_host::{Error, Host, Result, error::IoContext};

const LIMIT: Duration = Duration::from_secs(60);

/// The result of stashing uncommitted changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stash {
    /// They are an entry of the stash: its commit.
    Made(String),
    /// There were none, or there is no git.
    Nothing,
    /// They could not be stashed; the safety checkpoint has them.
    Not(String),
}

/// A workspace's git. What it writes of the index goes into a copy.
struct Git<'a> {
    host: &'a dyn Host,
    workspace: &'a Path,
    shadow: Shadow<'a>,
    writing: RepositoryWriter,
    index: PathBuf,
}

fn environment(host: &dyn Host, workspace: &Path, cache: &Path) -> Environment {
    Environment::new(&|name| host.variable(name), workspace, cache)
}

/// Git looks closely at files that were changed at the time of the index or later, as their stamps alone may hide that.
fn copy_with_time(from: &Path, to: &Path) -> io::Result<()> {
    // A fifo would keep the copy waiting, and everybody who waits for the session's turn.
    let mut from = regular::open(from)?;
    let modified = from.metadata()?.modified()?;
    let mut to = File::create_new(to)?;
    io::copy(&mut from, &mut to)?;
    to.set_modified(modified)
}

impl<'a> Git<'a> {
    fn of(host: &'a dyn Host, workspace: &'a Path, repository: &Repository, environment: &'a Environment) -> Result<Self> {
        let shadow = environment.shadow(repository, &|command| git::run_on(command, Stdio::null(), LIMIT))?;
        let writing = shadow.writing()?;
        let index = shadow.folder().join("index");
        if shadow.index().exists() {
            copy_with_time(&shadow.index(), &index).at("copy", &shadow.index())?;
        }
        Ok(Git { host, workspace, shadow, writing, index })
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = self.shadow.command(self.workspace)?;
        command.args(arguments).env("GIT_INDEX_FILE", &self.index);
        self.writing.direct(&mut command);
        for role in ["AUTHOR", "COMMITTER"] {
            for (field, other) in [("NAME", "parhelia"), ("EMAIL", "parhelia@localhost")] {
                let variable = format!("GIT_{role}_{field}");
                match self.host.variable(&variable) {
                    Some(value) => command.env(variable, value),
                    // git refuses to commit without an identity.
                    None if !self.shadow.has_identity() => command.env(variable, other),
                    None => &mut command,
                };
            }
        }
        Ok(command)
    }

    fn run(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        Ok(git::run_on(&mut self.command(arguments)?, Stdio::null(), LIMIT)?)
    }

    fn line(&self, arguments: &[&str]) -> Result<String> {
        self.run(arguments).map(|printed| String::from_utf8_lossy(&printed).trim().to_owned())
    }

    /// True if the branch is there in name alone, as after `git init`.
    fn is_unborn(&self) -> Result<bool> {
        let printed = self.run(&["for-each-ref", "--count=1"])?;
        Ok(printed.is_empty() && self.line(&["rev-parse", "--verify", "--quiet", "HEAD"]).is_err())
    }

    /// Runs a command that reads paths.
    fn on_paths(&self, paths: &[u8], arguments: &[&str]) -> Result<Vec<u8>> {
        let path = self.shadow.folder().join("paths");
        fs::write(&path, paths).at("write", &path)?;
        let input = File::open(&path).at("read", &path)?;
        Ok(git::run_on(&mut self.command(arguments)?, Stdio::from(input), LIMIT)?)
    }

    /// The first of some paths that has a filter.
    fn filtered(&self, paths: &[u8]) -> Result<Option<String>> {
        let printed = self.on_paths(paths, &["check-attr", "-z", "--stdin", "filter"])?;
        let fields: Vec<&[u8]> = printed.split(|&byte| byte == 0).collect();
        let has_filter = |value: &[u8]| !matches!(value, b"unspecified" | b"unset" | b"set");
        Ok(fields.chunks_exact(3).find(|found| has_filter(found[2])).map(|found| name::display(found[0])))
    }
}

/// Puts uncommitted changes of tracked files into a stash entry. `cache` is the store's folder for what can be found out again.
pub(super) fn make(host: &dyn Host, workspace: &Path, message: &str, cache: &Path) -> Stash {
    match try_make(host, workspace, message, cache) {
        Ok(stash) => stash,
        Err(e) => Stash::Not(e.to_string()),
    }
}

/// A workspace that is no repository may lie in a larger one. A stash entry of that would take in what is not the workspace's.
fn outside(workspace: &Path) -> Result<Stash> {
    for folder in workspace.ancestors().skip(1) {
        if Repository::at(folder)?.is_some() {
            return Ok(Stash::Not(format!("the workspace lies inside the repository {}", folder.shown())));
        }
    }
    Ok(Stash::Nothing)
}

fn try_make(host: &dyn Host, workspace: &Path, message: &str, cache: &Path) -> Result<Stash> {
    let Some(repository) = Repository::at(workspace)? else { return outside(workspace) };
    if let Some(other) = repository.copied_from() {
        return Ok(Stash::Not(format!("its .git is a copy of that of the worktree {}, whose stash this is not", other.shown())));
    }
    let environment = environment(host, workspace, cache);
    let git = Git::of(host, workspace, &repository, &environment)?;
    if git.is_unborn()? {
        return Ok(Stash::Not("the repository has no commit yet".into()));
    }
    let head = git.line(&["rev-parse", "--verify", "HEAD^{commit}"])?;
    let base = git.line(&["rev-parse", "--verify", "HEAD^{tree}"])?;
    let staged = git.line(&["write-tree"])?;
    // Otherwise files count as changed whose timestamps alone have moved.
    git.run(&["update-index", "-q", "--refresh"])?;
    let changed = git.run(&["diff-files", "-z", "--name-only", "--ignore-submodules=dirty"])?;
    if let Some(path) = git.filtered(&changed)? {
        let reason = format!("{path} has a filter, and a rollback runs no program that a repository names");
        return Err(Error::Invalid(reason));
    }
    git.on_paths(&changed, &["update-index", "-z", "--add", "--remove", "--stdin"])?;
    let tree = git.line(&["write-tree"])?;
    if tree == base && staged == base {
        return Ok(Stash::Nothing);
    }
    let index = git.line(&["commit-tree", &staged, "-p", &head, "-m", &format!("index, {message}")])?;
    let commit = git.line(&["commit-tree", &tree, "-p", &head, "-p", &index, "-m", message])?;
    git.writing.keep_objects().map_err(Error::Invalid)?;
    match git.writing.reftable().map_err(Error::Invalid)? {
        Some((_open, tables)) => {
            git.shadow.link_reftable(&tables)?;
            git.run(&["stash", "store", "-m", message, &commit])?;
        }
        None => {
            let before = git.line(&["rev-parse", "--verify", "--quiet", "refs/stash"]).ok();
            let by = git.line(&["var", "GIT_COMMITTER_IDENT"])?;
            let entry = Entry { before: before.as_deref(), commit: &commit, by: &by, message };
            git.writing.add(entry).map_err(Error::Invalid)?;
        }
    }
    Ok(Stash::Made(commit))
}

/// Takes the entry away again, if it is there still.
pub(super) fn drop_entry(host: &dyn Host, workspace: &Path, commit: &str, cache: &Path) -> Result<()> {
    let Some(repository) = Repository::at(workspace)? else { return Ok(()) };
    let environment = environment(host, workspace, cache);
    let git = Git::of(host, workspace, &repository, &environment)?;
    let Some((_open, tables)) = git.writing.reftable().map_err(Error::Invalid)? else {
        return git.writing.drop_entry(commit).map_err(Error::Invalid);
    };
    git.shadow.link_reftable(&tables)?;
    let list = git.line(&["stash", "list", "--format=%H"])?;
    if let Some(at) = list.lines().position(|found| found == commit) {
        git.run(&["stash", "drop", &format!("stash@{{{at}}}")])?;
    }
    Ok(())
}
