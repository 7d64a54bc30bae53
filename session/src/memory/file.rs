//! The file of a project's memory in a store: `memory/<project>.json`, changed by one at a time, whole or not at all.

use std::{
    fs::{self, DirBuilder, File},
    io::ErrorKind,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use parhelia_agent::regular;
use parhelia_store::name::Shown as _;
use rustix::fs::{FlockOperation, flock};

use super::{
    document::{Memory, SCHEMA},
    project::Project,
};
use crate::{
    conversation::write_whole,
    error::{Error, IoContext, Refusal, Result},
};

/// The longest document, in bytes.
const BYTES_MAX: u64 = 8 << 20;

fn folder(store: &Path) -> PathBuf {
    store.join("memory")
}

fn path(store: &Path, project: &str) -> PathBuf {
    folder(store).join(format!("{project}.json"))
}

/// Reads what is known of a project; nothing is known where there is no file.
pub fn read(store: &Path, project: &Project, now: Timestamp) -> Result<Memory> {
    let found = read_at(&path(store, &project.id))?;
    Ok(found.unwrap_or_else(|| Memory::new(project.id.clone(), project.name.clone(), now)))
}

fn read_at(path: &Path) -> Result<Option<Memory>> {
    let bytes = match regular::read(path, BYTES_MAX) {
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
    let folder = folder(store);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).at("create folder", &folder)?;
    let lock = File::open(&folder).at("open folder", &folder)?;
    flock(&lock, FlockOperation::LockExclusive).at("lock", &folder)?;
    let mut memory = read(store, project, now)?;
    let (is_changed, result) = change(&mut memory)?;
    if is_changed {
        memory.last_updated = now;
        let mut bytes = serde_json::to_vec_pretty(&memory).map_err(|e| Error::Invalid(format!("it is no JSON: {e}")))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > BYTES_MAX {
            return Err(Error::Invalid(format!("the memory of a project has {BYTES_MAX} bytes at most; forget something first")));
        }
        write_whole(&path(store, &project.id), &mut &bytes[..])?;
    }
    Ok(result)
}

/// The projects of which something is known, by name, and what is wrong with files that cannot be read.
pub fn projects(store: &Path) -> (Vec<Project>, Vec<Error>) {
    let entries = fs::read_dir(folder(store)).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    for read in files.map(|file| read_at(&file)) {
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
    match path(store, &project.id).exists() {
        true => Ok(()),
        false => Err(Refusal::NoMemory { project: project.name.clone() }.into()),
    }
}
