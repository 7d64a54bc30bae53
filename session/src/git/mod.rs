//! The state of git in a workspace, as the `git` program sees it.
//!
//! The program runs without anybody's `GIT_*` variables, takes no optional locks, so that it never stands in the agent's way, starts no
//! daemon, and is ended when it takes too long. `HOME` decides which repositories the user trusts and what is ignored everywhere.

mod facts;
mod find;
mod status;

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use parhelia_store::name;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    program,
};

pub use facts::Facts;
pub use find::{Operation, Repository};
pub use status::Change;

/// Repositories that are looked at below the workspace's own.
const BELOW_MAX: usize = 100;
const DEPTH_MAX: usize = 4;

/// What git needs of the environment.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Where programs are looked for.
    pub path: Option<OsString>,
    /// The user's home folder.
    pub home: Option<OsString>,
    /// The user's configuration folder, where it is not in the home folder.
    pub xdg_config_home: Option<OsString>,
}

impl Environment {
    /// From a look-up of environment variables.
    pub fn new(env: &dyn Fn(&str) -> Option<OsString>) -> Self {
        Environment { path: env("PATH"), home: env("HOME"), xdg_config_home: env("XDG_CONFIG_HOME") }
    }

    /// A git command line in a folder.
    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new("git");
        command.current_dir(folder).env_clear();
        let set = [("PATH", &self.path), ("HOME", &self.home), ("XDG_CONFIG_HOME", &self.xdg_config_home)];
        command.envs(set.into_iter().filter_map(|(name, value)| value.as_ref().map(|value| (name, value))));
        command.envs([("LC_ALL", "C"), ("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_PAGER", "cat")]);
        command.args(["--no-pager", "-c", "core.fsmonitor=false", "-c", "status.renames=true"]);
        command
    }
}

/// How a repository below the workspace's belongs to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The workspace's own, or the one that it lies in.
    #[default]
    Workspace,
    /// None: the workspace is no repository and lies in none, but holds some.
    Folder,
    /// A submodule.
    Submodule,
    /// A repository that the one around it does not know.
    Nested,
}

/// The state of one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    /// What it is to the workspace.
    pub kind: Kind,
    /// Its folder: absolute for the workspace's own, else from the workspace folder.
    pub path: String,
    /// The branch; none where HEAD is detached.
    pub branch: Option<String>,
    /// The commit; none where there is none yet.
    pub head: Option<String>,
    /// Whether HEAD names a commit instead of a branch.
    pub is_detached: bool,
    /// Whether it is a linked worktree.
    pub is_linked_worktree: bool,
    /// What git is in the middle of.
    pub operation: Option<Operation>,
    /// The branch that it follows.
    pub upstream: Option<String>,
    /// Commits that the upstream does not have.
    pub ahead: Option<u64>,
    /// Commits that only the upstream has.
    pub behind: Option<u64>,
    /// Entries of the stash.
    pub stash_count: u64,
    /// Whether there are any.
    pub has_stash: bool,
    /// Whether something differs from the commit, untracked files included.
    pub dirty: bool,
    /// Paths with conflicts.
    pub unmerged: u64,
    /// What differs. Paths are from the workspace folder.
    pub changes: Vec<Change>,
    /// Whether there is more.
    pub truncated: bool,
    /// For a submodule, the commit that the repository around it names.
    pub recorded: Option<String>,
    /// Submodules and nested repositories.
    pub below: Vec<State>,
    /// Repositories below that could not be looked at, with the reason.
    pub failed: Vec<(String, String)>,
}

impl State {
    /// Paths that differ from the commit, those of submodules and nested repositories included.
    pub fn uncommitted(&self) -> impl Iterator<Item = &Change> {
        let below: Box<dyn Iterator<Item = &Change>> = Box::new(self.below.iter().flat_map(State::uncommitted));
        self.changes.iter().chain(below)
    }

