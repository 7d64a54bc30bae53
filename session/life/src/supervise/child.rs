//! The agent as a child process.

use std::{
    ffi::OsString,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use parhelia_agent::process::Identity;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Supervision, lost, stderr::AgentStderr};
use crate::environment::own_folder;
use parhelia_host::{Error, Host, Result};

/// Fails where there is no such program: a session that nothing was ever done in would stay behind.
pub fn ensure_startable(host: &dyn Host, argv: &[OsString], folder: &Path) -> Result<()> {
    let Some(program) = argv.first() else { return Ok(()) };
    if program.is_empty() {
        return Err(parhelia_agent::Error::Invalid(
            "the agent's command line begins with an empty word, which names no program".into(),
        )
        .into());
    }
    let is_program = |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    let places: Vec<PathBuf> = match (program.as_bytes().contains(&b'/'), host.variable("PATH")) {
        (true, _) => vec![folder.join(program)],
        (false, Some(path)) => std::env::split_paths(&path).map(|at| folder.join(at).join(program)).collect(),
        // The system has a path of its own.
        (false, None) => return Ok(()),
    };
    if places.iter().any(is_program) {
        return Ok(());
    }
    let is_there = places.iter().any(|path| path.exists());
    let why = if is_there { rustix::io::Errno::ACCESS } else { rustix::io::Errno::NOENT };
    Err(Error::Io { action: "start", path: program.into(), source: why.into() })
}

/// Starts the agent, its standard output where `output` leads, or where the caller has those of its agents.
pub(super) fn start(wanted: &Supervision<'_>, output: Option<OwnedFd>) -> Result<Child> {
    let (program, arguments) = wanted.argv.split_first().ok_or_else(|| lost("there is nothing to start"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&wanted.folder).envs(wanted.environment.iter().map(|(name, value)| (name, value)));
    for (name, value) in own_folder(wanted.host, wanted.config_folder.as_ref()) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let failed = |source| Error::Io { action: "start", path: program.into(), source };
    if let Some(output) = output.map_or_else(|| wanted.host.agents_output().map_err(failed), |output| Ok(Some(output)))? {
        command.stdout(output);
    }
    // In tmux, an interactive agent keeps its terminal, as what it says can be seen on the screen.
    if wanted.resumes.is_some() && (wanted.is_headless || wanted.host.tmux().is_none()) {
        command.stderr(Stdio::piped());
    }
    wanted.host.start_agent(&mut command).map_err(failed)
}

/// The standard error of a started agent, its process, and a descriptor that tells of its end.
pub(super) fn watch(child: &mut Child) -> Result<(Option<AgentStderr>, Identity, OwnedFd)> {
    let said = child.stderr.take().map(AgentStderr::listen).transpose()?;
    let agent = Identity::of(child.id() as i32)?;
    let pid = Pid::from_raw(agent.process).ok_or_else(|| lost("the agent has no process"))?;
    let fd = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| lost(&e.to_string()))?;
    Ok((said, agent, fd))
}
