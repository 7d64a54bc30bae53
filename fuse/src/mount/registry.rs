//! `<store>/mounts/`: one file for each mount, held locked by the process that serves it. A file that nobody holds is of a mount whose
//! process died.

use std::{
    ffi::OsString,
    fs::File,
    io::{Read, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use parhelia_store::{
    Store, clock,
    files::{self, How},
    name,
    record::Checkpoint,
};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{
    error::{Error, Result},
    filesystem::store::file_name,
    mount::unmount::detach_dead,
};

/// The text of a mount's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountText {
    /// The mountpoint, as people read it.
    pub mountpoint: String,
    /// Its bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mountpoint_bytes: Option<Vec<u8>>,
    /// The process that serves it.
    pub process: u32,
    /// The thing that it shows: a checkpoint's id, with `:path` where that is a part of it, or `store`.
    pub what: String,
    /// Since when (RFC 3339, UTC).
    pub started_at: String,
}

impl MountText {
    /// The mountpoint as a path.
    pub fn path(&self) -> PathBuf {
        match &self.mountpoint_bytes {
            Some(bytes) => PathBuf::from(OsString::from_vec(bytes.clone())),
            None => PathBuf::from(&self.mountpoint),
        }
    }
}

/// A mount of a store.
#[derive(Clone, Debug)]
pub struct FoundMount {
    /// The text of its file.
    pub text: MountText,
    /// True while its process lives.
    pub alive: bool,
    file: PathBuf,
}

/// The file of a mount that this process serves. Goes away with it.
#[derive(Debug)]
pub(crate) struct Registration {
    path: PathBuf,
    _file: File,
}

/// The file beside a mount's own that is there while the mount is read.
#[derive(Debug)]
pub(crate) struct BusyMark(PathBuf);

impl BusyMark {
    /// Creates or removes the mark. Where that fails, the other mounts take more memory than they should.
    pub(crate) fn set(&self, is_busy: bool) {
        let _ = if is_busy { files::open(&self.0, How::Make).map(drop) } else { files::remove(&self.0) };
    }
}

/// The path of the busy mark of a mount's file.
fn busy_mark(mount: &Path) -> PathBuf {
    mount.with_extension("busy")
}

fn folder(store: &Store) -> PathBuf {
    store.path().join("mounts")
}

fn io<T, E: Into<std::io::Error>>(action: &'static str, path: &Path, result: std::result::Result<T, E>) -> Result<T> {
    result.map_err(|source| Error::Io { action, path: path.to_owned(), source: source.into() })
}

impl Registration {
    /// Registers a mount of this process.
    pub(crate) fn new(store: &Store, mountpoint: &Path, what: String) -> Result<Self> {
        let folder = folder(store);
        io("create folder", &folder, files::make_folder(&folder))?;
        let path = folder.join(format!("{}.json", Ulid::generate()));
        let bytes = mountpoint.as_os_str().as_bytes();
        let text = MountText {
            mountpoint: name::display(bytes),
            mountpoint_bytes: (name::display(bytes).as_bytes() != bytes).then(|| bytes.to_vec()),
            process: std::process::id(),
            what,
            started_at: clock::timestamp().to_string(),
        };
        // Under a name that is not looked for until it is held and whole.
        let draft = path.with_extension("new");
        let mut file = loop {
            let file = io("create", &draft, files::open(&draft, How::New))?;
            io("lock", &draft, flock(&file, FlockOperation::LockExclusive))?;
            // Before it was held, somebody may have cleared it.
            if io("look at", &draft, file.metadata())?.nlink() > 0 {
                break file;
            }
        };
        io("write", &draft, file.write_all(&serde_json::to_vec(&text).unwrap_or_default()))?;
        io("rename", &draft, files::rename(&draft, &path))?;
        Ok(Registration { path, _file: file })
    }

    /// The mount's busy mark.
    pub(crate) fn busy_mark(&self) -> BusyMark {
        BusyMark(busy_mark(&self.path))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = files::remove(&busy_mark(&self.path));
        let _ = files::remove(&self.path);
    }
}

/// All mounts of a store, those of dead processes included, oldest first.
pub fn list(store: &Store) -> Result<Vec<FoundMount>> {
    let folder = folder(store);
    let mut found = Vec::new();
    for path in io("read folder", &folder, files::list(&folder))? {
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let Ok(mut file) = files::open(&path, How::Write) else { continue };
        let alive = is_held(&file);
        let mut bytes = Vec::new();
        io("read", &path, (&mut file).take(FILE_BYTES_MAX).read_to_end(&mut bytes))?;
        let Ok(text) = serde_json::from_slice(&bytes) else { continue };
        found.push(FoundMount { text, alive, file: path });
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(found)
}

/// True if a process holds the file of a mount. Processes that look at the same time do not take each other for holders.
fn is_held(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared).is_err()
}

/// The number of this user's mounts that are being read among those registered in a folder; at least one, as the caller is one.
pub(crate) fn count_busy(folder: &Path) -> u64 {
    let user = rustix::process::geteuid().as_raw();
    let is_busy = |mark: &Path| {
        mark.extension().is_some_and(|extension| extension == "busy")
            && files::open(&mark.with_extension("json"), How::Read)
                .is_ok_and(|file| file.metadata().is_ok_and(|found| found.uid() == user) && is_held(&file))
    };
    let entries = files::list(folder).unwrap_or_default();
    (entries.iter().filter(|path| is_busy(path)).count() as u64).max(1)
}

/// The path at which a mount shows the workspace of a checkpoint, if one does.
pub fn shown_at(store: &Store, checkpoint: &Checkpoint) -> Result<Option<PathBuf>> {
    let id = checkpoint.id();
    let shown = |mount: FoundMount| match mount.text.what.as_str() {
        what if what == id => Some(mount.text.path()),
        "store" => {
            let session = OsString::from_vec(file_name(&checkpoint.record.session));
            Some(mount.text.path().join("sessions").join(session).join(&id).join("workspace"))
        }
        _ => None,
    };
    Ok(list(store)?.into_iter().filter(|mount| mount.alive).find_map(shown))
}

/// A longer file is no mount's, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Logs that are kept of mounts that are over.
const LOGS_KEPT: usize = 5;

/// Removes what mounts that are over have left beside their files: drafts and busy marks of these, and logs but for the newest.
fn clear_leftovers(store: &Store) -> Result<()> {
    let folder = folder(store);
    let (mut drafts, mut logs) = (Vec::new(), Vec::new());
    for path in io("read folder", &folder, files::list(&folder))? {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("new") => drafts.push(path),
            Some("log") => logs.push(path),
            Some("busy") if !path.with_extension("json").exists() => drop(files::remove(&path)),
            _ => {}
        }
    }
    // Their names begin with the time.
    logs.sort();
    logs.truncate(logs.len().saturating_sub(LOGS_KEPT));
    for path in drafts.into_iter().chain(logs) {
        let Ok(file) = files::open(&path, How::Write) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = files::remove(&path);
        }
    }
    Ok(())
}

/// Detaches the mounts whose processes died, and forgets them. Returns which those were.
pub fn clear_stale(store: &Store) -> Result<Vec<FoundMount>> {
    let dead: Vec<FoundMount> = list(store)?.into_iter().filter(|mount| !mount.alive).collect();
    for mount in &dead {
        let mountpoint = mount.text.path();
        // Somebody else may have mounted there since, or cleared it.
        detach_dead(&mountpoint)?;
        let _ = files::remove(&busy_mark(&mount.file));
        let _ = files::remove(&mount.file);
    }
    clear_leftovers(store)?;
    Ok(dead)
}
