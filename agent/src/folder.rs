//! The agent's own folder: the one that its environment names, and how it finds that again in another environment.

use std::{ffi::OsString, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Names the folder in which an agent's own is, unless another variable names that itself.
pub(crate) const HOME: &str = "HOME";

/// The names by which an agent finds its own folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderNames {
    /// The variable that names the folder.
    pub variable: &'static str,
    /// Its name in the home folder, where that variable is not set.
    pub in_home: &'static str,
    /// Its path in the folder that the variable names, where that is not the folder itself.
    pub in_variable: Option<&'static str>,
}

/// The agent's own folder, and the variable that names it: which files the agent looks for beside it depends on that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFolder {
    /// The folder.
    #[serde(with = "parhelia_name::shown")]
    pub path: PathBuf,
    /// Such as `CLAUDE_CONFIG_DIR`, or `HOME`.
    pub variable: String,
}

impl ConfigFolder {
    /// The one that an environment names by these names.
    pub(crate) fn by(names: FolderNames, variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let named = |path: PathBuf, variable: &str| ConfigFolder { path, variable: variable.to_owned() };
        let in_it = |path: PathBuf| names.in_variable.map_or_else(|| path.clone(), |inside| path.join(inside));
        let own = Some(names.variable).filter(|name| !name.is_empty()).and_then(set);
        let own = own.map(|path| named(in_it(path), names.variable));
        own.or_else(|| set(HOME).map(|home| named(home.join(names.in_home), HOME)))
    }
}
