//! Reading packs of the bucket.

use std::ops::Range;

use super::PackRef;
use crate::{
    error::{Error, Result},
    remote::{Client, Effort},
    seal::{HEADER_BYTES, Header, Keyring, Seal, Shape, WHOLE_BYTES_MAX, open_whole},
};

/// A whole pack, checked against its digest. Packs above 256 MiB are read in ranges.
pub async fn fetch_whole(client: &Client, keys: &Keyring, pack: &PackRef, effort: &Effort) -> Result<Vec<u8>> {
    let object = pack.key.object();
    let stored_bytes = Shape::of(pack.content_bytes, pack.sealing)?.stored_bytes();
    if stored_bytes > WHOLE_BYTES_MAX {
        return Err(Error::Invalid(format!("cannot read {object} as a whole: it has {stored_bytes} bytes")));
    }
    let stored = client.get(&object, stored_bytes, effort).await?;
    let (header, content) = open_whole(&object, stored.into(), keys)?;
    if header.name != pack.key.name
        || content.len() as u64 != pack.content_bytes
        || *blake3::hash(&content).as_bytes() != pack.digest
    {
        return Err(Error::damaged(object, "its content is not what its segment names"));
    }
    Ok(content)
}

/// A range of a pack's content, with one request. What it holds is authentic; whether it is what an object's id stands for is its reader's check.
pub async fn fetch_range(client: &Client, keys: &Keyring, pack: &PackRef, range: Range<u64>, effort: &Effort) -> Result<Vec<u8>> {
    let object = pack.key.object();
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let seal = Seal::new(&object, pack.key.name, pack.sealing, keys)?;
    let stored_range = seal.stored_range(pack.content_bytes, &range)?;
    if stored_range.end - stored_range.start > WHOLE_BYTES_MAX {
        return Err(Error::Invalid(format!("cannot read {range:?} of {object} at once")));
    }
    let (stored, whole_bytes) = client.get_range(&object, stored_range, effort).await?;
    if whole_bytes != Shape::of(pack.content_bytes, pack.sealing)?.stored_bytes() {
        return Err(Error::damaged(&object, format!("it has {whole_bytes} bytes, and another number was written")));
    }
    match seal.open_range(pack.content_bytes, &range, stored.into()) {
        // The header tells whether it is the key that is wrong.
        Err(fault @ Error::Damaged { .. }) => {
            let (header, _) = client.get_range(&object, 0..HEADER_BYTES, effort).await?;
            Seal::of_header(&object, &Header::decode(&object, &header)?, keys).and(Err(fault))
        }
        opened => opened,
    }
}
