//! Uploading packs: in one request, or in parts that are kept over an interruption.
//!
//! A pack's object has a random name and one content, so an upload may be repeated and may land late without harm: nothing depends on its
//! order. Conditional completion of uploads in parts is ignored by several servers, and is not used.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::PackRef;
use crate::{
    bucket::Bucket,
    codec::hex,
    error::{Error, Result},
    seal::{Content, Seal, Shape},
};

/// Length of a part where nothing else is asked for, in bytes; also the longest object that is written in one request. All parts but the last
/// have one length, as R2 asks for.
pub const PART_BYTES: u64 = 16 << 20;
/// Most parts of an upload, as S3 has it.
const PARTS_MAX: u64 = 10_000;
/// Uploads that are begun anew before one is given up.
const BEGINNINGS_MAX: u32 = 3;
/// Length of what is read of a content at once to hash it, in bytes.
const HASHED_BYTES: usize = 1 << 20;

/// An upload in parts that has begun. Kept by the caller, it goes on in another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// The remote's id of the upload.
    pub id: String,
    /// The remote's names of the parts that it has, by their index.
    pub parts: BTreeMap<u64, String>,
    /// Length of a part, in bytes.
    pub part_bytes: u64,
}

/// Length of the parts of an object, in bytes: longer ones where 10,000 would not do.
fn part_bytes(stored_bytes: u64, wanted: u64) -> u64 {
    let least = stored_bytes.div_ceil(PARTS_MAX);
    if least <= wanted { wanted } else { least.next_multiple_of(1 << 20) }
}

/// True if a content is the one that a pack stands for.
fn is_content_of(pack: &PackRef, content: &(dyn Content + Send + Sync)) -> Result<bool> {
    if content.bytes() != pack.content_bytes {
        return Ok(false);
    }
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; HASHED_BYTES];
    let mut at = 0;
    while at < pack.content_bytes {
        let length = usize::try_from(pack.content_bytes - at).unwrap_or(HASHED_BYTES).min(HASHED_BYTES);
        content.read_at(at, &mut buffer[..length])?;
        hasher.update(&buffer[..length]);
        at += length as u64;
    }
    Ok(hasher.finalize() == pack.digest)
}

/// Uploads a pack. Fails with [`Error::Changed`] if the content is not the one that the pack stands for; its name must not be used again then,
/// as a part that is on the remote may have been sealed from the other content. `upload` is where an earlier try got to; `keep` is called whenever it has changed, before the next request.
pub async fn upload(
    bucket: &Bucket,
    pack: &PackRef,
    content: &(dyn Content + Send + Sync),
    upload: &mut Option<Upload>,
    keep: &mut (dyn FnMut(&Option<Upload>) -> Result<()> + Send),
) -> Result<()> {
    let Bucket { client, keys, effort, .. } = bucket;
    let object = pack.key.object();
    // Keys and nonces follow from the name alone: another content under this name, in a later process or after a repair, would show both.
    if !is_content_of(pack, content)? {
        if let Some(begun) = upload.take() {
            keep(upload)?;
            if let Some(parts_of) = client.parts_of(&object) {
                // Parts that stay cost space until the server drops them, and nothing refers to them: a failure is none of this upload.
                parts_of.abort(&begun.id, effort).await.ok();
            }
        }
        return Err(Error::Changed { object, label: hex(&pack.label) });
    }
    let seal = Seal::new(&object, pack.key.name, pack.sealing, keys)?;
    let stored_bytes = Shape::of(pack.content_bytes, pack.sealing)?.stored_bytes();
    let Some(parts_of) = client.parts_of(&object).filter(|_| stored_bytes > bucket.part_bytes) else {
        let bytes = seal.seal_range(content, keys, 0..stored_bytes)?;
        return client.put(&object, bytes.into(), effort).await;
    };
    let mut last = None;
    for _ in 0..BEGINNINGS_MAX {
        let mut state = match upload.take() {
            Some(begun) => begun,
            None => {
                let id = parts_of.begin(effort).await?;
                Upload { id, parts: BTreeMap::new(), part_bytes: part_bytes(stored_bytes, bucket.part_bytes) }
            }
        };
        *upload = Some(state.clone());
        keep(upload)?;
        let sent = async {
            for index in 0..stored_bytes.div_ceil(state.part_bytes) {
                if state.parts.contains_key(&index) {
                    continue;
                }
                let start = index * state.part_bytes;
                let bytes = seal.seal_range(content, keys, start..(start + state.part_bytes).min(stored_bytes))?;
                let at = usize::try_from(index).map_err(|_| Error::Invalid(format!("cannot upload {object}: too many parts")))?;
                let name = parts_of.put(&state.id, at, Bytes::from(bytes), effort).await?;
                state.parts.insert(index, name);
                *upload = Some(state.clone());
                keep(upload)?;
            }
            let names: Vec<String> = state.parts.values().cloned().collect();
            parts_of.complete(&state.id, &names, effort).await
        };
        match sent.await {
            Ok(()) => {}
            Err(e) if matches!(e, Error::State(_) | Error::Invalid(_)) => return Err(e),
            // The upload may be complete all the same, or gone: the object tells.
            Err(e) => last = Some(e),
        }
        if client.size(&object, effort).await? == Some(stored_bytes) {
            *upload = None;
            return keep(upload);
        }
        // An upload that the remote does not know any more begins anew. One whose parts failed for a while goes on next time; where all parts
        // are there, completing it is tried again.
        match &last {
            Some(e) if !e.is_transient() => *upload = None,
            Some(_) if state.parts.len() as u64 != stored_bytes.div_ceil(state.part_bytes) => break,
            _ => tokio::time::sleep(effort.pause).await,
        }
    }
    keep(upload)?;
    Err(last.unwrap_or_else(|| Error::damaged(&object, "it was uploaded, and is not there")))
}
