//! `parhelia.toml`: what can be configured, where it is read from, and what is in force.
//!
//! In rising order: defaults, the user's file, the project's file, the file that `--config` names, environment variables. Flags of a
//! verb stand above all of them and are the verb's own. Every option is in one table ([`options`]), from which files, variables, the
//! example file and `config show` follow. What a call from inside an agent says about the user's options ([`call`]) comes last, and counts
//! only where it makes them stricter. Whatever in a project's file does not count is named and passed over: no project stops its user's
//! checkpoints.

mod agents;
pub mod call;
pub mod channels;
mod cost;
mod file;
pub mod integrations;
pub mod notifications;
pub mod options;
mod sections;
pub mod servers;
pub mod summary;
mod value;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::{Path, PathBuf},
};

use parhelia_agent::declaration::Declaration;
use parhelia_store::name::NameExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::policy::Approval;
use crate::{Error, Result};
pub use call::{Call, IgnoredSetting};
pub use cost::Cost;
pub use file::declared;
pub use integrations::Integrations;
pub use notifications::{Budget, Notifications};
pub use options::OPTIONS;
use options::{Level, Opt};
pub use sections::{Briefing, Capture, Context, Environment, Inject, Mode, OnFinding, Remote, Retention, Secrets, Service};
pub use servers::Mcp;
pub use summary::Summary;
pub use value::size;

/// The file's name.
pub const FILE_NAME: &str = "parhelia.toml";

/// Everything that can be configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The store's folder.
    pub store: Option<PathBuf>,
    /// The longest wait for another process's commit, in seconds.
    pub lock_timeout_seconds: f64,
    /// Options of capturing a workspace.
    pub capture: Capture,
    /// Options of capturing the environment.
    pub environment: Environment,
    /// Options of the list of files for a resumed agent.
    pub context: Context,
    /// Options of MCP servers.
    pub mcp: Mcp,
    /// Rules by which old checkpoints are removed (`[retention]`).
    pub retention: Retention,
    /// The scan for secrets.
    pub secrets: Secrets,
    /// Limits of a briefing.
    pub inject: Inject,
    /// Options of briefings besides their size (`[briefing]`).
    pub briefing: Briefing,
    /// Summaries by a model.
    pub summary: Summary,
    /// Policies, and limits beyond which a person decides (`[approval]`).
    pub approval: Approval,
    /// Channels, and rules for what goes where (`[notifications]`).
    pub notifications: Notifications,
    /// Prices of models (`[cost]`).
    pub cost: Cost,
    /// The budget of a session.
    pub budget: Budget,
    /// Issue trackers.
    pub integrations: Integrations,
    /// The remote.
    pub remote: Remote,
    /// Options of the service.
    pub service: Service,
    /// Kinds of agents beside those that are built in.
    pub agent: Vec<Declaration>,
}

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// One of the configuration files sets it.
    File {
        /// Path of the file, as it was opened.
        path: PathBuf,
        /// Line of the option in the file, from 1.
        line: usize,
    },
    /// A variable of the caller's environment sets it.
    Environment {
        /// Name of the variable, such as `PARHELIA_STORE`.
        name: &'static str,
    },
}

/// An option's value in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The option.
    pub key: &'static str,
    /// Its value; null where there is none.
    pub value: Value,
    /// The file or variable that sets the value, or neither.
    pub origin: Origin,
}

/// Files in which configuration is looked for.
#[derive(Clone, Debug, Default)]
pub struct ConfigFiles {
    /// The user's file, if it exists.
    pub user: Option<PathBuf>,
    /// The project's file, if it exists.
    pub project: Option<PathBuf>,
    /// The file that the command line names; it must exist.
    pub named: Option<PathBuf>,
    /// The call, where it comes from inside an agent.
    pub call: Call,
}

/// Configuration in force.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The configuration in force.
    pub config: Config,
    /// Every option, in the table's order.
    pub effective: Vec<Effective>,
    /// The files that were read, in rising order.
    pub files: Vec<PathBuf>,
    /// What a project's file and a call from inside an agent say that does not count.
    pub ignored: Vec<IgnoredSetting>,
}

