//! The real Gemini CLI, run against the same API.

use std::{fs, ops::Deref, path::PathBuf, process::Command};

use serde_json::json;

use super::{Api, home::AgentHome, install::gemini};

/// Gemini CLI with a home, a workspace and a store of its own.
#[derive(Debug)]
pub struct Gemini(AgentHome);

impl Deref for Gemini {
    type Target = AgentHome;

    fn deref(&self) -> &AgentHome {
        &self.0
    }
}

impl Gemini {
    /// A new one. None where the CLI cannot be had; in CI that is a failure.
    pub fn new(api: &Api) -> Option<Self> {
        let variables = vec![("GEMINI_API_KEY", "a-key-for-tests".to_owned()), ("GOOGLE_GEMINI_BASE_URL", api.url())];
        let made = Gemini(AgentHome::new("Gemini CLI", gemini(), tempfile::tempdir, ".gemini", variables)?);
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

    /// `session run` of a headless turn that asks nobody.
    pub fn run(&self, prompt: &str) -> Command {
        let program = self.program().to_string_lossy().into_owned();
        // With a model of its own choice it would ask another one for that first.
        let flags = ["--model", "gemini-2.5-pro", "--skip-trust", "--yolo", "--prompt", prompt];
        self.command(&[&["session", "run", "--interval", "0", "--", &program][..], &flags].concat())
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
