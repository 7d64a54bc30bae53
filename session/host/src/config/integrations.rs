//! Issue trackers: how they are reached, and what follows from events.
//!
//! None of it can be set by a project: an agent can write its files, and they must not say where data goes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use parhelia_ledger::Issue;
use serde::{Deserialize, Serialize};

use super::channels::Variable;

/// Options of issue trackers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Integrations {
    /// Access to issues of GitHub, by its REST API.
    pub github: GitHub,
    /// Access to issues of Linear, by its GraphQL API.
    pub linear: Linear,
    /// Use of Beads, whose issues lie in the workspace itself.
    pub beads: Beads,
    /// The consequence of a session's error.
    pub on_error: OnError,
    /// The consequence of a person's approval of a session's result.
    pub on_approval: OnApproval,
    /// True to link sessions to the issues that their name, first prompt and git branch name.
    pub auto_link: bool,
    /// Names of workflow states.
    pub states: States,
    /// Overrides for projects, by absolute folder.
    pub projects: BTreeMap<PathBuf, Project>,
    /// True if trackers may be reached without TLS on this machine.
    pub insecure_loopback: bool,
}

/// Access to GitHub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GitHub {
    /// Variable with the token; none where it is in a file, or GitHub is not used.
    pub token: Option<Variable>,
    /// The file with the token.
    pub token_file: Option<PathBuf>,
    /// The repository of `#123`, as `OWNER/REPO`.
    pub default_repo: Option<String>,
    /// The address of the REST API.
    pub api: String,
}

/// Options of the tracker Linear: key, team and address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    /// Variable with the API key; none where it is in a file, or Linear is not used.
    pub api_key: Option<Variable>,
    /// The file with the API key.
    pub api_key_file: Option<PathBuf>,
    /// The key of the team whose issues are meant, such as `ENG`.
    pub default_team: Option<String>,
    /// The address of the GraphQL API.
    pub api: String,
}

/// Options of the tracker Beads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beads {
    /// True to use it where a workspace has a folder `.beads`.
    pub enabled: bool,
}

/// The consequence of a session's error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// A comment on its issues; a new issue where it has none.
    #[default]
    Create,
    /// A comment on its issues.
    Comment,
    /// No issue is made or commented on.
    None,
}

/// The consequence of an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnApproval {
    /// The issue is closed.
    #[default]
    Close,
    /// The issue is moved to the state `done` where there are workflow states.
    Move,
    /// A comment on its issues, which stay open.
    Comment,
    /// The issues stay as they are.
    None,
}

/// Names of workflow states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct States {
    /// The state of an issue whose session runs.
    pub running: String,
    /// The state of an issue whose session waits for a review.
    pub review: String,
    /// The state of an issue whose session's result was approved.
    pub done: String,
}

/// Overrides for a project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Project {
    /// Its repository of GitHub.
    #[serde(default)]
    pub github: Option<String>,
    /// Its team of Linear.
    #[serde(default)]
    pub linear: Option<String>,
    /// The consequence of an error.
    #[serde(default)]
    pub on_error: Option<OnError>,
    /// The consequence of an approval.
    #[serde(default)]
    pub on_approval: Option<OnApproval>,
}

impl Integrations {
    /// True if a tracker is configured that is reached over the network.
    pub fn are_on(&self) -> bool {
        self.github.is_on() || self.linear.is_on()
    }

    /// The overrides for a workspace: those of the nearest folder at or above it.
    pub fn project(&self, workspace: &Path) -> Project {
        workspace.ancestors().find_map(|folder| self.projects.get(folder)).cloned().unwrap_or_default()
    }

    /// The repository of a workspace's issues.
    pub fn repository(&self, workspace: &Path) -> Option<String> {
        self.project(workspace).github.or_else(|| self.github.default_repo.clone())
    }

    /// The team of a workspace's issues.
    pub fn team(&self, workspace: &Path) -> Option<String> {
        self.project(workspace).linear.or_else(|| self.linear.default_team.clone())
    }

    /// True of an issue in the place that the configuration names for a workspace: its repository, its team, or its own Beads.
    pub fn is_own(&self, issue: &Issue, workspace: &Path) -> bool {
        let is_in = |place: Option<String>, separator: char| {
            let own = issue.id.split_once(separator).map(|(place, _)| place);
            own.zip(place.as_deref()).is_some_and(|(own, place)| own.eq_ignore_ascii_case(place))
        };
        match issue.tracker.as_str() {
            "github" => is_in(self.repository(workspace), '#'),
            "linear" => is_in(self.team(workspace), '-'),
            // Whatever writes there is run in the workspace.
            "beads" => true,
            _ => false,
        }
    }