type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Config {
    /// The names of the environment variables that hold secrets of channels and of issue trackers.
    pub fn secret_variables(&self) -> BTreeSet<String> {
        let channels = self.notifications.channels.values().flat_map(channels::variables);
        let tokens = [&self.integrations.github.token, &self.integrations.linear.api_key];
        let tokens = tokens.into_iter().flatten().flat_map(|token| token.names().map(str::to_owned));
        channels.chain(tokens).collect()
    }
}

impl ConfigFiles {
    /// The usual places for a workspace: the user's configuration folder; and the workspace folder or the nearest one above it that
    /// has a file, up to the repository's.
    pub fn usual(env: Env, workspace: &Path, named: Option<PathBuf>) -> Self {
        let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
        let user = folder.map(|folder| folder.join("parhelia").join(FILE_NAME));
        let mut project = None;
        for folder in workspace.ancestors() {
            let file = folder.join(FILE_NAME);
            if file.exists() {
                project = Some(file);
            }
            if project.is_some() || folder.join(".git").exists() {
                break;
            }
        }
        ConfigFiles { user, project, named, call: Call::default() }
    }
}

/// Reads all of it. Unknown options and values that do not fit are errors in the user's own files; elsewhere they are passed over, as options
/// are that a project or a call may not set.
pub fn load(places: &ConfigFiles, env: Env) -> Result<LoadedConfig> {
    let mut set = Settings::default();
    set.file(places.user.as_deref(), Level::User, false)?;
    set.project(places.project.as_deref());
    set.file(places.named.as_deref(), Level::User, true)?;
    for option in &OPTIONS {
        let found = option.variables.iter().find_map(|name| env(name).filter(|text| !text.is_empty()).map(|text| (*name, text)));
        if let Some((name, text)) = found {
            set.values.insert(option.key, (from_variable(option, name, &text)?, Origin::Environment { name }));
        }
    }
    set.call(&places.call);
    let Settings { mut values, files, ignored } = set;
    let effective: Vec<Effective> = OPTIONS.iter().map(|option| effective(option, &mut values)).collect();
    let config = serde_json::from_value(nested(&effective));
    let config: Config = config.map_err(|e| Error::Config { place: "configuration".into(), reason: e.to_string() })?;
    let fault = config.approval.fault().or_else(|| config.notifications.fault());
    let fault = fault.or_else(|| config.integrations.fault()).or_else(|| config.summary.fault()).or_else(|| config.cost.fault());
    if let Some((key, why)) = fault {
        let origin = effective.iter().find(|found| found.key == key).map(|found| &found.origin);
        return Err(Error::Config { place: place(origin), reason: format!("`{key}`: {why}") });
    }
    Ok(LoadedConfig { config, effective, files, ignored })
}

/// What was set so far, and where.
#[derive(Default)]
struct Settings {
    values: BTreeMap<&'static str, (Value, Origin)>,
    files: Vec<PathBuf>,
    ignored: Vec<IgnoredSetting>,
}

impl Settings {
    /// Reads a file of the user's.
    fn file(&mut self, path: Option<&Path>, level: Level, must_exist: bool) -> Result<()> {
        let Some(path) = path else { return Ok(()) };
        let Some(text) = file::read(path, must_exist)? else { return Ok(()) };
        for setting in file::parse(path, &text, level)? {
            let setting = setting?;
            self.values.insert(setting.option.key, (setting.value, Origin::File { path: path.to_owned(), line: setting.line }));
        }
        self.files.push(path.to_owned());
        Ok(())
    }

    /// Reads the project's file, as far as it can be read and counts.
    fn project(&mut self, path: Option<&Path>) {
        let Some(path) = path else { return };
        for setting in self.lenient(path, Level::Project) {
            self.values.insert(setting.option.key, (setting.value, Origin::File { path: path.to_owned(), line: setting.line }));
        }
    }

