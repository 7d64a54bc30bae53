//! The conversation of a session that is resumed: what lies on disk, repaired; or the checkpoint's, where it is gone or another position
//! is wanted.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use parhelia_store::{
    Store, clock,
    id::{BlobId, OpId},
    name::{is_session, session_file},
    record::{Checkpoint, Part},
    tree::{Kind, Node},
};

use crate::state::{files_below, state_file};
use crate::{
    capture::{CONVERSATION, STREAM},
    error::{Error, IoContext, Result},
};
use parhelia_agent::{
    durable,
    kind::{self, KINDS},
    regular,
    transcript::{
        Located, Repaired, copies,
        files::{RawSet, TRANSCRIPT},
        gather, repair, whole_bytes,
    },
};

/// The most checkpoints that are searched for a conversation.
const ANCESTORS_MAX: usize = 1_000;

/// The result of restoring a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restored {
    /// Where it lies now; none where there is none to go on with.
    pub transcript: Option<PathBuf>,
    /// Repairs of the transcript.
    pub repaired: Repaired,
    /// True if the checkpoint's conversation was written.
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

/// The kind of agent whose conversation a checkpoint holds. Records without its name are of the first one.
fn kind_of(checkpoint: &Checkpoint) -> kind::Kind {
    let record = checkpoint.record.conversation.as_ref();
    record.and_then(|record| kind::named(record.get("agent")?.as_str()?)).unwrap_or(KINDS[0])
}

/// The length of the conversation in a checkpoint, in bytes; none if it has none.
pub fn position(store: &Store, checkpoint: &Checkpoint) -> Result<Option<u64>> {
    let found = state_file(store, checkpoint, &format!("{CONVERSATION}/{TRANSCRIPT}"))?;
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
    let holding = checkpoint.map(|checkpoint| holding(store, checkpoint, conversation, exactly)).transpose()?.flatten();
    let kept = match &holding {
        Some(checkpoint) => state_file(store, checkpoint, CONVERSATION)?,
        None => None,
    };
    let live = live_copy(config, conversation)?;
    let kind = live.as_ref().and_then(|live| Some(Located::from_hook(live).ok()?.kind)).or(holding.as_ref().map(kind_of));
    let kind = kind.unwrap_or(KINDS[0]);
    let place = kind.place(config, folder, conversation);
    // What a crash has left of it may be less than the checkpoint has.
    let is_less = match (&live, &kept) {
        (Some(live), Some(kept)) if !exactly => is_less(store, live, kept)?,
        _ => false,
    };
    match (live, &kept) {
        (Some(live), kept) if kept.is_none() || !exactly && !is_less => {
            if live != place {
                done.moved.extend(move_to(&live, &place, aside)?);
            }
        }
        (_, Some(kept)) => {
            let is_whole = |held: &Checkpoint| held.record.parts.get(CONVERSATION) == Some(&Part::Captured);
            let is_whole = exactly && holding.as_ref().is_some_and(is_whole);
            let what = if is_less { What::Transcript } else { What::All { is_whole } };
            done.moved = write_files(store, kept, what, (kind, conversation), config, folder, aside)?;
            done.from_checkpoint = true;
        }
        (_, None) => return Ok(done),
    }
    if !place.is_file() {
        return Ok(done);
    }
    done.moved.extend(gather(config, conversation, &place, aside, SystemTime::from(clock::timestamp()))?);
    done.repaired = repair(&place, aside)?;
    done.transcript = Some(place);
    Ok(done)
}

/// The copy of a conversation to go on with: the one that was written to last, or one that goes further.
fn live_copy(config: &Path, conversation: &str) -> Result<Option<PathBuf>> {
    let mut copies = copies(config, conversation)?;
    copies.sort_by_key(|path| fs::metadata(path).and_then(|m| m.modified()).ok());
    let mut live = copies.pop();
    for other in copies {
        if live.as_ref().is_some_and(|live| goes_on(live, &other).unwrap_or(false)) {
            live = Some(other);
        }
    }
    Ok(live)
}

/// Puts a transcript, and the folder beside it, where the agent looks for them. Returns what had to be moved aside for it.
fn move_to(live: &Path, place: &Path, aside: &Path) -> Result<Option<PathBuf>> {
    make_parent(place)?;
    let moved = match place.symlink_metadata() {
        Ok(_) => Some(keep(place, aside)?),
        Err(_) => None,
    };
    // A copy, so that the other place has its own until this one is whole.
    write_whole(place, &mut regular::open(live).at("open", live)?)?;
    let (from, to) = (live.with_extension(""), place.with_extension(""));
    if from.is_dir() && to.symlink_metadata().is_err() {
        fs::rename(&from, &to).at("move", &from)?;
    }
    Ok(moved)
}

/// The parts of a checkpoint's conversation that are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// Everything. What the conversation got later is moved aside if the checkpoint holds all that it had then (`is_whole`).
    All { is_whole: bool },
    /// The transcript, and what is not there.
    Transcript,
}

