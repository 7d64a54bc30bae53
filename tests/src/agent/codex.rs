//! The real Codex CLI, run against the same API.

use std::{fs, ops::Deref, os::unix::ffi::OsStrExt, path::PathBuf, process::Command};

use super::{Api, home::AgentHome, install::codex};

/// Codex with a home, a workspace and a store of its own.
#[derive(Debug)]
pub struct Codex(AgentHome);

impl Deref for Codex {
    type Target = AgentHome;

    fn deref(&self) -> &AgentHome {
        &self.0
    }
}

impl Codex {
    /// A new one. None where the CLI cannot be had; in CI that is a failure.
    pub fn new(api: &Api) -> Option<Self> {
        // It refuses a home below the system's folder of temporary files.
        let folder = || tempfile::tempdir_in(crate::cache("agent"));
        let made = Codex(AgentHome::new("Codex", codex(), folder, ".codex", Vec::new())?);
        let config = format!(
            "model = \"a-model\"\nmodel_provider = \"ours\"\n\n[model_providers.ours]\nname = \"ours\"\nbase_url = \"{}/v1\"\n\
             wire_api = \"responses\"\nrequest_max_retries = 1\nstream_max_retries = 1\n\n[analytics]\nenabled = false\n",
            api.url()
        );
        fs::write(made.config().join("config.toml"), config).unwrap_or_else(|e| panic!("cannot write its settings: {e}"));
        Some(made)
    }

    /// `session run` of a headless turn with these flags of the agent's.
    pub fn run(&self, flags: &[&str], prompt: &str) -> Command {
        let program = self.program().to_string_lossy().into_owned();
        let start = ["session", "run", "--interval", "0", "--", &program, "exec", "--skip-git-repo-check"];
        let free = "--dangerously-bypass-approvals-and-sandbox";
        self.command(&[&start, &[free][..], flags, &[prompt]].concat())
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