    /// What a checkpoint's record says of git.
    pub fn record(&self) -> Value {
        json!({
            "branch": self.branch,
            "head": self.head,
            "has_stash": self.has_stash,
            "stash_count": self.stash_count,
            "dirty": self.dirty,
            "operation": self.operation,
            "is_detached": self.is_detached,
            "uncommitted_files": self.uncommitted().map(|change| &change.path).collect::<Vec<_>>(),
        })
    }
}

/// Looks at the repository that a workspace is, or lies in, and at those below it, for at most `limit`. Of a workspace that is none and lies
/// in none, at those in its folders and in theirs. None where there is none. `workspace` is absolute.
pub fn state(workspace: &Path, env: &Environment, limit: Duration) -> Result<Option<State>> {
    let mut look = Look { env, until: Instant::now() + limit, limit, left: BELOW_MAX };
    match Repository::around(workspace)? {
        Some(repository) => look.at(&repository, workspace, b"", Kind::Workspace, 0).map(Some),
        None => Ok(look.inside(workspace)),
    }
}

/// A repository below another, by its path from the workspace folder.
struct Below {
    path: Vec<u8>,
    kind: Kind,
    recorded: Option<String>,
}

struct Look<'a> {
    env: &'a Environment,
    until: Instant,
    limit: Duration,
    /// Repositories that may still be looked at.
    left: usize,
}

impl Look<'_> {
    /// Looks at one repository. `folder` is where git runs, `prefix` its path from the workspace folder.
    fn at(&mut self, repository: &Repository, folder: &Path, prefix: &[u8], kind: Kind, depth: usize) -> Result<State> {
        let printed =
            self.git(folder, &["status", "--porcelain=v2", "-z", "--branch", "--show-stash", "--untracked-files=all", "."])?;
        let parsed = status::parse(&printed, &repository.inner_path(folder), prefix);
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
            dirty: !parsed.changes.is_empty(),
            unmerged: parsed.changes.iter().filter(|change| change.is_unmerged()).count() as u64,
            changes: parsed.changes,
            truncated: parsed.truncated,
            recorded: None,
            below: Vec::new(),
            failed: Vec::new(),
        };
        if depth < DEPTH_MAX {
            let nested = parsed.nested.into_iter().map(|path| Below { path, kind: Kind::Nested, recorded: None });
            for below in self.submodules(repository, folder, prefix)?.into_iter().chain(nested) {
                self.below(&mut state, folder, prefix, below, depth);
            }
        }
        Ok(state)
    }

    /// Looks at the repositories in a folder that is none itself.
    fn inside(&mut self, workspace: &Path) -> Option<State> {
        let found = find::inside(workspace);
        if found.is_empty() {
            return None;
        }
        let path = name::display(workspace.as_os_str().as_encoded_bytes());
        let mut state = State { kind: Kind::Folder, path, ..State::default() };
        for path in found {
            self.below(&mut state, workspace, b"", Below { path, kind: Kind::Nested, recorded: None }, 0);
        }
        Some(state)
    }

    fn below(&mut self, state: &mut State, folder: &Path, prefix: &[u8], below: Below, depth: usize) {
        let Below { path, kind, recorded } = below;
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
                state.below.push(State { recorded, ..found });
            }
            Err(e) => state.failed.push((name::display(&path), e.to_string())),
        }
    }

    /// Submodules with the commits that are recorded for them.
    fn submodules(&self, repository: &Repository, folder: &Path, prefix: &[u8]) -> Result<Vec<Below>> {
        if !repository.root().join(".gitmodules").exists() {
            return Ok(Vec::new());
        }
        let printed = self.git(folder, &["ls-files", "-s", "-z", "."])?;
        let below = |(path, commit)| Below { path: name::join(prefix, path), kind: Kind::Submodule, recorded: Some(commit) };
        Ok(status::submodules(&printed).map(below).collect())
    }

    fn git(&self, folder: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
        let left = self.until.saturating_duration_since(Instant::now());
        let command = format!("git {}", arguments.first().unwrap_or(&""));
        if left.is_zero() {
            return Err(Error::Slow { command, waited_ms: self.limit.as_millis() });
        }
        program::run(self.env.command(folder).args(arguments), left)
    }
}
