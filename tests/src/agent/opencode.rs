//! The real opencode, run against the same API: a kind that no code of ours knows, declared as docs/agents.md has it.

use std::{
    fs,
    ops::Deref,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use super::{Api, home::AgentHome, install::opencode};
use crate::{binary, pages};

/// The block of a language in docs/agents.md that has these words.
pub fn documented(language: &str, words: &str) -> String {
    let page = pages::text(&pages::repository().join("docs/agents.md"));
    let begins = format!("```{language}\n");
    let mut blocks = page.split(begins.as_str()).skip(1).filter_map(|rest| rest.split("\n```").next());
    let block =
        blocks.find(|block| block.contains(words)).unwrap_or_else(|| panic!("docs/agents.md has no {language} with {words}"));
    format!("{block}\n")
}

/// opencode with a home, a workspace and a store of its own.
#[derive(Debug)]
pub struct Opencode(AgentHome);

impl Deref for Opencode {
    type Target = AgentHome;

    fn deref(&self) -> &AgentHome {
        &self.0
    }
}

impl Opencode {
    /// A new one, declared, and with the plugin. None where the CLI cannot be had; in CI that is a failure.
    pub fn new(api: &Api) -> Option<Self> {
        // It asks for nothing but its model: no list of models, no release, no packages of npm.
        let variables =
            [("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_MODELS_URL", "http://127.0.0.1:1"), ("NPM_CONFIG_OFFLINE", "true")];
        let variables = variables.map(|(name, value)| (name, value.to_owned())).to_vec();
        let made = Opencode(AgentHome::new("opencode", opencode(), tempfile::tempdir, ".local/share/opencode", variables)?);
        made.configure(api);
        let put = |path: &str, text: &str| write(&made.home().join(path), text);
        put(".config/opencode/plugin/parhelia.js", &documented("js", "chat.message"));
        put(".config/parhelia/parhelia.toml", &documented("toml", "[[agent]]"));
        // The plugin finds the program by its name.
        fs::create_dir_all(made.programs()).unwrap_or_else(|e| panic!("cannot create a folder: {e}"));
        symlink(binary(), made.programs().join("parhelia")).unwrap_or_else(|e| panic!("cannot link the binary: {e}"));
        Some(made)
    }

    /// The folder with the program that its plugin calls.
    fn programs(&self) -> PathBuf {
        self.folder().join("bin")
    }

    /// Writes the settings that it needs to ask our API.
    fn configure(&self, api: &Api) {
        let provider = json!({
            "npm": "@ai-sdk/anthropic",
            "name": "ours",
            "options": { "baseURL": format!("{}/v1", api.url()), "apiKey": "a-key-for-tests" },
            "models": { "m": { "name": "m" } },
        });
        let settings = json!({
            "autoupdate": false,
            "share": "disabled",
            "model": "ours/m",
            "small_model": "ours/m",
            "enabled_providers": ["ours"],
            "permission": { "bash": "allow", "edit": "allow" },
            "provider": { "ours": provider },
        });
        write(&self.home().join(".config/opencode/opencode.json"), &settings.to_string());
    }

    /// A command of ours, in its workspace and environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.0.command(arguments);
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        command.env("PATH", format!("{}:{path}", self.programs().display()));
        command
    }

    /// `session run` of a headless turn.
    pub fn run(&self, prompt: &str) -> Command {
        let program = self.program().to_string_lossy().into_owned();
        self.command(&["session", "run", "--interval", "0", "--", &program, "run", prompt])
    }
}

fn write(path: &Path, text: &str) {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
