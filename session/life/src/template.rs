//! Workspaces that are copies of an agent folder: the instructions, settings and tools that each new session of an agent begins with.

#![expect(clippy::disallowed_methods, reason = "makes workspaces")]

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use parhelia_ledger::{LedgerView as _, Session};
use parhelia_store::{Store, name, progress::Progress};
use serde_json::Value;

use parhelia_host::{
    Error, Host, Refusal, Result,
    error::IoContext,
    run::{AGENT_FOLDER, new_session_id},
};

/// The agent folder of which a session's workspace is a copy.
pub fn agent_folder(session: &Session) -> Option<PathBuf> {
    let recorded = session.extra.get(AGENT_FOLDER).and_then(Value::as_str)?;
    Some(name::as_path(&name::parse(recorded)).to_owned())
}

/// The workspace of a session that is a copy of an agent folder: the same for the same id, below the user's folder for data.
fn workspace_of(host: &dyn Host, session: &str) -> Result<PathBuf> {
    let absolute = |name: &str| host.variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    let data = data.ok_or_else(|| Error::Invalid("there is neither XDG_DATA_HOME nor a home for the workspace".into()))?;
    Ok(data.join("parhelia-workspaces").join(session))
}

/// A new session's workspace that is a copy of an agent folder.
#[derive(Clone, Debug)]
pub struct WorkspaceCopy {
    /// The id of the session.
    pub id: String,
    /// Path of the agent folder, as the caller gave it.
    pub folder: PathBuf,
    /// Path of the copy, in which the session works.
    pub workspace: PathBuf,
}

impl WorkspaceCopy {
    /// Copies an agent folder for a new session whose id is made here; whole or not at all.
    pub fn make(host: &dyn Host, folder: PathBuf, progress: &dyn Progress) -> Result<Self> {
        let id = new_session_id(&folder);
        let workspace = workspace_of(host, &id)?;
        copy(&folder, &workspace, progress)?;
        Ok(WorkspaceCopy { id, folder, workspace })
    }

    /// The name of a session that is given none: the agent's, not the copy's.
    pub(crate) fn name(&self) -> Option<String> {
        self.folder.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// The result of a launch in it. Where that failed before the session began, the copy is removed: nothing has ever worked in it.
    pub fn or_removed<T, E: From<parhelia_store::Error>>(&self, store: &Store, launched: Result<T, E>) -> Result<T, E> {
        if launched.is_err() && store.refresh()?.session(&self.id)?.is_none() {
            let _ = fs::remove_dir_all(&self.workspace);
        }
        launched
    }
}

/// Makes a workspace of an agent folder, whole or not at all. Sockets, pipes and devices are left out, which the observer is told.
pub(crate) fn copy(folder: &Path, workspace: &Path, progress: &dyn Progress) -> Result<()> {
    let folder = folder.canonicalize().at("read the agent folder", folder)?;
    if !folder.is_dir() {
        return Err(Error::Invalid(format!("the agent folder {} is no folder", folder.display())));
    }
    let parent = workspace.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).at("create folder", parent)?;
    if parent.canonicalize().at("read", parent)?.starts_with(&folder) {
        return Err(Refusal::CopyIntoItself { folder, workspace: workspace.to_owned() }.into());
    }
    let mut draft = workspace.as_os_str().to_owned();
    draft.push(".part");
    let draft = PathBuf::from(draft);
    if draft.exists() {
        fs::remove_dir_all(&draft).at("remove the unfinished copy", &draft)?;
    }
    // An empty folder in the workspace's place gives way; one with something in it does not.
    copy_folder(&folder, &draft, progress)
        .and_then(|()| fs::rename(&draft, workspace).at("put the workspace at", workspace))
        .inspect_err(|_| drop(fs::remove_dir_all(&draft)))
}

/// Copies a folder to a place where nothing is.
pub(crate) fn copy_folder(from: &Path, to: &Path, progress: &dyn Progress) -> Result<()> {
    fs::create_dir(to).at("create folder", to)?;
    for entry in fs::read_dir(from).at("read", from)? {
        let entry = entry.at("read", from)?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().at("read", &from)?;
        match () {
            () if kind.is_dir() => copy_folder(&from, &to, progress)?,
            () if kind.is_symlink() => symlink(fs::read_link(&from).at("read", &from)?, &to).at("create", &to)?,
            () if kind.is_file() => copy_file(&from, &to)?,
            () => progress.notice(&format!("{} is no file and was not copied", from.display())),
        }
    }
    let found = fs::metadata(from).at("read", from)?;
    fs::set_permissions(to, found.permissions()).at("set the permissions of", to)
}

/// Copies contents, permissions and the time of the last change, by which git knows that a file has not changed.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).at("copy", from)?;
    let changed = fs::metadata(from).and_then(|found| found.modified()).at("read", from)?;
    // One that nobody may write is opened by its owner alone as root; its time is of no use to anybody then.
    if let Ok(file) = File::options().write(true).open(to) {
        file.set_modified(changed).at("set the time of", to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::PermissionsExt, net::UnixListener};

    use super::*;

    #[test]
    fn a_copy_is_what_the_folder_is() {
        let scratch = tempfile::tempdir().unwrap();
        let (folder, workspace) = (scratch.path().join("agent"), scratch.path().join("deep/copy"));
        fs::create_dir_all(folder.join("tools")).unwrap();
        fs::write(folder.join("tools/run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(folder.join("tools/run"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("CLAUDE.md"), "Be kind.\n").unwrap();
        symlink("CLAUDE.md", folder.join("AGENTS.md")).unwrap();
        let _socket = UnixListener::bind(folder.join("socket")).unwrap();
        copy(&folder, &workspace, &()).unwrap();
        assert_eq!(fs::read_to_string(workspace.join("AGENTS.md")).unwrap(), "Be kind.\n");
        assert_eq!(fs::read_link(workspace.join("AGENTS.md")).unwrap(), Path::new("CLAUDE.md"));
        let (was, is) = ("tools/run", workspace.join("tools/run"));
        let (was, is) = (fs::metadata(folder.join(was)).unwrap(), fs::metadata(is).unwrap());
        assert_eq!((was.permissions(), was.modified().unwrap()), (is.permissions(), is.modified().unwrap()));
        assert!(!workspace.join("socket").exists());
        // It never takes the place of work.
        copy(&folder, &workspace, &()).unwrap_err();
        assert!(workspace.join("CLAUDE.md").exists());
        assert_eq!(fs::read_dir(scratch.path().join("deep")).unwrap().count(), 1, "nothing unfinished stays");
    }

    #[test]
    fn no_folder_is_copied_into_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let refused = copy(scratch.path(), &scratch.path().join("below/it"), &()).unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::CopyIntoItself { .. })), "{refused}");
    }
}
