//! The state of git in a workspace, as the `git` program sees it.
//!
//! The program runs in a git folder of our own (`shadow.rs`), so that nothing that a repository brings is ever run: no filter, hook,
//! fsmonitor, external diff or transport. It runs without anybody's `GIT_*` variables, takes no optional locks, so that it never stands in
//! the agent's way, and is ended when it takes too long. `HOME` decides what is ignored everywhere.

mod facts;
mod find;
mod shadow;
mod status;
mod trust;
mod writing;

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use parhelia_name as name;
use rustix::fs::FileType;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    program,
};

pub use facts::Facts;
pub use find::{Operation, Repository};
pub use shadow::{Run, Setting, Shadow};
pub use status::GitChange;
pub use writing::{Entry, RepositoryWriter};

/// Repositories that are looked at below the workspace's own.
const BELOW_MAX: usize = 100;
const DEPTH_MAX: usize = 4;

/// Paths that a workspace's state lists, those of all its repositories together.
pub const LISTED_MAX: usize = 1_000;
/// Paths that a checkpoint's record lists ...
const RECORDED_MAX: usize = 100;
/// ... and how long they may be together.
const RECORDED_BYTES_MAX: usize = 8 << 10;

/// The memory that git may have for itself, in bytes: it reads some files whole, however long they are.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// Runs git, with something to read, for so long at most, and within so much memory.
pub fn run_on(command: &mut Command, input: Stdio, limit: Duration) -> Result<Vec<u8>> {
    program::run_within(command, input, limit, Some(MEMORY_BYTES_MAX))
}

/// The environment that git needs.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The program; none where there is none outside the workspace.
    program: Option<PathBuf>,
    /// The search path for git's own programs.
    path: Option<OsString>,
    /// The user's home folder.
    home: Option<OsString>,
    /// The user's configuration folder, where it is not in the home folder.
    xdg_config_home: Option<OsString>,
    /// The user behind `sudo`.
    sudo: Option<u32>,
    /// Candidates for temporary folders; the first one that can be written to is used.
    scratch: Vec<PathBuf>,
}

impl Environment {
    /// The environment for a workspace, from a look-up of variables. `cache` is a folder that no capture enters; temporary folders are made there
    /// if their usual place lies in the workspace.
    pub fn new(env: &dyn Fn(&str) -> Option<OsString>, workspace: &Path, cache: &Path) -> Self {
        let path = env("PATH");
        let temporary = env("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute()).unwrap_or_else(|| "/tmp".into());
        let is_apart = workspace.parent().is_some() && !program::is_in(workspace, &temporary);
        // Whoever owns the folder could exchange what git reads there.
        let own = |folder: &Path| {
            let found = rustix::fs::lstat(folder);
            found.is_err_and(|e| e == rustix::io::Errno::NOENT)
                || found.is_ok_and(|found| {
                    FileType::from_raw_mode(found.st_mode) == FileType::Directory
                        && found.st_uid == rustix::process::geteuid().as_raw()
                })
        };
        Environment {
            program: program::outside("git", path.as_deref(), workspace),
            path: program::search_path(path.as_deref(), workspace),
            home: env("HOME"),
            xdg_config_home: env("XDG_CONFIG_HOME"),
            sudo: env("SUDO_UID").and_then(|uid| uid.to_str()?.parse().ok()),
            scratch: is_apart.then_some(temporary).into_iter().chain(own(cache).then(|| cache.to_owned())).collect(),
        }
    }

    /// A git command line in a folder. The caller says which repository it is of, or that it is of none.
    fn command(&self, folder: &Path) -> Result<Command> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "it is not installed, or only in the workspace");
        let program = self.program.as_ref().ok_or_else(|| Error::Start { program: "git".into(), source: missing() })?;
        let mut command = Command::new(program);
        command.current_dir(folder).env_clear();
        let set = [("PATH", &self.path), ("HOME", &self.home), ("XDG_CONFIG_HOME", &self.xdg_config_home)];
        command.envs(set.into_iter().filter_map(|(name, value)| value.as_ref().map(|value| (name, value))));
        command.envs([("LC_ALL", "C"), ("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_NO_LAZY_FETCH", "1")]);
        command.arg("--no-pager");
        Ok(command)
    }

    /// An empty folder for temporary files.
    fn scratch(&self) -> Result<PathBuf> {
        shadow::make_folder(&self.scratch)
    }

    /// A git folder of our own for a repository.
    pub fn shadow(&self, repository: &Repository, run: Run<'_>) -> Result<Shadow<'_>> {
        Shadow::new(repository, self, &shadow::user_settings(self, run)?, run)
    }
}

