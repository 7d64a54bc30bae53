//! The real Codex CLI, run against the same API.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use super::{
    Api,
    install::{cache, codex},
};
use crate::binary;

/// Codex with a home, a workspace and a store of its own.
#[derive(Debug)]
pub struct Codex {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Codex {
    /// A new one. None where the CLI cannot be had; in CI that is a failure.
    pub fn new(api: &Api) -> Option<Self> {
        let program = match codex() {
            Ok(program) => program,
            Err(reason) if std::env::var_os("CI").is_some() => panic!("Codex cannot be installed: {reason}"),
            Err(reason) => {
                eprintln!("not run with Codex, which cannot be installed: {reason}");
                return None;
            }
        };
        // It refuses a home below the system's folder of temporary files.
        let below = cache().unwrap_or_else(|e| panic!("no folder for Codex: {e}"));
        let folder = tempfile::tempdir_in(below).unwrap_or_else(|e| panic!("no folder for Codex: {e}"));
        let made = Codex { program, folder };
        for folder in [made.config(), made.workspace()] {
            fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("cannot create {}: {e}", folder.display()));
        }
        let config = format!(
            "model = \"a-model\"\nmodel_provider = \"ours\"\n\n[model_providers.ours]\nname = \"ours\"\nbase_url = \"{}/v1\"\n\
             wire_api = \"responses\"\nrequest_max_retries = 1\nstream_max_retries = 1\n\n[analytics]\nenabled = false\n",
            api.url()
        );
        fs::write(made.config().join("config.toml"), config).unwrap_or_else(|e| panic!("cannot write its settings: {e}"));
        Some(made)
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap_or_else(|e| panic!("no folder for Codex: {e}"))
    }

    /// The folder in which it works.
    pub fn workspace(&self) -> PathBuf {
        self.folder().join("work")
    }

    /// Its own folder.
    pub fn config(&self) -> PathBuf {
        self.folder().join("home/.codex")
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
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        let mut command = Command::new(binary());
        command.args(arguments).env_clear().current_dir(self.workspace()).stdin(Stdio::null());
        command.envs([("PATH", path.as_str()), ("TERM", "xterm-256color"), ("LANG", "C.UTF-8")]);
        command.env("HOME", self.folder().join("home")).env("PARHELIA_STORE", self.store());
        command
    }

    /// `session run` of a headless turn with these flags of the agent's.
    pub fn run(&self, flags: &[&str], prompt: &str) -> Command {
        let program = self.program.to_string_lossy().into_owned();
        let start = ["session", "run", "--interval", "0", "--", &program, "exec", "--skip-git-repo-check"];
        let free = "--dangerously-bypass-approvals-and-sandbox";
        self.command(&[&start, &[free][..], flags, &[prompt]].concat())
    }

    /// The output of a command of ours. Panics where it failed.
    pub fn expect(&self, arguments: &[&str]) -> String {
        let output: Output = self.command(arguments).output().unwrap_or_else(|e| panic!("cannot run it: {e}"));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The files of its conversations.
    pub fn rollouts(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.config().join("sessions")];
        for _ in 0..4 {
            let below = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
            folders = below.map(|entry| entry.path()).collect();
        }
        folders.retain(|path| path.as_os_str().as_bytes().ends_with(b".jsonl"));
        folders
    }
}
