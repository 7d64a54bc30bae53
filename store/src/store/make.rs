//! Makes a new store.

use parhelia_name::step::Step;
use std::{
    fs,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use parhelia_name::NameExt as _;

use crate::{
    config::Config,
    disk,
    error::{Error, IoContext, Result},
    files::{self, How},
    format::BALLAST_BYTES,
    journal::{Journal, Position},
    layout::Layout,
    lock::WriterLock,
    view,
};

/// The settings are gone, and what they were for is not.
fn settings_lost() -> String {
    format!("it has packs and no store.json; {} makes a store of them in another folder", Step::Salvage)
}

pub(crate) fn missing(layout: &Layout) -> Error {
    let root = &layout.root;
    if has_content(layout) {
        return Error::NotAStore { path: root.to_owned(), reason: settings_lost() };
    }
    if let Some(error) = leads_nowhere(root) {
        return error;
    }
    match files::entries(root) {
        Ok(0) => Error::NoStore {
            path: root.to_owned(),
            hint: format!("the folder is empty; if a disk belongs there, mount it; {} makes a new store", Step::Init),
        },
        Ok(_) => Error::NotAStore { path: root.to_owned(), reason: "it has no store.json".into() },
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            Error::NotAStore { path: root.to_owned(), reason: "not a folder".into() }
        }
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Error::Io { action: "open store", path: root.to_owned(), source: e }
        }
        Err(_) => Error::NoStore {
            path: root.to_owned(),
            hint: format!(
                "if its disk is not mounted, mount it; {} makes a new store there; {} names another",
                Step::Init,
                Step::StoreOption
            ),
        },
    }
}

/// The error for a path with a symlink on its way to nothing: a folder that was made there would be in the way of the disk that it is for.
fn leads_nowhere(root: &Path) -> Option<Error> {
    let is_missing = |path: &Path| fs::metadata(path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
    let link = root.ancestors().find(|path| path.is_symlink() && is_missing(path))?;
    let reason = format!(
        "the symlink {} leads to nothing; if it leads to a disk, mount that; {} names another place",
        link.shown(),
        Step::StoreOption
    );
    Some(Error::NotAStore { path: root.to_owned(), reason })
}

/// True if there is something in the folder that only a store has.
pub(super) fn has_content(layout: &Layout) -> bool {
    let packs = files::list(&layout.packs()).is_ok_and(|packs| packs.iter().any(|path| Layout::pack_of(path).is_some()));
    packs || Journal::of(layout).segments().is_ok_and(|segments| !segments.is_empty())
}

/// Makes an empty store of these settings. Two processes may do so at once: one's settings win, and both then read those.
/// Returns whether it was this one that made it.
pub(crate) fn make(layout: &Layout, config: &Config) -> Result<bool> {
    let root = &layout.root;
    if let Some(error) = leads_nowhere(root) {
        return Err(error);
    }
    disk::make_folder_durable(root)?;
    let ours = ["packs", "journal", "view", "pins", "cache", "mounts", "lock", "lock.index", "lock.service", "ballast"];
    for entry in fs::read_dir(root).at("read folder", root)? {
        let name = entry.at("read folder", root)?.file_name();
        let name = name.to_string_lossy();
        let is_ours = ours.contains(&name.as_ref()) || name.starts_with("store.") || name == files::LOST_AND_FOUND;
        if !is_ours {
            return Err(Error::NotAStore { path: root.clone(), reason: "it has other files and no store.json".into() });
        }
    }
    // A store writes nothing into these before its settings are there.
    if has_content(layout) {
        return Err(Error::NotAStore { path: root.clone(), reason: settings_lost() });
    }
    for folder in layout.folders() {
        files::make_folder(&folder).at("create folder", &folder)?;
    }
    let _lock = WriterLock::take(root, Duration::from_secs(10), &())?;
    if layout.config().exists() {
        return Ok(false);
    }
    make_ballast(layout);
    // Made now, so that the first commit does not do it while it holds the lock.
    view::absorb(layout, &Default::default(), &Position::start())?;
    // What makes the folder a store comes last: where it is, the folders are, too.
    disk::sync_folder(root)?;
    match config.write_new(layout) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        written => written.map(|()| true).at("write", layout.config()),
    }
}

/// Writes the ballast anew, after gc has released it. A disk without room for it is no reason to fail.
pub(crate) fn make_ballast(layout: &Layout) {
    let write = || -> io::Result<()> {
        let mut file = files::open_top(&layout.ballast(), How::Make)?;
        file.set_len(0)?;
        // Not zeros, which some filesystems do not allocate.
        let noise: Vec<u8> = (0..1u32 << 14).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
        for _ in 0..BALLAST_BYTES / noise.len() as u64 {
            file.write_all(&noise)?;
        }
        Ok(())
    };
    if write().is_err() {
        let _ = files::remove_top(&layout.ballast());
    }
}
