//! Blocks that build on others.

use std::path::PathBuf;

use super::wrong_object;
use crate::{
    error::{Error, Result},
    id::{ObjectId, ObjectKind},
    keys::Ids,
    pack::{block::Block, directory::Directory, writer::Location},
};

/// Stands before the reason.
const UNREADABLE_BASE: &str = ", which cannot be read: ";

/// A block that is decoded once its bases are at hand.
#[derive(Debug)]
pub struct OnBases {
    pub(super) directory: Directory,
    pub(super) payload: Vec<u8>,
    pub(super) location: Location,
    pub(super) path: PathBuf,
    pub(super) ids: Ids,
}

impl OnBases {
    /// Bytes of it that are held until it is decoded.
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// The ids of its objects, in order.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.directory.entries.iter().map(|entry| entry.id)
    }

    /// Its bases and their kinds, in order.
    pub fn bases(&self) -> impl Iterator<Item = (ObjectKind, ObjectId)> + '_ {
        self.directory.kinds_and_bases()
    }

    /// Decodes it, and checks every object in it against its id. `prefix` is the bytes of the bases, `depth` how many blocks in a row had
    /// to be decoded for them.
    pub fn decode(&self, prefix: &[u8], depth: u32) -> Result<Block> {
        let corrupt = |what, reason| Error::Corrupt { what, place: self.path.clone(), reason };
        let decoded = self.directory.unpack_on(&self.payload, prefix, depth);
        let block = decoded.map_err(|e| corrupt(format!("block at {}", self.location.offset), e.to_string()))?;
        match wrong_object(&block, &self.ids) {
            None => Ok(block),
            Some((kind, id)) => {
                let what = format!("{} {id} in the block at {}", kind.name(), self.location.offset);
                Err(corrupt(what, "its bytes do not hash to its id".into()))
            }
        }
    }

    /// Names a base that an error keeps from being read. Where that base lacks one in turn, the last one's reason is given.
    pub fn lacks_for(&self, base: ObjectId, error: &Error) -> Error {
        match error {
            Error::Corrupt { reason, .. } => {
                self.lacks(base, &reason.rsplit_once(UNREADABLE_BASE).map_or(&**reason, |(_, why)| why))
            }
            other => self.lacks(base, other),
        }
    }

    /// Names a base that cannot be read.
    pub fn lacks(&self, base: ObjectId, reason: &impl std::fmt::Display) -> Error {
        let reason = format!("it builds on the object {base}{UNREADABLE_BASE}{reason}");
        Error::Corrupt { what: format!("block at {}", self.location.offset), place: self.path.clone(), reason }
    }
}
