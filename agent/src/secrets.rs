//! Files that hold the credentials of agents.

use std::path::PathBuf;

/// Files with credentials, which no checkpoint takes in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretFiles {
    /// Names of entries, in any folder. One `*` in a name stands for any bytes.
    pub names: Vec<String>,
    /// More names, in some folders only.
    pub folders: Vec<SecretFolder>,
    /// Files that are left out under any name.
    pub files: Vec<PathBuf>,
}

/// Folders in which some names are secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretFolder {
    /// The end of the folder's absolute path, by whole names.
    pub path_end: PathBuf,
    /// Names one of which lies beside the folder; no matter where there are none.
    pub beside: Vec<String>,
    /// Names of entries in it, as in [`SecretFiles::names`].
    pub names: Vec<String>,
}
