//! The program itself: configuration, mounts, scripts.

use jiff::Timestamp;
use parhelia_host::config::{Effective, Origin as Source};
use parhelia_store::name::NameExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// An option's value in force.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Setting {
    /// The option.
    pub key: String,
    /// Its value; null if there is none.
    pub value: Value,
    /// Origin of the value.
    pub origin: Origin,
}

/// Origin of an option's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Origin {
    /// default, file, environment.
    pub kind: String,
    /// The file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl From<&Effective> for Setting {
    fn from(option: &Effective) -> Self {
        let (kind, path, line, name) = match &option.origin {
            Source::Default => ("default", None, None, None),
            Source::File { path, line } => ("file", Some(path.shown()), Some(*line as u64), None),
            Source::Environment { name } => ("environment", None, None, Some((*name).to_owned())),
        };
        Setting { key: option.key.into(), value: option.value.clone(), origin: Origin { kind: kind.into(), path, line, name } }
    }
}

/// A mounted checkpoint, or a mounted store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mount {
    /// Folder on which it is mounted.
    pub mountpoint: String,
    /// The checkpoint or the store that is mounted, for people.
    pub what: String,
    /// Process that serves it.
    pub process: u32,
    /// Time of its start.
    #[schemars(extend("format" = "date-time"))]
    pub started_at: String,
}

/// A script for a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Script {
    /// Name of the shell, such as bash or zsh.
    pub shell: String,
    /// The script.
    pub text: String,
}

/// A browser that is signed in at a service's page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Browser {
    /// Id by which the browser is signed out.
    pub id: String,
    /// Name that it gave itself.
    pub name: String,
    /// Time at which it signed in.
    pub created_at: Timestamp,
    /// Time at which it was there last, up to an hour less.
    pub used_at: Timestamp,
}

/// A service that can be connected to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Service {
    /// The store's folder.
    pub store: String,
    /// Path of the Unix socket that it listens on.
    pub socket: String,
    /// Address of its page, where it listens for browsers.
    pub page: Option<String>,
    /// File with the token for that.
    pub token: Option<String>,
    /// Process id of the service.
    pub process: u32,
}