/// Checks whether one transcript is the beginning of another that is longer.
fn goes_on(short: &Path, long: &Path) -> Result<bool> {
    let (short_file, long_file) = (regular::open(short).at("open", short)?, regular::open(long).at("open", long)?);
    let bytes = short_file.metadata().at("look at", short)?.len();
    if long_file.metadata().at("look at", long)?.len() <= bytes {
        return Ok(false);
    }
    Ok(hash_of(short_file, bytes).at("read", short)? == hash_of(long_file, bytes).at("read", long)?)
}

/// Checks whether the whole records of a transcript are the beginning of a checkpoint's, which has more.
fn is_less(store: &Store, live: &Path, kept: &Node) -> Result<bool> {
    let Some((tree, _)) = kept.as_folder() else { return Ok(false) };
    let found = files_below(store, tree)?.into_iter().find(|(path, _)| path == TRANSCRIPT);
    let Some(Kind::File { blob, size, .. }) = found.map(|(_, node)| node.kind) else { return Ok(false) };
    let bytes = whole_bytes(live)?;
    if bytes >= size {
        return Ok(false);
    }
    let mut beginning = blake3::Hasher::new();
    store.blob(blob, size)?.read_range(0..bytes, |piece| {
        beginning.update(piece);
        Ok(())
    })?;
    let live_file = regular::open(live).at("open", live)?;
    Ok(hash_of(live_file, bytes).at("read", live)? == beginning.finalize())
}

fn hash_of(file: File, bytes: u64) -> std::io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file.take(bytes))?;
    Ok(hasher.finalize())
}

/// Writes files of a checkpoint's conversation where the agent looks for them. What is there and differs is moved aside first; returns where
/// to.
fn write_files(
    store: &Store,
    kept: &Node,
    what: What,
    (kind, conversation): (kind::Kind, &str),
    config: &Path,
    folder: &Path,
    aside: &Path,
) -> Result<Vec<PathBuf>> {
    let Some((tree, _)) = kept.as_folder() else { return Ok(Vec::new()) };
    let mut files = files_below(store, tree)?;
    // The transcript last: once it is there, everything is.
    files.sort_by_key(|(path, _)| path == TRANSCRIPT);
    let mut moved = Vec::new();
    if what == (What::All { is_whole: true }) {
        let names: HashSet<&Path> = files.iter().map(|(path, _)| Path::new(path)).collect();
        let located = Located::from_hook(&kind.place(config, folder, conversation));
        let there = located.and_then(|located| RawSet::find(&located)).map(|set| set.files).unwrap_or_default();
        // What has a name that no checkpoint holds is left.
        for later in there.iter().filter(|file| !names.contains(&*file.name) && file.name.to_str().is_some()) {
            moved.push(keep(&later.source, &aside.join(later.name.parent().unwrap_or(Path::new(""))))?);
        }
    }
    for (path, node) in files {
        let (Kind::File { blob, size, .. }, Some(to)) =
            (&node.kind, kind.destination(Path::new(&path), config, folder, conversation))
        else {
            continue;
        };
        if is_same(store, &to, *blob, *size)? {
            continue;
        }
        if to.symlink_metadata().is_ok() {
            if what == What::Transcript && path != TRANSCRIPT {
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
fn keep(path: &Path, aside: &Path) -> Result<PathBuf> {
    fs::create_dir_all(aside).at("create folder", aside)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let to = aside.join(format!("{name}.{}", OpId::generate()));
    durable::move_durable(path, &to)?;
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use parhelia_store::OpenOptions;

    use super::*;

    const CONVERSATION: &str = "0b1c2d3e-0000-4000-8000-000000000001";

    fn records(from: u32, until: u32) -> String {
        (from..until).map(|n| format!("{{\"n\":{n}}}\n")).collect()
    }

    /// Puts a conversation back that lies, with these texts, where it belongs and in another folder; the latter was written to last.
    fn put_back_from(here: &str, elsewhere: &str) -> (String, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let store = Store::open(&store, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
        let (config, work) = (folder.path().join("config"), folder.path().join("work"));
        let of = |slug: &str| config.join("projects").join(slug).join(format!("{CONVERSATION}.jsonl"));
        let (place, other) = (KINDS[0].place(&config, &work, CONVERSATION), of("-copied"));
        for (path, text, age) in [(&place, here, 100), (&other, elsewhere, 10)] {
            make_parent(path).unwrap();
            fs::write(path, text).unwrap();
            let time = SystemTime::from(parhelia_store::clock::timestamp()) - Duration::from_secs(age);
            File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }
        let aside = folder.path().join("aside");
        let done = put_back(&store, None, CONVERSATION, &config, &work, &aside, false).unwrap();
        assert_eq!(done.transcript.as_deref(), Some(place.as_path()));
        let mut kept: Vec<String> = done.moved.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        kept.sort();
        (fs::read_to_string(&place).unwrap(), kept)
    }

    #[test]
    fn a_copy_that_is_only_the_beginning_takes_no_ones_place() {
        assert_eq!(put_back_from(&records(0, 9), &records(0, 5)), (records(0, 9), vec![records(0, 5)]));
    }

    #[test]
    fn what_another_takes_the_place_of_is_kept_aside() {
        let (now, kept) = put_back_from(&records(0, 9), &records(5, 7));
        assert_eq!(now, records(5, 7));
        assert!(kept.contains(&records(0, 9)), "{kept:?}");
    }
}
