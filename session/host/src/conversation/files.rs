//! The files of a conversation, written from a checkpoint; what stands in their place is moved aside.

#![expect(clippy::disallowed_methods, reason = "puts a conversation where the agent looks for it")]

use parhelia_store::name::NameExt as _;
use std::{
    collections::HashSet,
    fs::{self, File},
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use parhelia_agent::{
    durable, kind, regular,
    transcript::{
        TranscriptLocation,
        files::{RawSet, TRANSCRIPT},
    },
};
use parhelia_store::{
    Store,
    id::{BlobId, OpId},
    tree::{Kind, Node},
};

use crate::{Error, Result, error::IoContext, state::files_below};

/// The parts of a checkpoint's conversation that are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Everything. What the conversation got later is moved aside if the checkpoint holds all that it had then (`is_whole`).
    All { is_whole: bool },
    /// The transcript, and what is not there.
    Transcript,
}

/// Writes files of a checkpoint's conversation where the agent looks for them. What is there and differs is moved aside first; returns where
/// to.
pub(super) fn write_files(
    store: &Store,
    kept: &Node,
    extent: Extent,
    (kind, conversation): (kind::Kind, &str),
    (config, folder, place): (&Path, &Path, &Path),
    aside: &Path,
) -> Result<Vec<PathBuf>> {
    let Some((tree, _)) = kept.as_folder() else { return Ok(Vec::new()) };
    let mut files = files_below(store, tree)?;
    // The transcript last: once it is there, everything is.
    files.sort_by_key(|(path, _)| path == TRANSCRIPT);
    let mut moved = Vec::new();
    if extent == (Extent::All { is_whole: true }) {
        let names: HashSet<&Path> = files.iter().map(|(path, _)| Path::new(path)).collect();
        let located = TranscriptLocation::from_hook(place);
        let there = located.and_then(|located| RawSet::find(&located)).map(|set| set.files).unwrap_or_default();
        // What has a name that no checkpoint holds is left.
        let is_its = |name: &Path| !kind.is_shared(name) && !names.contains(name) && name.to_str().is_some();
        for later in there.iter().filter(|file| is_its(&file.name)) {
            moved.push(keep(&later.source, &aside.join(later.name.parent().unwrap_or(Path::new(""))))?);
        }
    }
    for (path, node) in files {
        let to = match &*path == TRANSCRIPT {
            true => Some(place.to_owned()),
            false => kind.destination(Path::new(&path), config, folder, conversation),
        };
        let (Kind::File { blob, size, .. }, Some(to)) = (&node.kind, to) else {
            continue;
        };
        if is_same(store, &to, *blob, *size)? {
            continue;
        }
        if to.symlink_metadata().is_ok() {
            if extent == Extent::Transcript && path != TRANSCRIPT || kind.is_shared(Path::new(&path)) {
                continue;
            }
            moved.push(keep(&to, &aside.join(Path::new(&path).parent().unwrap_or(Path::new(""))))?);
        }
        make_parent(&to)?;
        let reader = store.blob(*blob, *size)?;
        write_with(&to, |file| reader.copy_to(file)?.at("write", &to))?;
    }
    Ok(moved)
}

fn is_same(store: &Store, path: &Path, blob: BlobId, size: u64) -> Result<bool> {
    let Ok(mut file) = regular::open(path) else { return Ok(false) };
    if file.metadata().at("look at", path)?.len() != size {
        return Ok(false);
    }
    let mut hasher = store.ids().blob_hasher();
    std::io::copy(&mut file, &mut hasher).at("read", path)?;
    Ok(hasher.finish() == blob)
}

/// Moves a file into a folder. Returns where it is now.
pub(super) fn keep(path: &Path, aside: &Path) -> Result<PathBuf> {
    fs::create_dir_all(aside).at("create folder", aside)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let to = aside.join(format!("{name}.{}", OpId::generate()));
    durable::move_durable(path, &to)?;
    Ok(to)
}

/// Makes the folder that a file is to be in, for its user alone.
pub fn make_parent(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let parent = path.parent().ok_or_else(|| Error::Invalid(format!("{} has no folder", path.shown())))?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).at("create folder", parent)
}

/// Writes a file whole, in the place of what is there, or not at all.
pub fn write_whole(path: &Path, from: &mut impl Read) -> Result<()> {
    write_with(path, |file| std::io::copy(from, file).map(|_| ()).at("write", path))
}

/// Writes a file under another name, and gives it its own once it is on the medium; syncs that, too.
fn write_with(path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", OpId::generate()));
    let written = (|| {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary).at("create", &temporary)?;
        write(&mut file)?;
        file.sync_all().at("sync", &temporary)?;
        fs::rename(&temporary, path).at("rename into place", path)?;
        Ok(path.parent().map_or(Ok(()), durable::sync_names)?)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
