//! Bringing an index up to date.

use std::path::Path;

use super::{
    index::{Format, Index, IndexUpdate, go_on},
    prefix::Check,
};
use crate::error::Result;

/// Indexes a file up to `end`, a record boundary ([`cut`](super::cut())), going on from an earlier index where its bytes are still there.
/// The transcript may grow meanwhile; if it ends before `end`, the index ends with its last whole record.
pub fn update(previous: Option<Index>, path: &Path, end: u64, format: Format, check: Check) -> Result<IndexUpdate> {
    go_on(previous, path, end, (format, format.records().apply), check)
}

#[cfg(test)]
impl Index {
    /// Takes in one line.
    pub(super) fn apply(&mut self, line: &[u8], offset: u64) {
        (self.format.records().apply)(self, line, offset);
    }
}
