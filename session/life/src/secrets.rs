//! The agents' credentials, for a store that leaves them out.

use std::ffi::OsString;

use parhelia_agent::{kinds, secrets};
use parhelia_store::secrets::{SecretFolder, Secrets};

/// The credentials of every known agent, by the variables that tell where it keeps them.
pub fn secrets(variable: &dyn Fn(&str) -> Option<OsString>) -> Secrets {
    let found = kinds::secrets(variable);
    let folder = |secrets::SecretFolder { path_end, beside, names }| SecretFolder { path_end, beside, names };
    Secrets {
        reason: "the agent's credentials".into(),
        names: found.names,
        folders: found.folders.into_iter().map(folder).collect(),
        files: found.files,
    }
}
