//! Sums over an entry and everything below it.

use crate::codec::{DecodeError, Decoder, put_uint};

/// Sums over everything below a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Entries of every kind, at every depth.
    pub entries: u64,
    /// Regular files, at every depth; each name of a hard link counts.
    pub files: u64,
    /// Their bytes, holes included.
    pub bytes: u64,
    /// Folders, at every depth.
    pub folders: u64,
    /// Folders directly inside: a folder's link count is this + 2.
    pub subfolders: u64,
    /// Features that occur below: see [`features`].
    pub features: u8,
}

/// Bits of [`Totals::features`].
pub mod features {
    /// Something has extended attributes.
    pub const XATTR: u8 = 1;
    /// Something is hard-linked.
    pub const HARD_LINK: u8 = 2;
    /// Some file has holes.
    pub const SPARSE: u8 = 4;
    /// There is a fifo, socket or device.
    pub const SPECIAL: u8 = 8;
    /// Every bit that means something.
    pub(super) const ALL: u8 = XATTR | HARD_LINK | SPARSE | SPECIAL;
}

impl Totals {
    /// Joins the sums over two parts of one folder.
    pub fn merge(&mut self, other: &Totals) {
        self.entries = self.entries.saturating_add(other.entries);
        self.files = self.files.saturating_add(other.files);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.folders = self.folders.saturating_add(other.folders);
        self.subfolders = self.subfolders.saturating_add(other.subfolders);
        self.features |= other.features;
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.entries, self.files, self.bytes, self.folders, self.subfolders] {
            put_uint(out, number);
        }
        out.push(self.features);
    }

    pub(crate) fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Totals {
            entries: d.uint("totals")?,
            files: d.uint("totals")?,
            bytes: d.uint("totals")?,
            folders: d.uint("totals")?,
            subfolders: d.uint("totals")?,
            features: d.byte("totals").and_then(|found| match found & !features::ALL {
                0 => Ok(found),
                _ => Err(DecodeError("features")),
            })?,
        })
    }
}
