//! The conversation of a session that is resumed: what lies on disk, repaired; or the checkpoint's, where it is gone or another position
//! is wanted.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use parhelia_store::{
    Store,
    id::{BlobId, OpId},
    name::{is_session, session_file},
    record::{Checkpoint, Part},
    tree::{Kind, Node},
};

use super::read::{files_below, state_file};
use crate::{
    agent::{Repaired, gather, repair, slug},
    capture::STREAM,
    error::{Error, IoContext, Result},
    run::CONVERSATION_FOLDER,
    transcript::{
        Located,
        files::{RawSet, TRANSCRIPT, destination},
    },
};

/// How many checkpoints back a conversation is looked for.
const ANCESTORS_MAX: usize = 1_000;

/// What became of the conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restored {
    /// Where it lies now; none where there is none to go on with.
    pub transcript: Option<PathBuf>,
    /// What was repaired.
    pub repaired: Repaired,
    /// Whether the checkpoint's was written.
    pub from_checkpoint: bool,
    /// Copies, and files that the checkpoint has not, that were moved aside: where they are now.
    pub moved: Vec<PathBuf>,
}

/// Where what is replaced of a session's conversations is kept: in the agent's own folder, where moving is renaming.
pub fn aside(config: &Path, session: &str) -> PathBuf {
    config.join("parhelia-aside").join(&*session_file(session)).join(OpId::generate().to_string())
}

/// The agent's id of the conversation that a checkpoint holds, if an agent can go on with that: not with what a headless one has printed.
pub fn held(checkpoint: &Checkpoint) -> Option<String> {
    let record = checkpoint.record.conversation.as_ref().filter(|record| record.get(STREAM).is_none());
    record.and_then(|record| record.get("agent_session_id")?.as_str().map(str::to_owned))
}

/// How long the conversation is in a checkpoint, in bytes.
pub fn position(store: &Store, checkpoint: &Checkpoint) -> Result<Option<u64>> {
    let found = state_file(store, checkpoint, &format!("{CONVERSATION_FOLDER}/{TRANSCRIPT}"))?;
    Ok(found.map(|node| node.size()))
}

/// The checkpoint that holds a conversation: the given one, or of those before it the newest that does. With `exactly`, no other.
fn holding(store: &Store, checkpoint: &Checkpoint, conversation: &str, exactly: bool) -> Result<Option<Checkpoint>> {
    let mut next = Some(checkpoint.clone());
    for _ in 0..ANCESTORS_MAX {
        let Some(found) = next else { break };
        if held(&found).is_some_and(|id| id == conversation) {
            return Ok(Some(found));
        }
        next = match found.record.parent.filter(|_| !exactly) {
            Some(parent) => store.view().checkpoint(parent)?,
            None => None,
        };
    }
    Ok(None)
}

/// Sees to it that the agent finds a conversation: at one place, whole, and not old.
///
/// One that is there goes on from where it is, unless `exactly` says that it must be as in the checkpoint. One that is gone is taken from
/// the checkpoint, or from the newest one before it that holds it. What is not kept is moved into the folder `aside`.
pub fn put_back(
    store: &Store,
    checkpoint: Option<&Checkpoint>,
    conversation: &str,
    config: &Path,
    folder: &Path,
    aside: &Path,
    exactly: bool,
) -> Result<Restored> {
    let mut done = Restored::default();
    // An id names files. A forged one that leads elsewhere is none to go on with.
    if !is_session(conversation) {
        return Ok(done);
    }
    let place = config.join("projects").join(slug(folder)).join(format!("{conversation}.jsonl"));
    let holding = checkpoint.map(|checkpoint| holding(store, checkpoint, conversation, exactly)).transpose()?.flatten();
    let kept = match &holding {
        Some(checkpoint) => state_file(store, checkpoint, CONVERSATION_FOLDER)?,
        None => None,
    };
    let mut copies = crate::agent::copies(config, conversation)?;
    // The one that was written to last goes on.
    copies.sort_by_key(|path| fs::metadata(path).and_then(|m| m.modified()).ok());
    let live = copies.pop();
    match (live, &kept) {
        (Some(live), kept) if !exactly || kept.is_none() => {
            if live != place {
                make_parent(&place)?;
                // A copy, so that the other place has its own until this one is whole.
                write_whole(&place, &mut File::open(&live).at("open", &live)?)?;
                let (from, to) = (live.with_extension(""), place.with_extension(""));
                if from.is_dir() && to.symlink_metadata().is_err() {
                    fs::rename(&from, &to).at("move", &from)?;
                }
            }
        }
        (_, Some(kept)) => {
            let is_whole = |held: &Checkpoint| held.record.parts.get(CONVERSATION_FOLDER) == Some(&Part::Captured);
            let is_whole = exactly && holding.as_ref().is_some_and(is_whole);
            done.moved = write_files(store, kept, is_whole, conversation, config, folder, aside)?;
            done.from_checkpoint = true;
        }
        (_, None) => return Ok(done),
    }
    if !place.is_file() {
        return Ok(done);
    }
    done.moved.extend(gather(config, conversation, &place, aside)?);
    done.repaired = repair(&place, aside)?;
    done.transcript = Some(place);
    Ok(done)
}

