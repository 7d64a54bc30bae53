//! Key slots: who can open a bucket.
//!
//! The master keys are wrapped for each slot's X25519 key. A passphrase's and a recovery phrase's key is derived from it; so whoever has the bucket open
//! can wrap a new generation for all slots without their secrets, and rotation asks nobody.
//!
//! Wrapping needs no secret, so the bucket's owner could wrap a key of his own, and learn what is written with it. Two things are against that. Each
//! generation is vouched for by the one before. And a slot that is made from a passphrase or a recovery phrase vouches, with a key that only its secret gives, for
//! the generation that it was made with. A slot of an X25519 key cannot: a machine that opens a bucket with one for the first time compares the
//! fingerprint, which [`Document::fingerprint`] gives, with that on another machine. From then on it is remembered, and told to [`unlock`].

mod document;
mod phrase;
mod slot;
#[cfg(test)]
mod tests;

pub use self::{
    document::{Document, Fingerprint},
    phrase::RecoveryPhrase,
    slot::{PrivateKey, PublicKey, Secret, SlotInfo, SlotKind},
};
use crate::{
    error::{Error, Result},
    layout,
    remote::{Client, Effort},
    seal::Keyring,
};

/// Longest document of keys, in bytes.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;

/// The newest document of keys, and its number. Absent where a bucket has none.
pub async fn read(client: &Client, effort: &Effort) -> Result<Option<Document>> {
    let listed = client.list(layout::KEYS, None, effort).await?;
    let Some(number) = listed.iter().filter_map(|listed| layout::number_of(&listed.object)).max() else { return Ok(None) };
    let object = layout::keys(number);
    let bytes = client.get(&object, DOCUMENT_BYTES_MAX, effort).await?;
    Document::decode(&object, number, &bytes).map(Some)
}

/// Opens the keys of a bucket. `known` is the fingerprint of a generation that this machine has used, if it has.
pub async fn unlock(client: &Client, secret: &Secret, known: Option<&Fingerprint>, effort: &Effort) -> Result<Keyring> {
    let document = read(client, effort).await?;
    document.ok_or_else(|| Error::Foreign("it has no keys".into()))?.open(secret, known)
}

/// Writes a document of keys as the next one. False if another machine was first: the change is then made anew, on what that one has written.
pub async fn write(client: &Client, document: &Document, effort: &Effort) -> Result<bool> {
    let bytes = bytes::Bytes::from(document.encode()?);
    let object = layout::keys(document.number());
    match client.put_absent(&object, &bytes, DOCUMENT_BYTES_MAX, &|_| false, effort).await? {
        crate::remote::PutOutcome::Ours => Ok(true),
        crate::remote::PutOutcome::Theirs(_) => Ok(false),
    }
}
