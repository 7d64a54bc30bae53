//! Pushing all that a local journal has.

use super::Observer;
use crate::{
    bucket::Bucket,
    chain::{Cursor, Entry, Machine, MachineMemory},
    error::Result,
    pack::PackSource,
};

/// Bytes of a batch: half of what a segment holds, so that a few packs more than were counted still fit.
const BATCH_BYTES: usize = 2 << 20;

/// Records of a local journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The records, in order.
    pub entries: Vec<Entry>,
    /// The place behind the last of them.
    pub cursor: Cursor,
}

/// A local store that is pushed.
pub trait Source: PackSource {
    /// Records behind a place, in order; none at the end. Together they have at most `bytes_max` bytes, with 256 for each pack of a commit;
    /// a single record that has more is given alone. Records that came from the bucket are left out, and passed by the cursor.
    fn behind(&self, cursor: Cursor, bytes_max: usize) -> Result<Batch>;
}

/// Report of a push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Place in the local journal up to which everything is in the bucket for good.
    pub cursor: Cursor,
    /// Segments that were written.
    pub segments: u64,
    /// Packs that were uploaded.
    pub packs: u64,
}

/// Pushes everything that is behind the machine's cursor, oldest first.
///
/// Fails with [`crate::Error::NotKnown`] where the outcome of the last batch is open; what [`Observer::pushed`] was told before stays true.
pub async fn push(
    bucket: &Bucket,
    memory: &dyn MachineMemory,
    source: &dyn Source,
    observer: &dyn Observer,
) -> Result<PushReport> {
    let mut machine = Machine::open(bucket, memory).await?;
    let mut report = PushReport::default();
    let mut batch = Batch::default();
    loop {
        let pushed = machine.push(&batch.entries, batch.cursor, source).await?;
        report.segments += pushed.segments;
        report.packs += pushed.packs;
        report.cursor = pushed.cursor;
        observer.pushed(&pushed);
        batch = source.behind(pushed.cursor, BATCH_BYTES)?;
        if batch.entries.is_empty() {
            return Ok(report);
        }
    }
}
