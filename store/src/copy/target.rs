//! The folder of a copy.

use parhelia_name::step::Step;
use std::{
    ffi::OsStr,
    fs,
    io::{self, ErrorKind},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use super::CopyReport;
use crate::{
    config::Config,
    disk, errno,
    error::{Error, IoContext, Result, Side},
    files::{self, Folder},
    layout::{Layout, is_set_aside},
    lock::WriterLock,
    progress::Progress,
    store::{OpenOptions, Store},
};

/// The name of `store.json` in a copy that is not complete yet, so that nobody opens it.
const PARTIAL: &str = "store.json.copying";
/// Ending of the names of files under way, in `cache/`.
pub(super) const UNDER_WAY: &str = ".copying";
/// Folders of a store that are not copied as they are: packs and the journal are copied in order, and the others are this machine's, or can be
/// derived.
const NOT_BESIDE: [&str; 11] =
    ["packs", "journal", "view", "pins", "cache", "leases", "mounts", "turns", "outbox", "remote", files::LOST_AND_FOUND];
/// Folders beside packs and journal nest no deeper.
const DEPTH_MAX: u32 = 8;
/// Longer than `store.json`, or a document beside packs and journal, may be.
const BYTES_MAX: u64 = 64 << 20;

/// The folder of a copy, whose writer lock is held.
pub(super) struct Target {
    pub(super) layout: Layout,
    pub(super) is_new: bool,
    _lock: WriterLock,
}

impl Target {
    /// Opens the copy of a store. Refuses a folder that is no copy of it, and makes one only where `make` says so.
    pub(super) fn open(store: &Store, to: &Path, make: bool, progress: &dyn Progress) -> Result<Self> {
        ensure_apart(store, to)?;
        let layout = Layout { root: to.to_owned(), ..store.layout().clone() };
        let is_partial = fs::symlink_metadata(to.join(PARTIAL)).is_ok();
        let is_new = match fs::symlink_metadata(layout.config()) {
            Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(e).at("open the copy", to);
            }
            // One of the two copies of the settings is enough.
            found => found.is_err() && (is_partial || !Config::has_copy(&layout)),
        };
        match is_new {
            true => begin(store, to, make)?,
            false => ensure_same(store, &Config::of(&layout)?, to)?,
        }
        for folder in layout.folders() {
            files::make_folder(&folder).at("create folder", &folder)?;
        }
        let lock = WriterLock::take(to, store.lock_timeout(), progress)?;
        Ok(Target { layout, is_new, _lock: lock })
    }

    /// Removes files that an interrupted copy was making.
    pub(super) fn clear_leftovers(&self) -> Result<()> {
        let cache = self.layout.cache();
        for path in files::list(&cache).at("read folder", &cache)? {
            if path.as_os_str().as_bytes().ends_with(UNDER_WAY.as_bytes()) {
                files::remove(&path).at("remove", &path)?;
            }
        }
        Ok(())
    }

    /// Copies what lies beside packs and journal and belongs to the store: each file whole or not at all, where it is another than the copy's.
    pub(super) fn copy_beside(&self, store: &Store, report: &mut CopyReport, progress: &dyn Progress) -> Result<()> {
        let (from, to) = (&store.layout().root, &self.layout.root);
        let from = (Folder::top(from).at("open folder", from)?, from.clone());
        let to = (Folder::top(to).at("open folder", to)?, to.clone());
        for name in from.0.names().at("read folder", &from.1)? {
            let name = OsStr::from_bytes(&name);
            let is_folder = from.0.stat(name).is_ok_and(|found| found.is_folder());
            if is_folder && !NOT_BESIDE.iter().any(|other| name == *other) {
                copy_folder((&from, &to), name, 0, report, progress)?;
            }
        }
        Ok(())
    }

    /// Copies what stands beside the journal's segments: not the hint, which is of each journal's own, nor the settings, which are copied from
    /// whichever copy of them is whole; and not what a repair has set aside, which may be what this disk cannot read.
    pub(super) fn copy_beside_journal(&self, store: &Store, report: &mut CopyReport, progress: &dyn Progress) -> Result<()> {
        let from = store.layout().journal();
        for path in files::list(&from).at("read folder", &from)? {
            let Some(name) = path.file_name() else { continue };
            let ending = path.extension().map(|ending| ending.as_bytes());
            let is_own = name == "synced" || name == "store.json" || is_set_aside(name.as_bytes());
            if !is_own && !matches!(ending, Some(b"log" | b"tmp")) {
                copy_file((&opened(from.clone())?, &opened(self.layout.journal())?), name, report, progress)?;
            }
        }
        Ok(())
    }

    /// Makes both copies of the settings what they are in the store, before the journal comes that may need a feature they name. Those of a first
    /// copy come last.
    pub(super) fn copy_settings(&self, store: &Store) -> Result<()> {
        let bytes = Config::bytes(store.layout())?;
        match self.is_new {
            true => Config::put_copy(&self.layout, &bytes),
            false => Config::put(&self.layout, &bytes),
        }
    }

    /// Makes a first copy a store: everything else is there by now.
    pub(super) fn finish(&self, store: &Store) -> Result<()> {
        if !self.is_new {
            return Ok(());
        }
        Config::put(&self.layout, &Config::bytes(store.layout())?)?;
        let root = &self.layout.root;
        let partial = root.join(PARTIAL);
        files::remove_top(&partial).at("remove", &partial)?;
        disk::sync_folder(root)
    }

    /// The copy as a store, as whoever needs it will open it.
    pub(super) fn reopened(&self) -> Result<Store> {
        Store::open_without_index(&self.layout.root, &OpenOptions::with(&self.layout))
    }
}

