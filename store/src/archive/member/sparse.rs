//! Sparse files in an archive.

use super::{MemberContent, number};
use crate::{
    archive::{pax::BLOCK, reader::Reader},
    error::Result,
    format::BLOCK_BYTES_MAX,
    tree::Hole,
};

/// A sparse file in more pieces has a map that no tree holds: each takes four bytes of it, at least.
const SPARSE_PIECES_MAX: u64 = BLOCK_BYTES_MAX as u64 / 4;

impl Reader<'_> {
    /// Reads the map at the start of a sparse member's data.
    pub(super) fn sparse(&mut self, real_size: Option<u64>) -> Result<MemberContent> {
        let label = self.rest.name.clone();
        let real_size = real_size.filter(|size| *size <= self.limits.file_bytes_max);
        let size = real_size.ok_or_else(|| self.refused(&label, "its real size is missing or too large"))?;
        let map_bytes = self.rest.stored_bytes;
        let mut text: Vec<u8> = Vec::new();
        let mut numbers: Vec<u64> = Vec::new();
        loop {
            while let Some(end) = text.iter().position(|&b| b == b'\n') {
                numbers.push(number(&text[..end]).ok_or_else(|| self.refused(&label, "its sparse map does not parse"))?);
                text.drain(..=end);
                // Each piece takes two numbers, and each of these two bytes of the member at least.
                if numbers.len() == 1 && numbers[0] > SPARSE_PIECES_MAX.min(map_bytes / 4) {
                    let reason = format!("its sparse map has {} pieces, more than its data or a tree can hold", numbers[0]);
                    return Err(self.refused(&label, &reason));
                }
                if numbers.len() as u64 > numbers[0].saturating_mul(2) {
                    return self.finish_sparse(&label, size, &numbers[1..]);
                }
            }
            if text.len() > 40 || self.rest.stored_bytes < BLOCK as u64 {
                return Err(self.refused(&label, "its sparse map does not parse"));
            }
            let mut block = [0; BLOCK];
            self.read_exact(&mut block)?;
            self.rest.stored_bytes -= BLOCK as u64;
            text.extend_from_slice(&block);
        }
    }

    fn finish_sparse(&mut self, label: &[u8], size: u64, numbers: &[u64]) -> Result<MemberContent> {
        let mut holes = Vec::new();
        let mut map = Vec::new();
        let (mut at, mut data) = (0u64, 0u64);
        for pair in numbers.chunks_exact(2) {
            let (start, bytes) = (pair[0], pair[1]);
            let end = start.checked_add(bytes).filter(|end| start >= at && *end <= size);
            let end = end.ok_or_else(|| self.refused(label, "its sparse map makes no sense"))?;
            Hole::add(&mut holes, at, start);
            if bytes > 0 {
                map.push((start, bytes));
            }
            data += bytes;
            at = end;
        }
        Hole::add(&mut holes, at, size);
        if data != self.rest.stored_bytes {
            return Err(self.refused(label, "its sparse map does not fit its data"));
        }
        self.rest.map = map;
        Ok(MemberContent::File { size, holes })
    }
}
