//! `parhelia.toml`: what can be configured, where it is read from, and what is in force.
//!
//! In rising order: defaults, the user's file, the project's file, the file that `--config` names, environment variables. Flags of a
//! verb stand above all of them and are the verb's own. Every option is in one table ([`options`]), from which files, variables, the
//! example file and `config show` follow. What a call from inside an agent says about the user's options ([`call`]) comes last, and counts
//! only where it makes them stricter. Whatever in a project's file does not count is named and passed over: no project stops its user's
//! checkpoints.

pub mod call;
pub mod channels;
mod file;
pub mod integrations;
pub mod notifications;
pub mod options;
pub mod servers;
pub mod summary;
mod value;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_store::{name::Shown as _, record::Rules};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::approval::policy::Approval;
use crate::error::{Error, Result};
pub use call::{Call, Ignored};
pub use integrations::Integrations;
pub use notifications::{Budget, Notifications};
pub use options::OPTIONS;
use options::{Level, Opt};
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
    /// Retention of checkpoints.
    pub retention: Retention,
    /// The scan for secrets.
    pub secrets: Secrets,
    /// Limits of a briefing.
    pub inject: Inject,
    /// Summaries by a model.
    pub summary: Summary,
    /// Options of approval.
    pub approval: Approval,
    /// Options of notifications.
    pub notifications: Notifications,
    /// The budget of a session.
    pub budget: Budget,
    /// Issue trackers.
    pub integrations: Integrations,
    /// Options of the service.
    pub service: Service,
}

/// Options of capturing a workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    /// True to leave out what can be proven to be regenerable.
    pub default_excludes: bool,
    /// Patterns of what to leave out, in gitignore syntax.
    pub exclude: Vec<String>,
    /// Names of entries whose folder is left out.
    pub exclude_if_present: Vec<String>,
    /// True to stay on one filesystem.
    pub one_file_system: bool,
    /// After how many days every file is read again, whatever its times say; 0 for never.
    pub read_all_after_days: u64,
    /// The time limit of git, in seconds.
    pub git_timeout_seconds: f64,
    /// A checkpoint that stores more is told of, in bytes; 0 for never.
    pub warn_bytes: u64,
}

impl Capture {
    /// The time limit of git.
    pub fn git_timeout(&self) -> Duration {
        Duration::try_from_secs_f64(self.git_timeout_seconds).unwrap_or(Duration::MAX)
    }

    /// After how many seconds every file is read again, whatever its times say; `None` for never.
    pub fn read_all_after_secs(&self) -> Option<u64> {
        (self.read_all_after_days > 0).then(|| self.read_all_after_days.saturating_mul(86_400))
    }

    /// The rules by which entries are left out where a verb says nothing else.
    pub fn rules(&self) -> Rules {
        Rules {
            defaults: self.default_excludes,
            patterns: self.exclude.clone(),
            if_present: self.exclude_if_present.clone(),
            one_file_system: self.one_file_system,
            ..Rules::default()
        }
    }
}

/// Options of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// The age at which the platform ends the container that the service is in, in hours; 0 for never.
    pub max_lifetime_hours: f64,
    /// Hours between two times of retention and gc; 0 for never.
    pub upkeep_hours: f64,
    /// The share of all data that is read and hashed each day, in percent; 0 for none.
    pub check_percent: u64,
    /// Names of variables that agents which the service begins get besides the usual ones; `*` stands for anything.
    pub agent_variables: Vec<String>,
}

/// Options of capturing the environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Names of variables to capture besides the usual ones; `*` stands for anything.
    pub variables: Vec<String>,
    /// Names of variables never to capture, besides those that look like secrets.
    pub deny_variables: Vec<String>,
    /// Python packages that are named one by one.
    pub packages: Vec<String>,
}

/// The amount of detail that a resumed agent gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A summary.
    Summary,
    /// The files' content, too.
    #[default]
    Stateful,
}

/// Options of the list of files for a resumed agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Summary, or files too.
    pub mode: Mode,
    /// True to list files.
    pub capture_files: bool,
    /// True to list work done and decisions.
    pub capture_analysis: bool,
    /// Largest file that is listed as fit to be shown, in bytes.
    pub max_file_bytes: u64,
    /// Bytes of all of them together.
    pub max_total_bytes: u64,
    /// Patterns of what not to list, in gitignore syntax.
    pub exclude: Vec<String>,
    /// Tokens of the model's context window; 0 for those of the model.
    pub window_tokens: u64,
}

