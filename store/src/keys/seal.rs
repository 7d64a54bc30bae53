//! The one place through which a store's content goes on its way to the disk and back. What it does not see are magic numbers, versions,
//! lengths, checksums of what is stored, and where things lie. Large files of an archive that is imported are put down for the time in a
//! file without a name, which does not pass it.

use std::{borrow::Cow, fmt, sync::Arc};

use super::Ids;
use crate::codec::DecodeError;

/// A kind of stored bytes. Those of one part are never taken for those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The directory of a block: kinds, ids and lengths of its objects.
    Directory,
    /// The payload of a block.
    Payload,
    /// The body of a journal record.
    Journal,
    /// Knowledge of the files of a workspace: stat caches, and the state of files that grow.
    Cache,
    /// A value of the index.
    View,
}

/// Makes stored bytes of bytes.
pub trait Cipher: Send + Sync {
    /// By how many bytes the stored ones are longer.
    fn overhead(&self) -> usize;
    /// The bytes to be stored.
    fn seal(&self, part: Part, bytes: &[u8]) -> Vec<u8>;
    /// The bytes that were sealed; none where these are no sealed ones of this part.
    fn open(&self, part: Part, stored: &[u8]) -> Option<Vec<u8>>;
}

/// The seal of a store's bytes: none, or a cipher.
#[derive(Clone, Default)]
pub struct Seal(Option<Arc<dyn Cipher>>);

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Seal(cipher)" } else { "Seal(plain)" })
    }
}

impl Seal {
    /// A seal that encrypts with this cipher.
    pub fn by(cipher: Arc<dyn Cipher>) -> Self {
        Seal(Some(cipher))
    }

    /// True if bytes are stored as they are.
    pub fn is_plain(&self) -> bool {
        self.0.is_none()
    }

    /// By how many bytes stored ones are longer.
    pub fn overhead(&self) -> usize {
        self.0.as_ref().map_or(0, |cipher| cipher.overhead())
    }

    /// The bytes to be stored.
    pub fn seal<'b>(&self, part: Part, bytes: impl Into<Cow<'b, [u8]>>) -> Cow<'b, [u8]> {
        let bytes = bytes.into();
        match &self.0 {
            Some(cipher) => Cow::Owned(cipher.seal(part, &bytes)),
            None => bytes,
        }
    }

    /// The bytes that were stored.
    pub fn open<'b>(&self, part: Part, stored: impl Into<Cow<'b, [u8]>>) -> Result<Cow<'b, [u8]>, DecodeError> {
        let stored = stored.into();
        match &self.0 {
            Some(cipher) => cipher.open(part, &stored).map(Cow::Owned).ok_or(DecodeError("sealed bytes")),
            None => Ok(stored),
        }
    }

    /// A name as the keys of the index have it: nobody reads it there, unless everything can be read.
    pub fn name<'n>(&self, ids: &Ids, name: &'n str) -> Cow<'n, str> {
        match self.is_plain() {
            true => Cow::Borrowed(name),
            false => Cow::Owned(ids.name(name.as_bytes())),
        }
    }
}
