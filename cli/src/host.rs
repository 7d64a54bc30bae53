//! This process as the host of workflows: its environment, its person, its terminal.

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
};

use parhelia_agent::process::RUN_MARKER;
use parhelia_host::{
    Error, Host, Observer,
    config::{Call, IgnoredSetting, call::OVERRULED},
    mcp::Client,
    notice::Notice,
    pane::PaneWork,
    person::{self, Via},
    run::hook_actor,
};
use parhelia_mcp::client::Http;
use parhelia_store::{Store, event::Actor, id::Ulid, record::Checkpoint};

use crate::{
    authority, global::Global, hook_log as log, limits, own_lines, progress::Bar, terminal::Terminal, thinned::removed_list,
    told_settings, words, workspace::current_folder,
};

/// This process as a host.
#[derive(Debug, Default)]
pub struct Shell {
    /// Flags of its verb. Of `--json`, standard output has objects alone, so that an agent's output goes to standard error.
    global: Global,
    call: Call,
    is_hook: bool,
    /// The terminal as it was before an agent was started.
    terminal: Mutex<Option<Terminal>>,
}

impl Shell {
    /// The host of a verb with these flags, and what a call from inside an agent says.
    pub fn new(global: Global, call: Call) -> Self {
        Shell { global, call, ..Shell::default() }
    }

    /// The host of a hook.
    pub fn of_hook(named_config: Option<PathBuf>, call: Call) -> Self {
        let global = Global { config: named_config, ..Global::default() };
        Shell { global, call, is_hook: true, ..Shell::default() }
    }
}

/// The person at the command line, as the kernel says.
pub fn actor() -> Actor {
    let via = if authority::bears_marker() { Via::Agent } else { Via::CommandLine };
    person::actor(rustix::process::getuid().as_raw(), Some(std::process::id() as i32), via)
}

impl Host for Shell {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().collect()
    }

    fn actor(&self) -> Actor {
        if self.is_hook { hook_actor() } else { actor() }
    }

    fn named_config(&self) -> Option<PathBuf> {
        self.global.config.clone()
    }

    fn call(&self) -> Call {
        self.call.clone()
    }

    fn ignored(&self, settings: &[IgnoredSetting]) {
        let has_terminal = self.terminal.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        told_settings::tell(settings, self.is_hook || has_terminal);
    }

    fn folder(&self) -> Option<PathBuf> {
        current_folder()
    }

    fn program(&self) -> io::Result<PathBuf> {
        std::env::current_exe()
    }

    fn pane_command(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        Ok(own_lines::in_pane(self.program()?, folder))
    }

    fn pane_arguments(&self, store: &Path, work: &PaneWork, prompt: Option<&Path>) -> io::Result<Vec<OsString>> {
        own_lines::arguments(&own_lines::flags(&self.global)?, store, work, prompt)
    }

    fn umask(&self) -> u32 {
        limits::users_umask()
    }

    fn start_agent(&self, command: &mut Command) -> io::Result<Child> {
        // What a call has said is no agent's matter.
        command.env_remove(OVERRULED);
        authority::with_original_places(command);
        *self.terminal.lock().unwrap_or_else(PoisonError::into_inner) = Terminal::here();
        limits::for_others(|| command.spawn())
    }

    fn agents_output(&self) -> io::Result<Option<OwnedFd>> {
        self.global.json.then(|| io::stderr().as_fd().try_clone_to_owned()).transpose()
    }

    fn start_relay(&self, input: OwnedFd, supervisor: OwnedFd) -> io::Result<bool> {
        let mut command = Command::new(std::env::current_exe()?);
        // It is no process of the agent's run, whoever has it started.
        command.arg(own_lines::RELAY).env_remove(RUN_MARKER).current_dir("/").stdin(input).stderr(supervisor);
        command.stdout(self.agents_output()?.map_or_else(Stdio::inherit, Stdio::from));
        let mut started = limits::for_others(|| command.spawn())?;
        let _ = thread::Builder::new().name("relay".into()).spawn(move || started.wait());
        Ok(true)
    }

    fn with_own_limits(&self, work: &mut dyn FnMut()) {
        limits::for_others(work);
    }

    fn by_umask(&self, work: &mut dyn FnMut()) {
        limits::by_umask(work);
    }

    fn is_attended(&self) -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    fn gives_terminal(&self) -> bool {
        let output = if self.global.json { io::stderr().is_terminal() } else { io::stdout().is_terminal() };
        io::stdin().is_terminal() && output
    }

    fn mcp_client(&self) -> Option<&'static dyn Client> {
        Some(&Http)
    }

    fn ask_model(&self, store: &Path, session: &str) -> io::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--store").arg(std::path::absolute(store)?);
        if let Some(config) = &self.global.config {
            command.arg("--config").arg(std::path::absolute(config)?);
        }
        command.args(own_lines::ASK_MODEL).arg("--").arg(session);
        let log = log::open().map_or_else(Stdio::null, Stdio::from);
        // It is no process of the agent's run, whoever has it started.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).current_dir("/").process_group(0).env_remove(RUN_MARKER);
        let mut started = limits::for_others(|| command.spawn())?;
        // The service and `session run` live on, and somebody has to wait for it. Without a thread nobody does.
        let _ = thread::Builder::new().name("summary".into()).spawn(move || started.wait());
        Ok(())
    }

    fn mounted_at(&self, store: &Store, checkpoint: &Checkpoint) -> Option<String> {
        parhelia_fuse::shown_at(store, checkpoint).ok().flatten().and_then(|path| path.into_os_string().into_string().ok())
    }

    fn agent_ended(&self) -> bool {
        match self.terminal.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(terminal) if terminal.is_there() => {
                terminal.restore();
                true
            }
            Some(_) => false,
            None => true,
        }
    }
}

impl Observer for Bar {
    fn warn(&self, notice: &Notice) {
        self.beside(|| tell!("parhelia: {}", words::notice(notice)));
    }

    fn explain(&self, error: &Error) -> String {
        words::error(error)
    }

    fn leave_terminal(&self) {
        self.clear();
    }

    fn thinned(&self, session: &str, removed: &[(Ulid, &'static str)]) {
        if let Some(text) = removed_list(removed) {
            log::line(&format!("{session}: {text}"));
        }
    }

    fn note(&self, notice: &Notice) {
        parhelia_store::progress::Progress::notice(self, &words::notice(notice));
    }
}
