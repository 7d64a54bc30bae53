//! A real agent with a home, a workspace and a store of its own, for tests that start it through the binary.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use super::install::installed;
use crate::{binary, make_store};

/// The home of an agent, and all that belongs to it.
#[derive(Debug)]
pub struct AgentHome {
    program: PathBuf,
    folder: tempfile::TempDir,
    own: &'static str,
    variables: Vec<(&'static str, String)>,
}

impl AgentHome {
    /// A new one in a folder, of an agent whose own folder in its home is `own`, and which needs these variables. None where its program cannot
    /// be had; in CI that is a failure.
    pub fn new(
        name: &str,
        program: Result<PathBuf, String>,
        folder: impl FnOnce() -> std::io::Result<tempfile::TempDir>,
        own: &'static str,
        variables: Vec<(&'static str, String)>,
    ) -> Option<Self> {
        let program = installed(name, program)?;
        let folder = folder().unwrap_or_else(|e| panic!("no folder for {name}: {e}"));
        let made = AgentHome { program, folder, own, variables };
        for folder in [made.config(), made.workspace()] {
            fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("cannot create {}: {e}", folder.display()));
        }
        Some(made)
    }

    /// Everything that is the agent's.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap_or_else(|e| panic!("its folder is gone: {e}"))
    }

    /// The folder in which it works.
    pub fn workspace(&self) -> PathBuf {
        self.folder().join("work")
    }

    /// Its home.
    pub fn home(&self) -> PathBuf {
        self.folder().join("home")
    }

    /// Its own folder.
    pub fn config(&self) -> PathBuf {
        self.home().join(self.own)
    }

    /// The store.
    pub fn store(&self) -> PathBuf {
        self.folder().join("store")
    }

    /// Its program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A command of ours, in its workspace and environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        make_store(&self.store());
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        let mut command = Command::new(binary());
        command.args(arguments).env_clear().current_dir(self.workspace()).stdin(Stdio::null());
        command.envs([("PATH", path.as_str()), ("TERM", "xterm-256color"), ("LANG", "C.UTF-8")]);
        command.envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())));
        command.env("HOME", self.home()).env("PARHELIA_STORE", self.store());
        command
    }

    /// The output of a command of ours. Panics where it failed.
    pub fn expect(&self, arguments: &[&str]) -> String {
        let output: Output = self.command(arguments).output().unwrap_or_else(|e| panic!("cannot run it: {e}"));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
