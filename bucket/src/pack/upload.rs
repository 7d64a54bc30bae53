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

/// Uploads a pack. `upload` is where an earlier try got to; `keep` is called whenever it has changed, before the next request.
pub async fn upload(
    bucket: &Bucket,
    pack: &PackRef,
    content: &(dyn Content + Send + Sync),
    upload: &mut Option<Upload>,
    keep: &mut (dyn FnMut(&Option<Upload>) -> Result<()> + Send),
) -> Result<()> {
    let Bucket { client, keys, effort, .. } = bucket;
    let object = pack.key.object();
    if content.bytes() != pack.content_bytes {
        return Err(Error::Invalid(format!("cannot upload {object}: its content has {} bytes now", content.bytes())));
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
