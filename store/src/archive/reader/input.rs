//! Bytes of an archive, within the limits of memory and size.

use std::io::Read;

use super::Reader;
use crate::{archive::pax::BLOCK, error::Result};

impl<'a> Reader<'a> {
    fn expanded(&mut self, bytes: usize) -> Result<()> {
        self.expanded_bytes += bytes as u64;
        let allowed = self.input.source_bytes().saturating_mul(self.limits.expansion_max);
        if self.expanded_bytes > self.limits.expanded_bytes_free && self.expanded_bytes > allowed {
            let reason = format!("the archive expands more than {} times; it is refused as a bomb", self.limits.expansion_max);
            return Err(self.refused(&self.rest.name, &reason));
        }
        Ok(())
    }

    pub(crate) fn read_exact(&mut self, out: &mut [u8]) -> Result<()> {
        match self.input.read_exact(out) {
            Ok(()) => self.expanded(out.len()),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.refused(&self.rest.name, "the archive ends in it"))
            }
            Err(e) => Err(self.refused(&self.rest.name, &e.to_string())),
        }
    }

    /// Reads a header block; false at the end of the stream.
    pub(in crate::archive) fn read_block(&mut self, block: &mut [u8; BLOCK]) -> Result<bool> {
        let mut filled = 0;
        while filled < BLOCK {
            match self.input.read(&mut block[filled..]) {
                Ok(0) if !self.is_tar => return Err(self.not_an_archive(&block[..filled])),
                Ok(0) if filled == 0 => {
                    return Err(self.refused(&self.rest.name, "the archive ends behind it, without an end mark"));
                }
                Ok(0) => return Err(self.refused(&self.rest.name, "the archive ends in the header behind it")),
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.refused(&self.rest.name, &e.to_string())),
            }
        }
        self.expanded(BLOCK)?;
        Ok(true)
    }

    /// Reads to the end, so that the compressed stream's own checksum is checked.
    pub(in crate::archive) fn drain(&mut self) -> Result<()> {
        let mut buffer = [0; 4 * BLOCK];
        loop {
            match self.input.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => self.expanded(n)?,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.refused(b"", &e.to_string())),
            }
        }
    }

    pub(in crate::archive) fn skip_rest(&mut self) -> Result<()> {
        let mut left = self.rest.stored_bytes + self.rest.padding;
        let mut buffer = [0; 16 * BLOCK];
        while left > 0 {
            let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            self.read_exact(&mut buffer[..wanted])?;
            left -= wanted as u64;
        }
        self.rest.stored_bytes = 0;
        self.rest.padding = 0;
        self.rest.map.clear();
        Ok(())
    }

    pub(in crate::archive) fn read_extended(&mut self, label: &[u8], size: u64) -> Result<Vec<u8>> {
        if size > self.limits.header_bytes_max {
            return Err(self.refused(label, &format!("an extended header of {size} bytes is too long")));
        }
        let mut bytes = Vec::new();
        let padded = size.next_multiple_of(BLOCK as u64);
        let mut buffer = [0; 8 * BLOCK];
        while (bytes.len() as u64) < padded {
            let wanted = buffer.len().min((padded - bytes.len() as u64) as usize);
            self.read_exact(&mut buffer[..wanted])?;
            bytes.extend_from_slice(&buffer[..wanted]);
        }
        bytes.truncate(size as usize);
        Ok(bytes)
    }
}
