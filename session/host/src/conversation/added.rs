//! Conversation that one checkpoint adds to another's.

use parhelia_agent::transcript::{
    files::TRANSCRIPT,
    messages::{self, Message},
};
use parhelia_store::{
    Store,
    blob::BlobReader,
    record::Checkpoint,
    tree::{Kind, Node},
};

use crate::{
    Result,
    error::IoContext,
    state::{CONVERSATION, state_file},
};

/// No more of a conversation is read than this, from its end.
pub const READ_BYTES_MAX: u64 = 64 << 20;
/// So many bytes before the older end are compared, to tell whether the one conversation continues the other.
const SEAM_BYTES: u64 = 4096;

/// The conversation that a checkpoint adds to that of an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// True if it continues the older one. Otherwise it is another one, or was rewritten, or the older checkpoint has none; all of it is
    /// read.
    pub continues: bool,
    /// True if the older checkpoint has a conversation.
    pub has_older: bool,
    /// Bytes of the transcript that were read.
    pub bytes: u64,
    /// Bytes of it that were passed over, because only so many are read.
    pub skipped_bytes: u64,
}

/// Reads what a checkpoint's conversation adds to that of an older one, and hands each message to `each`, its texts cut to so many bytes. None
/// where the newer one has no conversation.
pub fn read(
    store: &Store,
    old: Option<&Checkpoint>,
    new: &Checkpoint,
    text_bytes_max: usize,
    each: impl FnMut(Message),
) -> Result<Option<Delta>> {
    let Some(newer) = transcript(store, new)? else { return Ok(None) };
    let older = old.map(|old| transcript(store, old)).transpose()?.flatten();
    let from = match &older {
        Some(older) if continues(older, &newer)? => Some(older.size()),
        _ => None,
    };
    let wanted = from.unwrap_or(0);
    let start = wanted.max(newer.size().saturating_sub(READ_BYTES_MAX));
    let bytes = range(&newer, start, newer.size())?;
    messages::read(bytes.as_slice(), text_bytes_max, each).at("read", TRANSCRIPT.as_ref())?;
    Ok(Some(Delta {
        continues: from.is_some(),
        has_older: older.is_some(),
        bytes: newer.size() - start,
        skipped_bytes: start - wanted,
    }))
}

/// So many last bytes of a checkpoint's conversation; none where it has none.
pub fn last_bytes(store: &Store, checkpoint: &Checkpoint, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let found = transcript(store, checkpoint)?;
    found.map(|found| range(&found, found.size().saturating_sub(bytes_max), found.size())).transpose()
}

fn transcript<'a>(store: &'a Store, checkpoint: &Checkpoint) -> Result<Option<BlobReader<'a>>> {
    match state_file(store, checkpoint, &format!("{CONVERSATION}/{TRANSCRIPT}"))? {
        Some(Node { kind: Kind::File { size, blob, .. }, .. }) => Ok(Some(store.blob(blob, size)?)),
        _ => Ok(None),
    }
}

fn range(reader: &BlobReader<'_>, from: u64, until: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.read_range(from..until, |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}

/// Checks whether the newer transcript begins with the older one. Only the end of the older one is compared.
fn continues(older: &BlobReader<'_>, newer: &BlobReader<'_>) -> Result<bool> {
    let end = older.size();
    if newer.size() < end {
        return Ok(false);
    }
    let seam = |reader: &BlobReader<'_>| range(reader, end.saturating_sub(SEAM_BYTES), end);
    Ok(seam(older)? == seam(newer)?)
}
