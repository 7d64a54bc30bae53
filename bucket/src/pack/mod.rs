//! Packs in the bucket: local packs, sealed as they are, under random names.

mod fetch;
mod upload;

pub use self::{
    fetch::{fetch_range, fetch_whole},
    upload::{PART_BYTES, Upload, upload},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    codec::{Decoder, Encoder, Malformed, hex, unhex_any},
    error::Result,
    layout::PackKey,
    seal::{Cipher, Content, Sealing},
};

/// Longest label of a pack, in bytes.
pub const LABEL_BYTES_MAX: usize = 64;

/// A pack as segments name it: enough to read any range of it with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackRef {
    /// Its identity.
    pub key: PackKey,
    /// How it is sealed.
    pub sealing: Sealing,
    /// Length of its content, in bytes.
    pub content_bytes: u64,
    /// BLAKE3 of its content.
    pub digest: [u8; 32],
    /// The local store's name of it, which this crate does not read.
    pub label: Vec<u8>,
}

impl PackRef {
    pub(crate) fn encode(&self, to: &mut Encoder) {
        self.key.encode(to);
        to.u8(self.sealing.cipher as u8).u8(self.sealing.piece_log2).u32(self.sealing.generation);
        to.u64(self.content_bytes).raw(&self.digest).bytes(&self.label);
    }

    pub(crate) fn decode(from: &mut Decoder) -> Result<Self, Malformed> {
        let key = PackKey::decode(from)?;
        let (cipher, piece_log2, generation) = (Cipher::of(from.u8()?).ok_or(Malformed)?, from.u8()?, from.u32()?);
        if !(12..=22).contains(&piece_log2) {
            return Err(Malformed);
        }
        let sealing = Sealing { cipher, generation, piece_log2 };
        let (content_bytes, digest, label) = (from.u64()?, from.array()?, from.bytes()?.to_vec());
        if label.len() > LABEL_BYTES_MAX {
            return Err(Malformed);
        }
        Ok(PackRef { key, sealing, content_bytes, digest, label })
    }
}

/// In JSON, as it is encoded in segments, in hex.
impl Serialize for PackRef {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Encoder::default();
        self.encode(&mut bytes);
        to.serialize_str(&hex(&bytes.finish()))
    }
}

impl<'de> Deserialize<'de> for PackRef {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes = unhex_any(&String::deserialize(from)?).ok_or_else(|| D::Error::custom("not hex"))?;
        PackRef::decode(&mut Decoder::of(&bytes)).map_err(|_| D::Error::custom("not a pack"))
    }
}

/// A pack that a commit needs in the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPack {
    /// The local store's name of it, at most 64 bytes.
    pub label: Vec<u8>,
    /// BLAKE3 of its content.
    pub digest: [u8; 32],
    /// Length of its content, in bytes.
    pub content_bytes: u64,
    /// The same pack, or one that holds what is needed, as the bucket has it already; absent where it must be uploaded.
    pub there: Option<PackRef>,
}

/// Where the content of packs comes from: the local store.
pub trait PackSource: Send + Sync {
    /// The content of a pack.
    fn open(&self, label: &[u8]) -> Result<Box<dyn Content + Send + Sync>>;

    /// Packs of this machine's own that hold what is needed of a pack that the bucket is about to lose, or has lost.
    fn replace(&self, lost: &PackRef) -> Result<Vec<WantedPack>>;
}
