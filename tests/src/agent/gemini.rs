//! The real Gemini CLI, run against the same API.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::json;

use super::{Api, install::gemini};
use crate::binary;

/// Gemini CLI with a home, a workspace and a store of its own.
#[derive(Debug)]
pub struct Gemini {
    program: PathBuf,
    api: String,
    folder: tempfile::TempDir,
}

impl Gemini {
    /// A new one. None where the CLI cannot be had; in CI that is a failure.
    pub fn new(api: &Api) -> Option<Self> {
        let program = match gemini() {
            Ok(program) => program,
            Err(reason) if std::env::var_os("CI").is_some() => panic!("Gemini CLI cannot be installed: {reason}"),
            Err(reason) => {
                eprintln!("not run with Gemini CLI, which cannot be installed: {reason}");
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("no folder for Gemini CLI: {e}"));
        let made = Gemini { program, api: api.url(), folder };
        fs::create_dir_all(made.workspace()).unwrap_or_else(|e| panic!("cannot create its workspace: {e}"));
        made.configure();
        Some(made)
    }

    /// Makes its own folder, with the settings alone that it needs to start.
    pub fn configure(&self) {
        let settings = json!({
            "security": { "auth": { "selectedType": "gemini-api-key" } },
            "privacy": { "usageStatisticsEnabled": false },
            "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        });
        fs::create_dir_all(self.config()).unwrap_or_else(|e| panic!("cannot create its own folder: {e}"));
        fs::write(self.config().join("settings.json"), settings.to_string())
            .unwrap_or_else(|e| panic!("cannot write its settings: {e}"));
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap_or_else(|e| panic!("no folder for Gemini CLI: {e}"))
    }

    /// The folder in which it works.
    pub fn workspace(&self) -> PathBuf {
        self.folder().join("work")
    }

    /// Its own folder.
    pub fn config(&self) -> PathBuf {
        self.folder().join("home/.gemini")
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
        command.envs([("GEMINI_API_KEY", "a-key-for-tests"), ("GOOGLE_GEMINI_BASE_URL", &self.api)]);
        command.env("HOME", self.folder().join("home")).env("PARHELIA_STORE", self.store());
        command
    }

    /// `session run` of a headless turn that asks nobody.
    pub fn run(&self, prompt: &str) -> Command {
        let program = self.program.to_string_lossy().into_owned();
        // With a model of its own choice it would ask another one for that first.
        let flags = ["--model", "gemini-2.5-pro", "--skip-trust", "--yolo", "--prompt", prompt];
        self.command(&[&["session", "run", "--interval", "0", "--", &program][..], &flags].concat())
    }

    /// The output of a command of ours. Panics where it failed.
    pub fn expect(&self, arguments: &[&str]) -> String {
        let output: Output = self.command(arguments).output().unwrap_or_else(|e| panic!("cannot run it: {e}"));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The files of its conversations.
    pub fn chats(&self) -> Vec<PathBuf> {
        let below = |folder: &PathBuf| {
            let found: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            found
        };
        let projects = below(&self.config().join("tmp"));
        projects.iter().flat_map(|project| below(&project.join("chats"))).filter(|path| path.is_file()).collect()
    }
}
