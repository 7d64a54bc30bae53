//! The folder of a kind of agent, and the files in it that are no conversations.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{folder::FolderNames, secrets::SecretFiles};

/// The folder of a kind of agent, and the files in it that are no conversations.
pub trait Files {
    /// The names by which it finds its own folder.
    fn folder_names(&self) -> FolderNames;

    /// Its credentials, which no checkpoint takes in.
    fn secrets(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> SecretFiles;

    /// The user's file with MCP servers, as JSON; none where it is of another form.
    fn servers_of_user(&self, _variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        None
    }

    /// The same of a project.
    fn servers_of_project(&self, _project: &Path) -> Option<PathBuf> {
        None
    }
}