/// The relation of a repository to the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The workspace's own, or the one that it lies in.
    #[default]
    Workspace,
    /// None: the workspace is no repository and lies in none, but holds some.
    Folder,
    /// A submodule of the repository around it.
    Submodule,
    /// A repository that the one around it does not know.
    Nested,
}

/// The state of one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    /// Its relation to the workspace.
    pub kind: Kind,
    /// Its folder: absolute for the workspace's own, else from the workspace folder.
    pub path: String,
    /// The branch; none where HEAD is detached.
    pub branch: Option<String>,
    /// The commit; none where there is none yet.
    pub head: Option<String>,
    /// True if HEAD names a commit instead of a branch.
    pub is_detached: bool,
    /// True for a linked worktree.
    pub is_linked_worktree: bool,
    /// The unfinished operation, if there is one.
    pub operation: Option<Operation>,
    /// The branch that it follows.
    pub upstream: Option<String>,
    /// Commits that the upstream does not have.
    pub ahead: Option<u64>,
    /// Commits that only the upstream has.
    pub behind: Option<u64>,
    /// Entries of the stash.
    pub stash_count: u64,
    /// True if there are stash entries.
    pub has_stash: bool,
    /// True if anything differs from the commit, untracked files included.
    pub dirty: bool,
    /// Paths with conflicts.
    pub unmerged: u64,
    /// Uncommitted paths, tracked files first, relative to the workspace folder. All repositories of a workspace together list at most
    /// [`LISTED_MAX`].
    pub changes: Vec<GitChange>,
    /// The number of uncommitted paths, including those that are not listed.
    pub change_count: u64,
    /// True if some paths are not listed.
    pub truncated: bool,
    /// For a submodule, the commit that the repository around it names.
    pub recorded: Option<String>,
    /// Submodules and nested repositories.
    pub below: Vec<State>,
    /// Repositories below that could not be looked at, with the reason.
    pub failed: Vec<UnreadableRepository>,
}

/// A repository that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableRepository {
    /// Its path from the workspace folder, as shown.
    pub path: String,
    /// The reason, in words.
    pub reason: String,
}

impl State {
    /// Paths that differ from the commit, those of submodules and nested repositories included.
    pub fn uncommitted(&self) -> impl Iterator<Item = &GitChange> {
        let below: Box<dyn Iterator<Item = &GitChange>> = Box::new(self.below.iter().flat_map(State::uncommitted));
        self.changes.iter().chain(below)
    }

    /// The number of uncommitted paths, submodules and nested repositories included.
    pub fn uncommitted_count(&self) -> u64 {
        self.below.iter().map(State::uncommitted_count).sum::<u64>() + self.change_count
    }

    /// The part of a checkpoint's record about git. It lists the first paths only: at most `RECORDED_MAX`, of `RECORDED_BYTES_MAX` bytes.
    pub fn record(&self) -> Value {
        self.record_without(&|_| false)
    }

    /// The same without the untracked paths of which this is true: the checkpoint left them out.
    pub fn record_without(&self, is_left_out: &dyn Fn(&[u8]) -> bool) -> Value {
        let is_there = |change: &&GitChange| !(change.status == "??" && is_left_out(&change.bytes));
        let gone = self.uncommitted().count() - self.uncommitted().filter(is_there).count();
        let mut left = RECORDED_BYTES_MAX;
        let fits = |path: &&str| {
            let fits = path.len() <= left;
            left -= path.len().min(left);
            fits
        };
        let files: Vec<&str> =
            self.uncommitted().filter(is_there).map(|change| change.path.as_str()).take(RECORDED_MAX).take_while(fits).collect();
        json!({
            "branch": self.branch,
            "head": self.head,
            "has_stash": self.has_stash,
            "stash_count": self.stash_count,
            "dirty": self.dirty,
            "operation": self.operation,
            "is_detached": self.is_detached,
            "uncommitted_count": self.uncommitted_count().saturating_sub(gone as u64),
            "uncommitted_files": files,
        })
    }
}

