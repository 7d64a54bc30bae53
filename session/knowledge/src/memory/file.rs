//! The file of a project's memory in a store: `memory/<project>.json`, changed by one at a time, whole or not at all.

use std::{
    ffi::{OsStr, OsString},
    io::ErrorKind,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use parhelia_ledger::Session;
use parhelia_store::{files::Folder, name::NameExt as _};
use rustix::fs::{FlockOperation, flock};

use super::{
    document::{Memory, SCHEMA},
    project::Project,
};
use parhelia_host::{Error, KnowledgeRefusal, Refusal, Result, error::IoContext};

/// The longest document, in bytes.
const BYTES_MAX: u64 = 8 << 20;

/// The folder's name in the store's.
const FOLDER: &str = "memory";

fn name(project: &str) -> OsString {
    format!("{project}.json").into()
}

fn path(store: &Path, name: &OsStr) -> PathBuf {
    store.join(FOLDER).join(name)
}

/// Reads what is known of a project; nothing is known where there is no file.
pub fn read(store: &Path, project: &Project, now: Timestamp) -> Result<Memory> {
    let found = read_at(store, &name(&project.id))?;
    Ok(found.unwrap_or_else(|| Memory::new(project.id.clone(), project.name.clone(), now)))
}

fn read_at(store: &Path, name: &OsStr) -> Result<Option<Memory>> {
    let path = &path(store, name);
    let bytes = match Folder::inside(store, FOLDER).and_then(|folder| folder.read(name, BYTES_MAX)) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.at("read", path)?,
    };
    let memory: Memory = serde_json::from_slice(&bytes)
        .map_err(|e| Error::Invalid(format!("{} is no memory of a project: {e}; correct it, or move it aside", path.shown())))?;
    match memory.schema {
        SCHEMA => Ok(Some(memory)),
        other => Err(Error::Invalid(format!("{} is of version {other}, and this release knows {SCHEMA}", path.shown()))),
    }
}

/// Changes it. Nothing is written where `change` fails, or says that nothing has changed.
pub fn change<T>(
    store: &Path,
    project: &Project,
    now: Timestamp,
    change: impl FnOnce(&mut Memory) -> Result<(bool, T)>,
) -> Result<T> {
    let shown = store.join(FOLDER);
    let folder = Folder::made_inside(store, FOLDER).at("create folder", &shown)?;
    let lock = folder.listable().at("open folder", &shown)?;
    flock(&lock, FlockOperation::LockExclusive).at("lock", &shown)?;
    let mut memory = read(store, project, now)?;
    let is_first = memory.folders.is_empty() && memory.is_empty();
    let (is_changed, result) = change(&mut memory)?;
    if is_changed {
        memory.folders.extend(project.folder.clone().filter(|_| is_first));
        memory.last_updated = now;
        let mut bytes = serde_json::to_vec_pretty(&memory).map_err(|e| Error::Invalid(format!("it is no JSON: {e}")))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > BYTES_MAX {
            return Err(Error::Invalid(format!("the memory of a project has {BYTES_MAX} bytes at most; forget something first")));
        }
        let name = name(&project.id);
        folder.write_synced(&name, &bytes, false).at("write", &path(store, &name))?;
    }
    Ok(result)
}

impl Project {
    /// The one of a workspace: that which it says it is of, if nothing is known of that from other folders, or if a person has confirmed it; else
    /// the folder's own.
    pub fn of(store: &Path, workspace: &Path, session: Option<&Session>) -> Self {
        let claimed = Self::claimed(workspace, session);
        match claimed.folder.clone().filter(|folder| !is_confirmed(store, &claimed, folder)) {
            Some(folder) => Project { unconfirmed: Some(claimed.name), ..Project::named(&folder) },
            None => claimed,
        }
    }
}

/// True if a folder is of a project that it says it is of: nothing is known of that yet, or a person has confirmed it.
pub fn is_confirmed(store: &Path, project: &Project, folder: &str) -> bool {
    // What cannot be read is told to nobody anyway, and not hidden as another project's.
    read_at(store, &name(&project.id))
        .ok()
        .flatten()
        .is_none_or(|memory| memory.folders.iter().any(|known| known == folder) || memory.folders.is_empty() && memory.is_empty())
}

/// The projects of which something is known, by name, and what is wrong with files that cannot be read.
pub fn projects(store: &Path) -> (Vec<Project>, Vec<Error>) {
    let names = match Folder::inside(store, FOLDER).and_then(|folder| folder.names()) {
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(source) => return (Vec::new(), vec![Error::Io { action: "list", path: store.join(FOLDER), source }]),
        Ok(names) => names,
    };
    let names = names.into_iter().map(OsString::from_vec);
    let files = names.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "json"));
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    for read in files.map(|name| read_at(store, &name)) {
        match read {
            Ok(memory) => found.extend(memory.map(|memory| Project::named(&memory.project))),
            Err(e) => damaged.push(e),
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    (found, damaged)
}

/// Fails where nothing is known of a project.
pub fn ensure_known(store: &Path, project: &Project) -> Result<()> {
    match Folder::inside(store, FOLDER).and_then(|folder| folder.stat(&name(&project.id))) {
        Ok(_) => Ok(()),
        Err(_) => Err(Refusal::Knowledge(KnowledgeRefusal::NoMemory { project: project.name.clone() }).into()),
    }
}