/// Retention of checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Retention {
    /// True to remove a session's old checkpoints after each new one.
    pub automatic: bool,
    /// The number of newest checkpoints of a session that are always kept.
    pub keep_last: u64,
    /// The number of hours of which the newest checkpoint is kept.
    pub keep_hourly: u64,
    /// The same for days.
    pub keep_daily: u64,
    /// The same for weeks.
    pub keep_weekly: u64,
    /// The same for months.
    pub keep_monthly: u64,
    /// The same for years.
    pub keep_yearly: u64,
    /// The maximum age of a checkpoint of an agent's session, in hours.
    pub max_age_hours: u64,
    /// The maximum age of a checkpoint of a folder that no agent has worked in, in hours.
    pub folder_max_age_hours: u64,
    /// True to keep checkpoints at a task's end for good.
    pub keep_complete: bool,
    /// True to keep checkpoints at an error for good.
    pub keep_error: bool,
    /// For how long every checkpoint is kept, in hours.
    pub all_hours: u64,
    /// For how long one an hour is kept, in hours; later one a day.
    pub hourly_hours: u64,
    /// Bytes that the store may take; 0 is no limit.
    pub max_store_bytes: u64,
}

/// The consequence of a possible secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFinding {
    /// It is reported.
    #[default]
    Report,
    /// The checkpoint asks for a review, too.
    Review,
    /// The file is left out of the checkpoint.
    LeaveOut,
}

/// The scan for secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Secrets {
    /// True to scan what is new in a checkpoint.
    pub scan: bool,
    /// The consequence of a possible secret.
    pub on_finding: OnFinding,
    /// Patterns of files that are not scanned, in gitignore syntax.
    pub allow: Vec<String>,
}

/// Limits of a briefing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inject {
    /// Most tokens.
    pub max_tokens: u64,
    /// Most characters.
    pub max_characters: u64,
}

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A file.
    File {
        /// The file's path.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// The variable's name.
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
    /// Its origin.
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
pub struct Loaded {
    /// The configuration in force.
    pub config: Config,
    /// Every option, in the table's order.
    pub effective: Vec<Effective>,
    /// The files that were read, in rising order.
    pub files: Vec<PathBuf>,
    /// What a project's file and a call from inside an agent say that does not count.
    pub ignored: Vec<Ignored>,
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
pub fn load(places: &ConfigFiles, env: Env) -> Result<Loaded> {
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
    let fault = fault.or_else(|| config.integrations.fault()).or_else(|| config.summary.fault());
    if let Some((key, why)) = fault {
        let origin = effective.iter().find(|found| found.key == key).map(|found| &found.origin);
        return Err(Error::Config { place: place(origin), reason: format!("`{key}`: {why}") });
    }
    Ok(Loaded { config, effective, files, ignored })
}

/// What was set so far, and where.
#[derive(Default)]
struct Settings {
    values: BTreeMap<&'static str, (Value, Origin)>,
    files: Vec<PathBuf>,
    ignored: Vec<Ignored>,
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
            Error::Config { place, reason } => self.ignored.push(Ignored { place, why: reason }),
            error => self.ignored.push(Ignored { place: path.shown().to_string(), why: error.to_string() }),
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
                self.ignored.push(Ignored { place: place_of(name), why });
                continue;
            };
            let name = option.variables.iter().copied().find(|known| known == name).unwrap_or_default();
            let asked = match text.as_ref().filter(|text| !text.is_empty()) {
                Some(text) => from_variable(option, name, text),
                None => Ok((option.default)()),
            };
            match asked {
                Ok(asked) => self.tighten(option, asked, Origin::Environment { name }),
                Err(error) => self.ignored.push(Ignored { place: place_of(name), why: error.to_string() }),
            }
        }
    }

    fn tighten(&mut self, option: &'static Opt, asked: Value, origin: Origin) {
        let now = self.values.get(option.key).map_or_else(|| (option.default)(), |(value, _)| value.clone());
        if !option.inside.allows(option.kind, &now, &asked) {
            self.ignored.push(Ignored { place: place(Some(&origin)), why: call::looser(option) });
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