/// The state of the repository that a workspace is or lies in, and of those below it, within `limit`. If there is no such repository, the state
/// of those in its folders and theirs; none if there are none at all. `workspace` is absolute.
pub fn state(workspace: &Path, env: &Environment, limit: Duration) -> Result<Option<State>> {
    let around = Repository::around(workspace)?;
    let inside = || find::inside(workspace);
    if around.is_none() && inside().is_empty() {
        return Ok(None);
    }
    let clock = Clock { until: Instant::now() + limit, limit };
    let user = shadow::user_settings(env, &|command| clock.run(command))?;
    // Anybody can put a repository into a folder above, such as /tmp. One that may not be used is none.
    let around = around.filter(|found| found.root() == workspace || found.stranger(env, &user).is_none());
    let mut look = Look { env, user, clock, left: BELOW_MAX, listed: LISTED_MAX };
    match (around, inside) {
        (Some(repository), _) => look.at(&repository, workspace, b"", Kind::Workspace, 0).map(Some),
        (None, inside) => Ok(Some(inside()).filter(|inside| !inside.is_empty()).map(|inside| look.inside(workspace, inside))),
    }
}

/// The relation of a repository's HEAD to an earlier commit, as words to put between the two; none if they are equal, or git cannot tell.
/// `workspace` is absolute.
pub fn compared(workspace: &Path, env: &Environment, then: &str, now: &str, limit: Duration) -> Option<String> {
    let is_id = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    if then == now || !is_id(then) || !is_id(now) {
        return None;
    }
    let counted = || -> Result<Vec<u8>> {
        let clock = Clock { until: Instant::now() + limit, limit };
        let run = |command: &mut Command| clock.run(command);
        let repository = Repository::around(workspace)?.ok_or_else(|| Error::Invalid("there is no repository".into()))?;
        let shadow = env.shadow(&repository, &run)?;
        run(shadow.command(workspace)?.args(["rev-list", "--left-right", "--count", &format!("{then}...{now}")]))
    };
    let printed = String::from_utf8_lossy(&counted().ok()?).into_owned();
    let mut counts = printed.split_whitespace().map(str::parse::<u64>);
    let commits = |count: u64| if count == 1 { "1 commit".to_owned() } else { format!("{count} commits") };
    match (counts.next()?.ok()?, counts.next()?.ok()?) {
        (0, newer) => Some(format!("{} newer than", commits(newer))),
        (older, 0) => Some(format!("{} older than", commits(older))),
        _ => Some("on another line of history than".into()),
    }
}

/// A repository below another, by its path from the workspace folder.
struct InnerRepository {
    path: Vec<u8>,
    kind: Kind,
    recorded: Option<String>,
}

/// The time limit of all programs together.
#[derive(Clone, Copy)]
struct Clock {
    until: Instant,
    limit: Duration,
}

impl Clock {
    fn run(&self, command: &mut Command) -> Result<Vec<u8>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Slow { command: "git".into(), waited_ms: self.limit.as_millis() });
        }
        run_on(command, Stdio::null(), left)
    }
}

struct Look<'a> {
    env: &'a Environment,
    /// The user's settings.
    user: Vec<Setting>,
    clock: Clock,
    /// Repositories that may still be looked at.
    left: usize,
    /// Changes that may still be listed.
    listed: usize,
}