/// Fails where one folder is in the other, or is the other.
fn ensure_apart(store: &Store, to: &Path) -> Result<()> {
    let root = &store.layout().root;
    let real = |path: &Path| {
        let found =
            path.ancestors().find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?.to_owned())));
        found.map_or_else(|| path.to_owned(), |(above, rest)| above.join(rest))
    };
    let absolute = std::path::absolute(to).at("open the copy", to)?;
    let (from, into) = (real(root), real(&absolute));
    let is_same = match (fs::metadata(root), fs::metadata(to)) {
        (Ok(from), Ok(into)) => (from.dev(), from.ino()) == (into.dev(), into.ino()),
        _ => false,
    };
    if is_same || from.starts_with(&into) || into.starts_with(&from) {
        let (from, into) = (from.display(), into.display());
        return Err(Error::Invalid(format!(
            "cannot copy the store at {from} to {into}: one is in the other; name another folder"
        )));
    }
    Ok(())
}

fn ensure_same(store: &Store, config: &Config, to: &Path) -> Result<()> {
    if config.id == store.config().id {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "cannot copy the store at {} to {}: that is another store ({} there, {} here)\nIf a disk is not mounted, mount it. Else name another \
         folder; nothing was changed",
        store.layout().root.display(),
        to.display(),
        config.id,
        store.config().id
    )))
}

/// Makes the folder of a first copy, or goes on with one that was interrupted.
fn begin(store: &Store, to: &Path, make: bool) -> Result<()> {
    let partial = to.join(PARTIAL);
    if fs::symlink_metadata(&partial).is_ok() {
        return ensure_same(store, &Config::read(&partial, to)?, to);
    }
    match files::entries(to) {
        Ok(0) => {}
        Ok(_) => return Err(Error::NotAStore { path: to.to_owned(), reason: "it has other files and no store.json".into() }),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) if e.kind() == ErrorKind::NotADirectory => {
            return Err(Error::NotAStore { path: to.to_owned(), reason: "not a folder".into() });
        }
        Err(e) => return Err(e).at("open the copy", to),
    }
    if !make {
        let hint = format!("if its disk is not mounted, mount it; {} makes a first copy there", Step::CopyFirst);
        return Err(Error::NoStore { path: to.to_owned(), hint });
    }
    disk::make_folder_durable(to)?;
    let text = Config::bytes(store.layout())?;
    Folder::top(to).and_then(|folder| folder.write_synced(PARTIAL.as_ref(), &text, true)).at("write", &partial)
}

/// An open folder, and its path for messages.
type FolderHandle = (Folder, PathBuf);

fn opened(path: PathBuf) -> Result<FolderHandle> {
    Ok((Folder::below(&path).at("open folder", &path)?, path))
}

/// Copies the regular files of a folder in another one, and of those in it.
fn copy_folder(
    (from, to): (&FolderHandle, &FolderHandle),
    name: &OsStr,
    depth: u32,
    report: &mut CopyReport,
    progress: &dyn Progress,
) -> Result<()> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    let inner = |of: &FolderHandle| Ok((of.0.folder(name).at("open folder", of.1.join(name))?, of.1.join(name)));
    to.0.make_folder(name).at("create folder", to.1.join(name))?;
    let (from, to): (FolderHandle, FolderHandle) = (inner(from)?, inner(to)?);
    for name in from.0.names().at("read folder", &from.1)? {
        let name = OsStr::from_bytes(&name);
        match from.0.stat(name) {
            Ok(found) if found.is_folder() => copy_folder((&from, &to), name, depth + 1, report, progress)?,
            Ok(found) if found.is_file() => copy_file((&from, &to), name, report, progress)?,
            _ => {}
        }
    }
    Ok(())
}

/// Copies a file. One that the disk cannot read is named and left out.
fn copy_file(
    (from, to): (&FolderHandle, &FolderHandle),
    name: &OsStr,
    report: &mut CopyReport,
    progress: &dyn Progress,
) -> Result<()> {
    let bytes = match from.0.read(name, BYTES_MAX) {
        // Its owner replaces it by rename, or has removed it.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) if errno::is_damage(Side::Store, &e) => {
            report.leave_out(&format!("cannot read {}: {e}", from.1.join(name).display()), progress);
            return Ok(());
        }
        other => other.at("read", from.1.join(name))?,
    };
    if to.0.read(name, BYTES_MAX).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    to.0.write_synced(name, &bytes, false).at("write", to.1.join(name))
}
