//! The agent's credentials, for a store that leaves them out.

use std::ffi::OsString;

use parhelia_agent::claude;
use parhelia_store::secrets::{SecretFolder, Secrets};

/// The credentials of every known agent, by the variables that tell where it keeps them.
pub fn secrets(variable: impl Fn(&str) -> Option<OsString>) -> Secrets {
    let found = claude::secrets(variable);
    let folder = |claude::SecretFolder { path_end, beside, names }| SecretFolder { path_end, beside, names };
    Secrets {
        reason: "the agent's credentials".into(),
        names: found.names,
        folders: found.folders.into_iter().map(folder).collect(),
        files: found.files,
    }
}