impl Look<'_> {
    /// Looks at one repository. `folder` is where git runs, `prefix` its path from the workspace folder.
    fn at(&mut self, repository: &Repository, folder: &Path, prefix: &[u8], kind: Kind, depth: usize) -> Result<State> {
        let clock = self.clock;
        let run = |command: &mut Command| clock.run(command);
        let shadow = Shadow::new(repository, self.env, &self.user, &run)?;
        let mut command = shadow.command(folder)?;
        command.args(["status", "--porcelain=v2", "-z", "--branch", "--show-stash", "--untracked-files=all"]);
        // Git would ask about what has changed inside a submodule by running itself there, with that repository's settings.
        let printed = run(command.args(["--ignore-submodules=dirty", "."]))?;
        let parsed = status::parse(&printed, &repository.inner_path(folder), prefix, self.listed);
        self.listed -= parsed.changes.len();
        let shown = if prefix.is_empty() { name::display(folder.as_os_str().as_encoded_bytes()) } else { name::display(prefix) };
        let mut state = State {
            kind,
            path: shown,
            branch: parsed.branch,
            head: parsed.head,
            is_detached: parsed.is_detached,
            is_linked_worktree: repository.is_linked_worktree(),
            operation: repository.operation(),
            upstream: parsed.upstream,
            ahead: parsed.ahead,
            behind: parsed.behind,
            stash_count: parsed.stash_count,
            has_stash: parsed.stash_count > 0,
            dirty: parsed.change_count > 0,
            unmerged: parsed.unmerged,
            truncated: (parsed.changes.len() as u64) < parsed.change_count,
            changes: parsed.changes,
            change_count: parsed.change_count,
            recorded: None,
            below: Vec::new(),
            failed: Vec::new(),
        };
        if depth < DEPTH_MAX {
            let nested = parsed.nested.into_iter().map(|path| InnerRepository { path, kind: Kind::Nested, recorded: None });
            let submodules = submodules(repository, &shadow, folder, prefix, &run)?;
            for below in submodules.into_iter().chain(nested) {
                self.below(&mut state, folder, prefix, below, depth);
            }
        }
        Ok(state)
    }

    /// Looks at the repositories in a folder that is none itself.
    fn inside(&mut self, workspace: &Path, found: Vec<Vec<u8>>) -> State {
        let path = name::display(workspace.as_os_str().as_encoded_bytes());
        let mut state = State { kind: Kind::Folder, path, ..State::default() };
        for path in found {
            self.below(&mut state, workspace, b"", InnerRepository { path, kind: Kind::Nested, recorded: None }, 0);
        }
        state
    }

    fn below(&mut self, state: &mut State, folder: &Path, prefix: &[u8], below: InnerRepository, depth: usize) {
        let InnerRepository { path, kind, recorded } = below;
        let inner = path.strip_prefix(prefix).map_or(path.as_slice(), |rest| rest.strip_prefix(b"/").unwrap_or(rest));
        let folder = folder.join(PathBuf::from(OsString::from_vec(inner.to_vec())));
        // A submodule that was never checked out has no repository.
        let Ok(Some(repository)) = Repository::at(&folder) else { return };
        if self.left == 0 {
            state.truncated = true;
            return;
        }
        self.left -= 1;
        match self.at(&repository, &folder, &path, kind, depth + 1) {
            Ok(found) => {
                state.dirty |= found.dirty;
                if kind == Kind::Submodule && found.dirty {
                    self.list_submodule(state, &path);
                }
                state.below.push(State { recorded, ..found });
            }
            Err(e) => state.failed.push(UnreadableRepository { path: name::display(&path), reason: e.to_string() }),
        }
    }

    /// Lists a submodule as changed that has its recorded commit and changes of its own, as git does.
    fn list_submodule(&mut self, state: &mut State, path: &[u8]) {
        if state.changes.iter().any(|change| change.bytes == path) {
            return;
        }
        state.change_count += 1;
        match self.listed.checked_sub(1) {
            Some(left) => {
                self.listed = left;
                state.changes.push(GitChange {
                    path: name::display(path),
                    bytes: path.to_vec(),
                    status: ".M".into(),
                    from: None,
                });
            }
            None => state.truncated = true,
        }
    }
}

/// Submodules with the commits that are recorded for them.
fn submodules(
    repository: &Repository,
    shadow: &Shadow<'_>,
    folder: &Path,
    prefix: &[u8],
    run: Run<'_>,
) -> Result<Vec<InnerRepository>> {
    if !repository.root().join(".gitmodules").exists() {
        return Ok(Vec::new());
    }
    let printed = run(shadow.command(folder)?.args(["ls-files", "-s", "-z", "."]))?;
    let below =
        |(path, commit)| InnerRepository { path: name::join(prefix, path), kind: Kind::Submodule, recorded: Some(commit) };
    Ok(status::submodules(&printed).map(below).collect())
}
