//! Files of one run of the agent CLI, and the requests that the API saw. Live ones are compared with the index; one that was recorded,
//! with invented content, stands in where the CLI cannot be installed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{Agent, Exchange};

/// The conversation's id in every run.
pub const SESSION: &str = "5f1e7c52-6a0b-4b53-9a35-0c6a1b0f5d01";

/// The folder in which the agent's files pretend to lie in the recorded run.
const PRETENDED: &str = "/home/dev";

/// Parts of a record that are the CLI's own words, and not ours to give away, are cut to so many characters.
const OWN_WORDS_MAX: usize = 40;

/// Files and requests of one run.
#[derive(Debug)]
pub struct Run {
    /// The agent's configuration folder.
    pub config: PathBuf,
    /// The folder in which it worked, as the transcript names it.
    pub workspace: String,
    /// Requests that the API saw, one object for each ([`seen`]).
    pub seen: Vec<Value>,
    /// The agent's printed output.
    pub stream: PathBuf,
    folder: Option<tempfile::TempDir>,
}

/// The compared parts of an exchange: who asked, what we answered, and which results and texts of the user the request carried.
pub fn seen(exchange: &Exchange) -> Value {
    let results: Vec<Value> = exchange.blocks("tool_result").into_iter().map(|(_, block)| block).collect();
    let texts = exchange.blocks("text").into_iter().filter(|(role, _)| role == "user").map(|(_, block)| block["text"].clone());
    let prompts: Vec<Value> = texts.filter(|text| !text.as_str().unwrap_or_default().starts_with("<system-reminder>")).collect();
    json!({
        "number": exchange.number,
        "session": exchange.session,
        "subagent": exchange.subagent,
        "message": exchange.message,
        "usage": exchange.usage,
        "calls": exchange.calls(),
        "results": results,
        "prompts": prompts,
    })
}

/// From the package's folder, in which cargo runs its tests.
fn fixture() -> PathBuf {
    PathBuf::from("fixtures/agent")
}

fn must<T, E: std::fmt::Display>(result: Result<T, E>, path: &Path) -> T {
    result.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

impl Run {
    /// The run of an agent of this process.
    pub fn of(agent: &Agent, exchanges: &[Exchange], stream: &[u8]) -> Self {
        let path = agent.folder().join("stream.jsonl");
        must(fs::write(&path, stream), &path);
        let workspace = agent.workspace().to_string_lossy().into_owned();
        Run { config: agent.config(), workspace, seen: exchanges.iter().map(seen).collect(), stream: path, folder: None }
    }

    /// The recorded one, in a copy of its own.
    pub fn recorded() -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("no folder: {e}"));
        copy(&fixture(), folder.path(), &|text| text);
        let exchanges = folder.path().join("exchanges.json");
        let seen = must(serde_json::from_slice(&must(fs::read(&exchanges), &exchanges)), &exchanges);
        Run {
            config: folder.path().join("config"),
            workspace: format!("{PRETENDED}/work"),
            seen,
            stream: folder.path().join("stream.jsonl"),
            folder: Some(folder),
        }
    }

    /// True if it is the recorded one.
    pub fn is_recorded(&self) -> bool {
        self.folder.is_some()
    }

    /// Puts it into the repository, in place of the one that is there.
    pub fn record(&self, agent: &Agent) {
        let target = fixture();
        let _ = fs::remove_dir_all(&target);
        let (folder, slug) =
            (agent.folder(), |path: &Path| path.to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
        let names = [(slug(&folder), slug(Path::new(PRETENDED))), (folder.to_string_lossy().into_owned(), PRETENDED.to_owned())];
        let pretend = |text: String| names.iter().fold(text, |text, (from, to)| text.replace(from, to));
        let clean = |text: String| pretend(text.lines().map(|line| without_own_words(line) + "\n").collect());
        for kind in ["projects", "tasks"] {
            copy(&self.config.join(kind), &target.join("config").join(pretend(kind.into())), &clean);
        }
        let projects = target.join("config/projects");
        let project = projects.join(slug(&agent.workspace()));
        must(fs::rename(&project, projects.join(slug(Path::new(&format!("{PRETENDED}/work"))))), &project);
        let stream = must(fs::read_to_string(&self.stream), &self.stream);
        must(fs::write(target.join("stream.jsonl"), clean(stream)), &target);
        let exchanges = must(serde_json::to_string_pretty(&self.seen), &target);
        must(fs::write(target.join("exchanges.json"), pretend(exchanges) + "\n"), &target);
    }
}

/// A line of a transcript or a stream without descriptions of the CLI's tools, skills and agents.
fn without_own_words(line: &str) -> String {
    let Ok(mut record) = serde_json::from_str::<Value>(line) else { return line.to_owned() };
    match record["type"].as_str() {
        Some("attachment") => cut(&mut record["attachment"]),
        Some("system") => {
            for name in ["tools", "slash_commands", "agents", "skills"] {
                cut(&mut record[name]);
            }
        }
        _ => {}
    }
    record.to_string()
}

fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.chars().count() > OWN_WORDS_MAX => *text = "(left out)".into(),
        Value::Array(values) => {
            values.truncate(2);
            values.iter_mut().for_each(cut);
        }
        Value::Object(fields) => fields.values_mut().for_each(cut),
        _ => {}
    }
}

fn copy(from: &Path, to: &Path, change: &dyn Fn(String) -> String) {
    must(fs::create_dir_all(to), to);
    for entry in must(fs::read_dir(from), from) {
        let path = must(entry, from).path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target, change);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            must(fs::write(&target, change(must(fs::read_to_string(&path), &path))), &target);
        } else if path.file_name().is_some_and(|name| name != ".lock") {
            must(fs::copy(&path, &target), &path);
        }
    }
}
