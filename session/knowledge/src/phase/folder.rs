//! The folder of phase checkpoints: one file for each, made whole or not at all.

#![expect(clippy::disallowed_methods, reason = "phase checkpoints are in a folder of other programs")]

use std::{
    fs::{self, DirBuilder, File},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
};

use jiff::Timestamp;
use parhelia_agent::{durable::sync_names, regular};
use parhelia_store::id::OpId;
use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;

use super::state::Phase;
use parhelia_host::{Error, Result, error::IoContext};

/// The longest file of a phase checkpoint, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A folder of phase checkpoints.
pub struct Folder {
    path: PathBuf,
}

/// A phase checkpoint, and its file.
#[derive(Clone, Debug)]
pub struct PhaseFile {
    /// The checkpoint.
    pub phase: Phase,
    /// Path of its JSON file, in the folder of phase checkpoints.
    pub file: PathBuf,
}

/// The fields that tell whether one is offered.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    completed: bool,
    created_at: Timestamp,
}

/// Keeps other processes from changing a folder.
pub struct Turn {
    _file: File,
}

impl Folder {
    /// One at a path, which need not exist.
    pub fn at(path: PathBuf) -> Self {
        Folder { path }
    }

    /// Makes it where there is none, and waits until no other process changes it.
    pub fn turn(&self) -> Result<Turn> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path).at("create folder", &self.path)?;
        let file = File::open(&self.path).at("open folder", &self.path)?;
        flock(&file, FlockOperation::LockExclusive).at("lock", &self.path)?;
        Ok(Turn { _file: file })
    }

    /// All of them, the newest first. What is no phase checkpoint is passed over.
    pub fn list(&self) -> Result<Vec<PhaseFile>> {
        let mut found = in_threads(&self.names()?, read);
        found.sort_by(|one, other| (other.phase.created_at, &other.file).cmp(&(one.phase.created_at, &one.file)));
        Ok(found)
    }

    /// The newest one that is not completed. Of the others, no more is read than is needed to tell.
    pub fn newest_incomplete(&self) -> Result<Option<PhaseFile>> {
        let head = |file: &Path| {
            let head: Head = serde_json::from_slice(&regular::read(file, FILE_BYTES_MAX).ok()?).ok()?;
            (!head.completed).then(|| (head.created_at, file.to_owned()))
        };
        let mut found = in_threads(&self.names()?, head);
        found.sort_by(|one, other| other.cmp(one));
        Ok(found.iter().find_map(|(_, file)| read(file)).filter(|saved| !saved.phase.completed))
    }

    /// The one with an id.
    pub fn find(&self, id: &str) -> Result<Option<PhaseFile>> {
        let mut names = self.names()?;
        // Its file has the id in its name, unless another program has made it.
        let suffix = format!("-{id}.json");
        names.sort_by_key(|name| !name.as_os_str().as_encoded_bytes().ends_with(suffix.as_bytes()));
        Ok(names.iter().filter_map(|file| read(file)).find(|saved| saved.phase.id == id))
    }

    /// Writes one, in the place of the file that it had.
    pub fn write(&self, phase: &Phase, file: Option<&Path>, _turn: &Turn) -> Result<PhaseFile> {
        phase.ensure_valid()?;
        let mut bytes = serde_json::to_vec_pretty(phase).map_err(|e| Error::Invalid(format!("it is no JSON: {e}")))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let length = bytes.len();
            return Err(Error::Invalid(format!("a phase checkpoint has {FILE_BYTES_MAX} bytes at most, and this one {length}")));
        }
        let file = file.map_or_else(|| self.path.join(phase.file_name()), Path::to_owned);
        let draft = self.path.join(format!(".{}.tmp", OpId::generate()));
        let written = (|| {
            let mut out = File::options().write(true).create_new(true).mode(0o600).open(&draft).at("create", &draft)?;
            out.write_all(&bytes).at("write", &draft)?;
            out.sync_data().at("sync", &draft)?;
            fs::rename(&draft, &file).at("rename into place", &file)?;
            Ok(sync_names(&self.path)?)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written.map(|()| PhaseFile { phase: phase.clone(), file })
    }

    /// Removes the file of a phase checkpoint; one that is gone already is no failure.
    pub fn remove(&self, saved: &PhaseFile, _turn: &Turn) -> Result<()> {
        match fs::remove_file(&saved.file) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e).at("remove", &saved.file),
            _ => Ok(()),
        }
    }

    /// The files that may be phase checkpoints.
    fn names(&self) -> Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.at("read folder", &self.path)?,
        };
        let paths = entries.flatten().map(|entry| entry.path());
        let is_one = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            name.starts_with(b"ckpt-") && name.ends_with(b".json")
        };
        Ok(paths.filter(is_one).collect())
    }
}

/// The findings in some files, read by as many threads as there are processors.
fn in_threads<T: Send>(files: &[PathBuf], read: impl Fn(&Path) -> Option<T> + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let shares = files.chunks(files.len().div_ceil(threads).max(1));
    let read = |share: &[PathBuf]| share.iter().filter_map(|file| read(file)).collect::<Vec<_>>();
    thread::scope(|scope| {
        let readers: Vec<_> = shares.map(|share| scope.spawn(move || read(share))).collect();
        readers.into_iter().flat_map(|reader| reader.join().unwrap_or_default()).collect()
    })
}

fn read(file: &Path) -> Option<PhaseFile> {
    let phase = Phase::read(&regular::read(file, FILE_BYTES_MAX).ok()?).ok()?;
    Some(PhaseFile { phase, file: file.to_owned() })
}
