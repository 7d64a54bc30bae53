//! The real agent CLI, run against an API of ours on the loopback interface, so that tests drive it through any turns they like: what
//! the model "says" is a script, and the tools that it calls run for real.
//!
//! ```no_run
//! use parhelia_tests::agent::{Agent, Api, Reply, tool};
//! use serde_json::json;
//!
//! # fn main() {
//! let api = Api::start([
//!     Reply::of([tool("Bash", json!({"command": "echo made > made.txt"}))]),
//!     Reply::text("Done."),
//! ]);
//! let Some(agent) = Agent::new(&api) else { return };
//! let output = agent.prompt("make a file", &["--session-id", "7b0e0f3c-5d0c-4a52-9c0e-0d6a4a1f0c11"]);
//! assert!(output.status.success() && agent.workspace().join("made.txt").exists());
//! # }
//! ```

mod api;
mod codex;
mod gemini;
mod home;
mod http;
mod install;
mod opencode;
pub mod recorded;
mod reply;

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::json;

pub use api::{Api, Exchange};
pub use codex::Codex;
pub use gemini::Gemini;
pub use home::AgentHome;
pub use install::{
    VERSION, codex as codex_program, executable, gemini as gemini_program, installed, newer as newer_program,
    opencode as opencode_program,
};
pub use opencode::{Opencode, documented};
pub use reply::{Block, Reply, text, tool};

/// The key that the agent sends to our API.
const KEY: &str = "sk-ant-a-dummy-key-for-tests-0000000000000000";

/// An agent with a home and a workspace of its own.
#[derive(Debug)]
pub struct Agent {
    program: PathBuf,
    api: String,
    folder: tempfile::TempDir,
}

impl Agent {
    /// A new one. None where the CLI cannot be had; in CI that is a failure.
    pub fn new(api: &Api) -> Option<Self> {
        Self::with(api, executable())
    }

    /// A newer release of it, which writes down what a conversation has cost.
    pub fn newer(api: &Api) -> Option<Self> {
        Self::with(api, install::newer())
    }

    fn with(api: &Api, program: Result<PathBuf, String>) -> Option<Self> {
        let program = installed("Claude Code", program)?;
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("no folder for the agent: {e}"));
        let agent = Agent { program, api: api.url(), folder };
        for folder in [agent.home(), agent.workspace()] {
            fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("cannot create {}: {e}", folder.display()));
        }
        Some(agent)
    }

    /// Everything that is the agent's.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap_or_else(|e| panic!("no folder for the agent: {e}"))
    }

    /// Its home.
    pub fn home(&self) -> PathBuf {
        self.folder().join("home")
    }

    /// Its configuration folder.
    pub fn config(&self) -> PathBuf {
        self.home().join(".claude")
    }

    /// The folder in which it works.
    pub fn workspace(&self) -> PathBuf {
        self.folder().join("work")
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The environment that it needs: nothing of ours but the search path, and every connection but that to our API turned off.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        let mut environment = vec![
            ("PATH", path),
            ("HOME", self.home().to_string_lossy().into_owned()),
            ("TERM", "xterm-256color".into()),
            ("LANG", "C.UTF-8".into()),
            ("ANTHROPIC_BASE_URL", self.api.clone()),
            ("ANTHROPIC_API_KEY", KEY.into()),
        ];
        let off =
            ["DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"];
        environment.extend(off.map(|name| (name, "1".into())));
        // Lets root work without being asked about every tool.
        environment.push(("IS_SANDBOX", "1".into()));
        environment
    }

    /// A command line of the agent in its workspace.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env_clear().envs(self.environment()).current_dir(self.workspace()).stdin(Stdio::null());
        command
    }

    /// The arguments of a headless turn that asks nobody, and prints a stream of JSON.
    pub fn headless(prompt: &str) -> Vec<String> {
        let arguments = ["-p", prompt, "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"];
        arguments.map(str::to_owned).to_vec()
    }

    /// Runs a headless turn to its end.
    pub fn prompt(&self, prompt: &str, arguments: &[&str]) -> Output {
        let mut all = Agent::headless(prompt);
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self.command(&all).output().unwrap_or_else(|e| panic!("cannot run the agent: {e}"))
    }

    /// Starts a headless turn.
    pub fn start(&self, prompt: &str, arguments: &[&str]) -> Child {
        let mut all = Agent::headless(prompt);
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let mut command = self.command(&all);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|e| panic!("cannot run the agent: {e}"))
    }

    /// Answers beforehand what an interactive agent would ask at its first start: theme, trust in the workspace, the key.
    pub fn prepare_interactive(&self) {
        let workspace = self.workspace().to_string_lossy().into_owned();
        let settings = json!({
            "hasCompletedOnboarding": true,
            "theme": "dark",
            "bypassPermissionsModeAccepted": true,
            "projects": { workspace: { "hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true } },
            "customApiKeyResponses": { "approved": [&KEY[KEY.len() - 20..]], "rejected": [] },
        });
        let path = self.home().join(".claude.json");
        fs::write(&path, settings.to_string()).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
    }

    /// The transcript of a conversation.
    pub fn transcript(&self, session: &str) -> PathBuf {
        let projects = self.config().join("projects");
        let found = fs::read_dir(&projects).into_iter().flatten().flatten();
        let mut found = found.map(|project| project.path().join(format!("{session}.jsonl"))).filter(|path| path.exists());
        found.next().unwrap_or_else(|| panic!("no transcript of {session} below {}", projects.display()))
    }
}
