//! Reading archives that anybody may have made: every member is validated before it is handed out.
//!
//! Refused, with the member's name: absolute paths, `..`, names and paths that no filesystem holds, hard links that lead out, sizes
//! that are absurd, data that expands beyond reason, what takes memory beyond reason, damaged headers. A symlink's target is content, and
//! may say anything.

use tar::{EntryType, Header};

use super::{
    member::{ExtendedHeader, unhex},
    pax::BLOCK,
};
pub use super::{
    member::{Member, MemberContent},
    reader::{Limits, Reader},
};
use crate::{
    error::Result,
    omitted::{self, Omission},
};

impl Reader<'_> {
    /// Entries that the capture of the exported checkpoint left out.
    pub fn omissions(&self) -> Result<Vec<Omission>> {
        let mut omissions = Vec::new();
        for hex in [&self.omitted_hex, &self.attributes_hex].into_iter().filter(|hex| !hex.is_empty()) {
            let bytes = unhex(hex).ok_or_else(|| self.refused(b"", "its list of omissions does not parse"))?;
            self.check_kept(b"", omitted::kept_bytes(&bytes))?;
            omissions.extend(omitted::decode(&bytes).map_err(|e| self.refused(b"", &e.to_string()))?);
        }
        omissions.sort_unstable();
        omissions.dedup();
        Ok(omissions)
    }

    /// The next member; nothing at the end. What was not read of the one before is passed over.
    pub fn next_member(&mut self) -> Result<Option<Member>> {
        self.skip_rest()?;
        let mut extended = ExtendedHeader::default();
        let mut block = [0u8; BLOCK];
        while !self.ended {
            if !self.read_block(&mut block)? || block == [0; BLOCK] {
                self.ended = true;
                self.drain()?;
                break;
            }
            let header = Header::from_byte_slice(&block);
            let label = header.path_bytes().into_owned();
            if !checksum_fits(header, &block) {
                let is_tar = self.is_tar || block[257..262] == *b"ustar";
                return Err(if is_tar { self.refused(&label, "its header is damaged") } else { self.not_an_archive(&block) });
            }
            self.is_tar = true;
            let size = header.entry_size().map_err(|_| self.refused(&label, "its size does not parse"))?;
            match header.entry_type() {
                EntryType::XGlobalHeader => {
                    let bytes = self.read_extended(&label, size)?;
                    if let Some(socket) = self.take_global(&bytes)? {
                        return Ok(Some(socket));
                    }
                }
                EntryType::XHeader => {
                    let bytes = self.read_extended(&label, size)?;
                    self.take_extended(&bytes, &label, &mut extended)?;
                }
                EntryType::GNULongName => {
                    extended.path.get_or_insert(without_nul(self.read_extended(&label, size)?));
                }
                EntryType::GNULongLink => {
                    extended.link.get_or_insert(without_nul(self.read_extended(&label, size)?));
                }
                _ => return self.member(header, &label, size, extended).map(Some),
            }
        }
        Ok(None)
    }
}

fn without_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|&b| b == 0) {
        bytes.truncate(end);
    }
    bytes
}

fn checksum_fits(header: &Header, block: &[u8; BLOCK]) -> bool {
    let sum = |range: std::ops::Range<usize>| block[range].iter().map(|b| u32::from(*b)).sum::<u32>();
    header.cksum().is_ok_and(|stated| stated == sum(0..148) + 8 * u32::from(b' ') + sum(156..BLOCK))
}