/// Writes the files of a checkpoint's conversation where the agent looks for them. What is there and differs is moved aside first, and so
/// is what the conversation got later, if the checkpoint holds all that it had; returns where to.
fn write_files(
    store: &Store,
    kept: &Node,
    is_whole: bool,
    conversation: &str,
    config: &Path,
    folder: &Path,
    aside: &Path,
) -> Result<Vec<PathBuf>> {
    let Some((tree, _)) = kept.as_folder() else { return Ok(Vec::new()) };
    let slug = slug(folder);
    let mut files = files_below(store, tree)?;
    // The transcript last: once it is there, everything is.
    files.sort_by_key(|(path, _)| path == TRANSCRIPT);
    let mut moved = Vec::new();
    if is_whole {
        let names: HashSet<&Path> = files.iter().map(|(path, _)| Path::new(path)).collect();
        let transcript = config.join("projects").join(&slug).join(format!("{conversation}.jsonl"));
        let located =
            Located { transcript, agent_session: conversation.to_owned(), config: Some(config.to_owned()), others: Vec::new() };
        let there = RawSet::find(&located).map(|set| set.files).unwrap_or_default();
        // What has a name that no checkpoint holds is left.
        for later in there.iter().filter(|file| !names.contains(&*file.name) && file.name.to_str().is_some()) {
            moved.push(keep(&later.source, &aside.join(later.name.parent().unwrap_or(Path::new(""))))?);
        }
    }
    for (path, node) in files {
        let (Kind::File { blob, size, .. }, Some(to)) = (&node.kind, destination(Path::new(&path), config, &slug, conversation))
        else {
            continue;
        };
        if is_same(&to, *blob, *size)? {
            continue;
        }
        if to.symlink_metadata().is_ok() {
            keep(&to, &aside.join(Path::new(&path).parent().unwrap_or(Path::new(""))))?;
        }
        make_parent(&to)?;
        let reader = store.blob(*blob, *size)?;
        write_with(&to, |file| reader.copy_to(file)?.at("write", &to))?;
    }
    Ok(moved)
}

fn is_same(path: &Path, blob: BlobId, size: u64) -> Result<bool> {
    let Ok(mut file) = File::open(path) else { return Ok(false) };
    if file.metadata().at("look at", path)?.len() != size {
        return Ok(false);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(&mut file).at("read", path)?;
    Ok(BlobId(*hasher.finalize().as_bytes()) == blob)
}

/// Moves a file into a folder. Returns where it is now.
fn keep(path: &Path, aside: &Path) -> Result<PathBuf> {
    fs::create_dir_all(aside).at("create folder", aside)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let to = aside.join(format!("{name}.{}", OpId::generate()));
    match fs::rename(path, &to) {
        Err(e) if e.kind() == std::io::ErrorKind::CrossesDevices => {
            fs::copy(path, &to).at("copy", path)?;
            fs::remove_file(path).at("remove", path)?;
        }
        other => other.at("move aside", path)?,
    }
    Ok(to)
}

fn make_parent(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let parent = path.parent().ok_or_else(|| Error::Invalid(format!("{} has no folder", path.display())))?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).at("create folder", parent)
}

fn write_whole(path: &Path, from: &mut impl Read) -> Result<()> {
    write_with(path, |file| std::io::copy(from, file).map(|_| ()).at("write", path))
}

/// Writes a file under another name, and gives it its own once it is on the medium.
fn write_with(path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", OpId::generate()));
    let written = (|| {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary).at("create", &temporary)?;
        write(&mut file)?;
        file.sync_all().at("sync", &temporary)?;
        fs::rename(&temporary, path).at("rename into place", path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
