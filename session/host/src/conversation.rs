//! The conversation of a session that is resumed: what lies on disk, repaired; or the checkpoint's, where it is gone or another position
//! is wanted.

#![expect(clippy::disallowed_methods, reason = "puts a conversation where the agent looks for it")]

pub mod added;
pub mod current;
mod files;

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    time::SystemTime,
};

use parhelia_ledger::{Session, kind as event_kind};
use parhelia_store::{
    Store, clock,
    event::{Actor, NewEvent},
    id::{OpId, Ulid},
    name::{self, is_session, session_file},
    record::{Checkpoint, Part},
    tree::{Kind, Node},
};

pub use self::current::{STREAM, Source, summary_now};
use self::files::{Extent, keep, write_files};
pub use self::files::{make_parent, write_whole};
use crate::state::{files_below, state_file};
use crate::{Result, error::IoContext, state::CONVERSATION};
use parhelia_agent::{
    kind,
    kinds::{self, KINDS},
    regular,
    transcript::{RepairReport, TranscriptLocation, copies, files::TRANSCRIPT, gather, repair, whole_bytes},
};

/// The most checkpoints that are searched for a conversation.
const ANCESTORS_MAX: usize = 1_000;

/// The result of restoring a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoredConversation {
    /// Path of its transcript now; none if there is no conversation to go on with.
    pub transcript: Option<PathBuf>,
    /// Repairs of the transcript.
    pub repaired: RepairReport,
    /// The checkpoint whose conversation was written; none where that on disk goes on.
    pub from_checkpoint: Option<Ulid>,
    /// Copies, and files that the checkpoint has not, that were moved aside: where they are now.
    pub moved: Vec<PathBuf>,
    /// The reason why the agent's own records could not be told where it is.
    pub not_adopted: Option<String>,
}

/// Folder for the replaced files of a session's conversations: in the agent's own folder, so that moving is renaming.
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
    record.and_then(|record| kinds::named(record.get("agent")?.as_str()?)).unwrap_or(KINDS[0])
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
/// the checkpoint, or from the newest one before it that holds it, and goes to the place at which it was `seen`, where its agent finds it by that.
/// Files that are not kept are moved into the folder `aside`.
pub fn put_back(
    store: &Store,
    checkpoint: Option<&Checkpoint>,
    (conversation, seen): (&str, Option<&Path>),
    config: &Path,
    folder: &Path,
    aside: &Path,
    exactly: bool,
) -> Result<RestoredConversation> {
    let mut done = RestoredConversation::default();
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
    let kind =
        live.as_ref().and_then(|live| Some(TranscriptLocation::from_hook(live).ok()?.kind)).or(holding.as_ref().map(kind_of));
    let kind = kind.unwrap_or(KINDS[0]);
    let seen_place = seen.filter(|_| live.is_none()).and_then(|seen| kind.seen_place(config, seen));
    let place = seen_place.unwrap_or_else(|| kind.place(config, folder, conversation));
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
            let extent = if is_less { Extent::Transcript } else { Extent::All { is_whole } };
            done.moved = write_files(store, kept, extent, (kind, conversation), (config, folder, &place), aside)?;
            done.from_checkpoint = holding.as_ref().map(|held| held.record.id);
        }
        (_, None) => return Ok(done),
    }
    if !place.is_file() {
        return Ok(done);
    }
    done.moved.extend(gather(config, conversation, &place, aside, SystemTime::from(clock::timestamp()))?);
    done.repaired = repair(&place, aside)?;
    // Not to find it is told by the agent itself.
    done.not_adopted = kind.adopt(config, conversation, &place).err().map(|e| e.to_string());
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

/// The place at which a conversation of a session was seen.
pub fn seen_at(session: &Session, conversation: &str) -> Option<PathBuf> {
    session.conversations.iter().find(|known| known.id == conversation)?.seen_at()
}

/// A conversation that its session goes on with: from here on the last one of it.
pub fn seen(id: &str, session: &str, run: Option<&str>, transcript: Option<&Path>, actor: Actor) -> NewEvent {
    let transcript = transcript.map(|path| name::display(path.as_os_str().as_encoded_bytes()));
    NewEvent::new(event_kind::CONVERSATION_SEEN, id, actor)
        .with("session", session)
        .with("run", run)
        .with("transcript", transcript)
}

/// Path of a conversation's transcript: as it was seen, or where the agent keeps it.
pub fn transcript(known: &parhelia_ledger::Conversation, config: Option<&Path>) -> Option<PathBuf> {
    let seen = known.seen_at().filter(|path| path.is_file());
    seen.or_else(|| Some(TranscriptLocation::by_session(config?, &known.id).ok()?.transcript))
}

#[cfg(test)]
mod tests;