    /// The settings of a file that others than the user may have written. What cannot be used of it is noted.
    fn lenient(&mut self, path: &Path, level: Level) -> Vec<file::Setting> {
        let found = match file::read(path, false) {
            Ok(None) => return Vec::new(),
            Ok(Some(text)) => file::parse(path, &text, level),
            Err(error) => Err(error),
        };
        self.files.push(path.to_owned());
        let (mut settings, mut note) = (Vec::new(), |error: Error| match error {
            Error::Config { place, reason } => {
                self.ignored.push(IgnoredSetting { file: Some(path.to_owned()), place, why: reason })
            }
            error => {
                let (file, place) = (Some(path.to_owned()), path.shown().to_string());
                self.ignored.push(IgnoredSetting { file, place, why: error.to_string() });
            }
        });
        match found {
            Ok(found) => found.into_iter().for_each(|setting| match setting {
                Ok(setting) => settings.push(setting),
                Err(error) => note(error),
            }),
            Err(error) => note(error),
        }
        settings
    }

    /// Takes what a call from inside an agent says, where it makes an option stricter.
    fn call(&mut self, call: &Call) {
        if let Some(path) = &call.file {
            for setting in self.lenient(path, Level::User) {
                let origin = Origin::File { path: path.to_owned(), line: setting.line };
                self.tighten(setting.option, setting.value, origin);
            }
        }
        for (name, text) in &call.variables {
            let Some(option) = OPTIONS.iter().find(|option| option.variables.contains(&name.as_str())) else {
                let why = "from inside an agent, it is as the agent's user had it".into();
                self.ignored.push(IgnoredSetting { file: None, place: place_of(name), why });
                continue;
            };
            let name = option.variables.iter().copied().find(|known| known == name).unwrap_or_default();
            let asked = match text.as_ref().filter(|text| !text.is_empty()) {
                Some(text) => from_variable(option, name, text),
                None => Ok((option.default)()),
            };
            match asked {
                Ok(asked) => self.tighten(option, asked, Origin::Environment { name }),
                Err(error) => self.ignored.push(IgnoredSetting { file: None, place: place_of(name), why: error.to_string() }),
            }
        }
    }

    fn tighten(&mut self, option: &'static Opt, asked: Value, origin: Origin) {
        let now = self.values.get(option.key).map_or_else(|| (option.default)(), |(value, _)| value.clone());
        if !option.inside.allows(option.kind, &now, &asked) {
            self.ignored.push(IgnoredSetting { file: None, place: place(Some(&origin)), why: call::looser(option) });
        } else if now != asked {
            self.values.insert(option.key, (asked, origin));
        }
    }
}

fn place_of(variable: &str) -> String {
    format!("environment variable {variable}")
}

/// The place where somebody set a value.
fn place(origin: Option<&Origin>) -> String {
    match origin {
        Some(Origin::File { path, line }) => format!("{}:{line}", path.shown()),
        Some(Origin::Environment { name }) => place_of(name),
        _ => "configuration".into(),
    }
}

fn from_variable(option: &Opt, name: &str, text: &OsString) -> Result<Value> {
    let value = text.to_str().ok_or_else(|| "it is not valid UTF-8".to_owned()).and_then(|text| option.kind.read_text(text));
    value.map_err(|reason| Error::Config { place: place_of(name), reason })
}

fn effective(option: &'static Opt, set: &mut BTreeMap<&'static str, (Value, Origin)>) -> Effective {
    let (value, origin) = set.remove(option.key).unwrap_or_else(|| ((option.default)(), Origin::Default));
    Effective { key: option.key, value, origin }
}

/// Values by section.
fn nested(effective: &[Effective]) -> Value {
    let mut root = Map::new();
    for Effective { key, value, .. } in effective {
        insert(&mut root, key, value);
    }
    Value::Object(root)
}

fn insert(fields: &mut Map<String, Value>, key: &str, value: &Value) {
    match key.split_once('.') {
        None => drop(fields.insert(key.to_owned(), value.clone())),
        Some((section, rest)) => {
            if let Value::Object(fields) = fields.entry(section).or_insert_with(|| Value::Object(Map::new())) {
                insert(fields, rest, value);
            }
        }
    }
}
