//! Sections of the configuration that are plain options.

use std::{path::PathBuf, time::Duration};

use parhelia_store::record::Rules;
use serde::{Deserialize, Serialize};

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

/// Options of the remote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Remote {
    /// Its URL; absent for none, or the one that the store has joined.
    pub url: Option<String>,
    /// True if what is made there is encrypted.
    pub encrypt: bool,
    /// True to push after each verb that records something.
    pub push: bool,
    /// The file with the passphrase in its first line.
    pub passphrase_file: Option<PathBuf>,
    /// Program and arguments that print the passphrase.
    pub passphrase_command: Vec<String>,
    /// Program and arguments that print credentials for S3.
    pub credential_command: Vec<String>,
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
    /// A summary of the work, without content of files.
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

/// The section `[retention]`: how many checkpoints of a session are kept, and for how long.
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
    /// Upper bound of a briefing, in estimated tokens.
    pub max_tokens: u64,
    /// Upper bound of a briefing, in characters.
    pub max_characters: u64,
}

/// The section `[briefing]`: what a briefing has besides its limits in `[inject]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Briefing {
    /// True if a conversation that begins after another one is told of that.
    pub after_clear: bool,
}
