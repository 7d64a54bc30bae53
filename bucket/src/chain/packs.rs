//! Packs of a push: which are in the bucket already, and which must be uploaded.

use std::collections::BTreeMap;

use super::memory::{MachineMemory, MachineState, PackUpload};
use crate::{
    bucket::Bucket,
    codec::hex,
    error::{Error, Result},
    gc::{Ledger, PackStatus},
    layout::PackKey,
    pack::{LABEL_BYTES_MAX, PackRef, PackSource, WantedPack, upload},
    random,
};

/// The packs of one push.
#[derive(Debug, Default)]
pub(super) struct PackPlan {
    /// What has been provided, by label: several commits of a push may need one pack.
    provided: BTreeMap<Vec<u8>, PackRef>,
}

impl PackPlan {
    /// Makes sure that packs are in the bucket, and returns them as segments name them.
    #[expect(clippy::too_many_arguments, reason = "parts of a machine that are borrowed one by one")]
    pub async fn provide(
        &mut self,
        bucket: &Bucket,
        ledger: &Ledger,
        memory: &dyn MachineMemory,
        state: &mut MachineState,
        wanted: &[WantedPack],
        source: &dyn PackSource,
        uploaded: &mut u64,
    ) -> Result<Vec<PackRef>> {
        let mut packs = Vec::with_capacity(wanted.len());
        for pack in wanted {
            if pack.label.len() > LABEL_BYTES_MAX {
                return Err(Error::Invalid(format!("cannot push a pack whose name has {} bytes", pack.label.len())));
            }
            // A pack that is condemned must not be relied on: gc may have read the chains already.
            let there = pack.there.clone().or_else(|| self.provided.get(&pack.label).cloned());
            let provided = match there {
                Some(there) if ledger.pack(&there.key) == PackStatus::Usable => vec![there],
                Some(there) if pack.there.is_some() => {
                    let own = source.replace(&there)?;
                    // Copies of this machine's own are not there yet, so this ends.
                    let own: Vec<WantedPack> = own.into_iter().map(|own| WantedPack { there: None, ..own }).collect();
                    Box::pin(self.provide(bucket, ledger, memory, state, &own, source, uploaded)).await?
                }
                _ => vec![send(bucket, ledger, memory, state, pack, source, uploaded).await?],
            };
            if let [one] = &provided[..] {
                self.provided.insert(pack.label.clone(), one.clone());
            }
            packs.extend(provided);
        }
        packs.dedup_by_key(|pack| pack.key);
        Ok(packs)
    }
}

/// Uploads a pack, or goes on where an earlier process stopped.
async fn send(
    bucket: &Bucket,
    ledger: &Ledger,
    memory: &dyn MachineMemory,
    state: &mut MachineState,
    wanted: &WantedPack,
    source: &dyn PackSource,
    uploaded: &mut u64,
) -> Result<PackRef> {
    let label = hex(&wanted.label);
    let is_same = |begun: &&PackUpload| {
        let PackRef { digest, content_bytes, sealing, key, .. } = &begun.pack;
        (*digest, *content_bytes, *sealing) == (wanted.digest, wanted.content_bytes, bucket.sealing())
            && ledger.pack(key) == PackStatus::Usable
    };
    let begun = state.uploads.get(&label).filter(is_same).cloned();
    let begun = match begun {
        Some(begun) if begun.is_whole => return Ok(begun.pack),
        Some(begun) => begun,
        None => {
            let name = random::name(&*bucket.random, &wanted.digest)?;
            let key = PackKey { machine: state.machine, number: state.next, name };
            let (sealing, content_bytes, digest) = (bucket.sealing(), wanted.content_bytes, wanted.digest);
            let pack = PackRef { key, sealing, content_bytes, digest, label: wanted.label.clone() };
            PackUpload { pack, upload: None, is_whole: false }
        }
    };
    let PackUpload { pack, upload: mut parts, .. } = begun;
    // Kept before the first request: a later process goes on under the same name, and leaves no second copy behind.
    let mut keep = |parts: &Option<crate::pack::Upload>| {
        let upload = PackUpload { pack: pack.clone(), upload: parts.clone(), is_whole: false };
        state.uploads.insert(label.clone(), upload);
        memory.save(state)
    };
    keep(&parts)?;
    let content = source.open(&wanted.label)?;
    let sent = upload(bucket, &pack, &*content, &mut parts, &mut keep).await;
    if matches!(sent, Err(Error::Changed { .. })) {
        // The name is given up: whatever the pack has once it is repaired goes under a fresh one.
        state.uploads.remove(&label);
        memory.save(state)?;
    }
    sent?;
    *uploaded += 1;
    state.uploads.insert(label, PackUpload { pack: pack.clone(), upload: None, is_whole: true });
    memory.save(state)?;
    Ok(pack)
}
