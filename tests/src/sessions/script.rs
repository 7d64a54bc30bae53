//! The script of a session.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;
use serde_json::Value;

/// A session.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Its name: that of its file.
    #[serde(skip)]
    pub name: String,
    /// The crate on whose sources it works.
    #[serde(rename = "crate")]
    pub krate: String,
    /// Its subject, in a few words.
    pub title: String,
    /// Files whose text the next step needs, from the workspace folder.
    pub needs: Vec<String>,
    /// Files of the project beside the crate's own.
    #[serde(default)]
    pub files: Vec<ProjectFile>,
    /// The turns; in the last one the agent is killed.
    pub turns: Vec<Turn>,
    /// Facts of the first half.
    pub facts: Vec<Fact>,
}

/// A file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectFile {
    /// Its path from the workspace folder.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// The user's words.
    pub prompt: String,
    /// The model's calls.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The model's words at the end.
    #[serde(default)]
    pub reply: String,
}

/// A call of a tool: one of `read`, `grep`, `run`, `edit`, `write` and `todo`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// The model's words before it.
    pub say: Option<String>,
    /// Reads a file.
    pub read: Option<String>,
    /// Its first line.
    pub offset: Option<u64>,
    /// The number of lines.
    pub limit: Option<u64>,
    /// Searches for a pattern.
    pub grep: Option<String>,
    /// The file or folder that is searched.
    pub path: Option<String>,
    /// Runs a command.
    pub run: Option<String>,
    /// What the command prints, for who checks a script.
    pub note: Option<String>,
    /// Changes a file.
    pub edit: Option<String>,
    /// The text that is replaced.
    pub old: Option<String>,
    /// The text in its place.
    pub new: Option<String>,
    /// Writes a file.
    pub write: Option<String>,
    /// Its text.
    pub text: Option<String>,
    /// Sets the to-do list: texts, each with its status.
    pub todo: Option<Vec<(String, String)>>,
}

/// The kinds of fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A decision.
    Decision,
    /// An approach that failed.
    Failed,
    /// A port, or another such number.
    Port,
    /// A file or folder that must be left alone.
    Avoid,
}

/// A fact.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    /// Its kind.
    pub kind: Kind,
    /// Who says it: `user`, `agent` or `tool`.
    pub by: String,
    /// The fact, for people.
    pub what: String,
    /// A line that states the fact has all of these; `|` stands between words of which one is enough.
    pub words: Vec<String>,
}

impl Script {
    /// The script with talk of other sessions between its halves: so many of their turns, without calls.
    pub fn with_talk(&self, others: &[Script], turns: usize) -> Script {
        let talk = others.iter().filter(|other| other.name != self.name).flat_map(|other| &other.turns);
        let talk = talk.filter(|turn| !turn.reply.is_empty()).take(turns).map(|turn| Turn { steps: Vec::new(), ..turn.clone() });
        let half = self.turns.len() / 2;
        let turns = self.turns[..half].iter().cloned().chain(talk).chain(self.turns[half..].iter().cloned());
        Script { turns: turns.collect(), ..self.clone() }
    }
}

impl Fact {
    /// True if one line of a text states the fact.
    pub fn is_in(&self, text: &str) -> bool {
        text.lines().any(|line| {
            let line = line.to_lowercase();
            self.words.iter().all(|words| words.to_lowercase().split('|').any(|word| line.contains(word)))
        })
    }
}

/// The scripts of a folder, by name.
pub fn scripts(folder: &Path) -> Result<Vec<Script>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths.iter().map(|path| script(path)).collect()
}

fn script(path: &Path) -> Result<Script, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut script: Script = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    script.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(script)
}

/// The folder in which cargo keeps the sources of a crate that this workspace depends on.
pub fn sources(krate: &str) -> Result<PathBuf, String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let asked = Command::new(cargo).args(["metadata", "--format-version", "1", "--locked", "--manifest-path", manifest]).output();
    let output = asked.map_err(|e| format!("cannot run cargo: {e}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("cargo metadata: {e}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let path = packages.iter().find(|package| package["name"] == krate).and_then(|package| package["manifest_path"].as_str());
    let path = path.ok_or_else(|| format!("no crate {krate} among the dependencies"))?;
    Ok(Path::new(path).parent().unwrap_or(Path::new("/")).to_owned())
}
