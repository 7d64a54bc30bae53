//! The caller of a workflow: its environment, its person, and its way of starting programs.
//!
//! A workflow reads nothing of the process that it runs in: a daemon acts for callers whose environment is another one.

use std::{
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use jiff::Timestamp;
use parhelia_agent::{
    folder::ConfigFolder,
    kind::Kind,
    process::{Identity, ancestors},
};
use parhelia_ledger::Tmux;
use parhelia_store::{Store, clock, event::Actor, id::Ulid, progress::Progress, record::Checkpoint};

use crate::{
    Error, Result,
    config::{self, Call, Config, ConfigFiles, IgnoredSetting},
    mcp,
    notice::Notice,
    pane::PaneWork,
};

/// The caller of a workflow.
pub trait Host: Sync {
    /// The host behind this one, which answers for it wherever it has no answer of its own.
    fn behind(&self) -> Option<&dyn Host> {
        None
    }

    /// An environment variable; none where it is not set.
    fn variable(&self, name: &str) -> Option<OsString>;

    /// Environment of the caller, as name and value; nothing of the process that serves it.
    fn variables(&self) -> Vec<(OsString, OsString)>;

    /// The person or program that acts, as events name it.
    fn actor(&self) -> Actor;

    /// The process that acts and those that it descends from, itself first, as the kernel says.
    fn line(&self) -> Vec<Identity> {
        self.behind().map_or_else(ancestors, |host| host.line())
    }

    /// True if the caller is another process that came by the service's API. Its marker of a run then counts by itself.
    fn is_by_api(&self) -> bool {
        false
    }

    /// The configuration file that is named beside the usual ones.
    fn named_config(&self) -> Option<PathBuf> {
        self.behind()?.named_config()
    }

    /// Tells whether an agent started the caller, and what that says of options then: it counts only where it makes them stricter.
    fn call(&self) -> Call {
        self.behind().map(|host| host.call()).unwrap_or_default()
    }

    /// Told of settings that do not count, each time that configuration is read.
    fn ignored(&self, _settings: &[IgnoredSetting]) {}

    /// The current folder, symlinks resolved; none where it is gone.
    fn folder(&self) -> Option<PathBuf> {
        None
    }

    /// This program, as hooks start it.
    fn program(&self) -> io::Result<PathBuf>;

    /// The command line of the process in a pane of tmux that takes over what is in a folder.
    fn pane_command(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.behind().ok_or(io::ErrorKind::Unsupported)?.pane_command(folder)
    }

    /// The arguments by which a process of ours does some work on a store, with a first prompt in a file, which it removes.
    fn pane_arguments(&self, store: &Path, work: &PaneWork, prompt: Option<&Path>) -> io::Result<Vec<OsString>> {
        self.behind().ok_or(io::ErrorKind::Unsupported)?.pane_arguments(store, work, prompt)
    }

    /// The umask of the caller's user.
    fn umask(&self) -> u32 {
        self.behind().map_or(0o022, |host| host.umask())
    }

    /// Starts an agent, with the limits and the umask of the caller.
    fn start_agent(&self, command: &mut Command) -> io::Result<Child>;

    /// The standard output of an agent, where that is not the caller's own.
    fn agents_output(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }

    /// Starts a process that relays from `input` to the standard output of an agent, with a copy for `supervisor`. False of
    /// a caller without such a process.
    fn start_relay(&self, _input: OwnedFd, _supervisor: OwnedFd) -> io::Result<bool> {
        Ok(false)
    }

    /// Does something that starts programs which are not ours, with the limits and the umask of the caller.
    fn with_own_limits(&self, work: &mut dyn FnMut()) {
        match self.behind() {
            Some(host) => host.with_own_limits(work),
            None => work(),
        }
    }

    /// Does something by the umask of the caller: what is restored is theirs to share.
    fn by_umask(&self, work: &mut dyn FnMut()) {
        match self.behind() {
            Some(host) => host.by_umask(work),
            None => work(),
        }
    }

    /// True if a person looks on: input and output are a terminal.
    fn is_attended(&self) -> bool {
        false
    }

    /// True if input and output of an agent that the caller starts are a terminal.
    fn gives_terminal(&self) -> bool {
        self.is_attended()
    }

    /// The way to MCP servers over HTTP.
    fn mcp_client(&self) -> Option<&'static dyn mcp::Client> {
        self.behind()?.mcp_client()
    }

    /// Starts a process that has a model sum a session up. Nobody waits for it. A caller without such a process has none
    /// asked.
    fn ask_model(&self, store: &Path, session: &str) -> io::Result<()> {
        self.behind().map_or(Ok(()), |host| host.ask_model(store, session))
    }

    /// The path at which a checkpoint is mounted, as text.
    fn mounted_at(&self, _store: &Store, _checkpoint: &Checkpoint) -> Option<String> {
        None
    }

    /// Called when the agent that was started last has ended. Puts right what it has left of the caller's terminal. False where the terminal is gone.
    fn agent_ended(&self) -> bool {
        true
    }

    /// The time.
    fn now(&self) -> Timestamp {
        clock::timestamp()
    }

    /// The configuration in force for a workspace.
    fn config(&self, workspace: &Path) -> Result<Config> {
        let variable = |name: &str| self.variable(name);
        let files = ConfigFiles { call: self.call(), ..ConfigFiles::usual(&variable, workspace, self.named_config()) };
        let loaded = config::load(&files, &variable)?;
        self.ignored(&loaded.ignored);
        Ok(loaded.config)
    }

    /// The folder for what can be found out again; none without a home.
    fn cache_folder(&self) -> Option<PathBuf> {
        let absolute = |name: &str| self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        cache.map(|cache| cache.join("parhelia"))
    }

    /// The pane of tmux in which the caller is.
    fn tmux(&self) -> Option<Tmux> {
        tmux_of(&|name| self.variable(name))
    }

    /// The folder in which an agent of a kind that the caller starts keeps its own.
    fn config_folder(&self, kind: Kind) -> Option<ConfigFolder> {
        ConfigFolder::of(kind, |name| self.variable(name))
    }
}

/// Receives what a workflow has to say, beside its progress.
pub trait Observer: Progress {
    /// Something that the user should hear of, whatever else is not said.
    fn warn(&self, _notice: &Notice) {}

    /// An error as a sentence, with the next step where the observer knows one.
    fn explain(&self, error: &Error) -> String {
        error.to_string()
    }

    /// An agent gets the terminal: progress is no longer shown there.
    fn leave_terminal(&self) {}

    /// Retention has removed checkpoints of a session while an agent had the terminal; each with the reason.
    fn thinned(&self, _session: &str, _removed: &[(Ulid, &'static str)]) {}

    /// Something that is good to know.
    fn note(&self, notice: &Notice) {
        self.notice(&notice.to_string());
    }
}

impl Observer for () {}

/// The pane of tmux that a process with this environment is in.
pub fn tmux_of(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Tmux> {
    let text = |name: &str| variable(name)?.into_string().ok().filter(|value| !value.is_empty());
    let socket = text("TMUX")?.rsplitn(3, ',').nth(2)?.to_owned();
    Some(Tmux { socket, pane: text("TMUX_PANE")? })
}