    /// True if something follows for an issue of a workspace: a person asked for the link, or it is an issue of the workspace's own place.
    pub fn acts_on(&self, issue: &Issue, is_asked: bool, workspace: &Path) -> bool {
        !is_asked || self.is_own(issue, workspace)
    }

    /// The option that does not fit the others, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let both = |name: &str| format!("`{name}` and `{name}_file` exclude each other");
        let GitHub { token, token_file, default_repo, .. } = &self.github;
        if token.is_some() && token_file.is_some() {
            return Some(("integrations.github.token", both("token")));
        }
        if self.linear.api_key.is_some() && self.linear.api_key_file.is_some() {
            return Some(("integrations.linear.api_key", both("api_key")));
        }
        if let Some(name) = default_repo.as_ref().filter(|name| !is_repository(name)) {
            return Some(("integrations.github.default_repo", format!("'{name}' is no OWNER/REPO")));
        }
        let team = self.linear.default_team.as_ref().filter(|team| !is_team(team));
        team.map(|team| ("integrations.linear.default_team", no_team(team)))
    }
}

impl GitHub {
    /// True if it is configured.
    pub fn is_on(&self) -> bool {
        self.token.is_some() || self.token_file.is_some()
    }
}

impl Linear {
    /// True if it is configured.
    pub fn is_on(&self) -> bool {
        self.api_key.is_some() || self.api_key_file.is_some()
    }
}

/// The overrides of a configuration. Fails with what does not fit.
pub(super) fn checked(value: serde_json::Value) -> Result<serde_json::Value, String> {
    for (folder, project) in value.as_object().into_iter().flatten() {
        if !Path::new(folder).is_absolute() {
            return Err(format!("'{folder}' is no absolute path"));
        }
        let parsed = serde_json::from_value::<Project>(project.clone()).map_err(|e| format!("project {folder}: {e}"))?;
        if let Some(name) = parsed.github.filter(|name| !is_repository(name)) {
            return Err(format!("project {folder}: '{name}' is no OWNER/REPO"));
        }
        if let Some(team) = parsed.linear.filter(|team| !is_team(team)) {
            return Err(format!("project {folder}: {}", no_team(&team)));
        }
    }
    Ok(value)
}

fn no_team(team: &str) -> String {
    format!("'{team}' is no key of a team; give what stands before the number of its issues, such as ENG, or the team's id")
}

fn is_repository(text: &str) -> bool {
    let is_name = |name: &str| {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        (1..=100).contains(&name.len()) && !matches!(name, "." | "..") && name.bytes().all(is_allowed)
    };
    text.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

/// True of a team's key, and of its id, which is a UUID.
fn is_team(text: &str) -> bool {
    if uuid::Uuid::try_parse(text).is_ok() {
        return true;
    }
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.len() <= 32 && text.bytes().all(is_word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_project_takes_what_the_nearest_folder_says() {
        let projects = json!({
            "/w": { "github": "o/all", "on_error": "none" },
            "/w/one": { "github": "o/one", "linear": "OPS" },
        });
        let projects = serde_json::from_value(checked(projects).unwrap()).unwrap();
        let github = GitHub { default_repo: Some("o/default".into()), ..GitHub::default() };
        let options = Integrations { projects, github, ..Integrations::default() };
        let repository = |path: &str| options.repository(Path::new(path)).unwrap();
        assert_eq!(repository("/w/one/deep"), "o/one");
        assert_eq!(repository("/w/oneself"), "o/all");
        assert_eq!(repository("/elsewhere"), "o/default");
        assert_eq!(options.team(Path::new("/w/one")).as_deref(), Some("OPS"));
        assert_eq!(options.project(Path::new("/w")).on_error, Some(OnError::None));
    }

    #[test]
    fn overrides_that_cannot_work_are_refused() {
        let refused = |value| checked(value).unwrap_err();
        assert!(refused(json!({"w": {}})).contains("absolute"));
        assert!(refused(json!({"/w": {"github": "o"}})).contains("OWNER/REPO"));
        assert!(refused(json!({"/w": {"linear": "a b"}})).contains("team"));
        assert!(refused(json!({"/w": {"token": "x"}})).contains("token"));
    }
}
