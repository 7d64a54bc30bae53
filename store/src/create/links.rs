//! Storing the table of hard links: as a file's content, so that it costs what changed in it.

use super::{
    content::{Earlier, Failure, Reader},
    sink::{Batch, Sink},
    state::put_bytes,
};
use crate::{
    error::{IoContext, Result},
    links::{self, LinkedFolder},
    progress::Progress,
    record::LinksTable,
    store::Store,
};

/// The name by which its chunks are put beside others that are like them.
const NAME: &str = "links";

/// A table that was stored.
pub(super) struct StoredLinks {
    pub(super) table: LinksTable,
    pub(super) bytes: Vec<u8>,
}

/// Stores the table of these folders, if any file has two names in them. `before` is the table that it takes the place of.
pub(super) fn store_links(
    store: &Store,
    sink: &Sink<'_>,
    folders: &[LinkedFolder],
    before: Option<LinksTable>,
    progress: &dyn Progress,
) -> Result<Option<StoredLinks>> {
    let Some(bytes) = links::encode(folders) else { return Ok(None) };
    let earlier = Earlier::new(store, before.map(|table| (table.blob, table.bytes)));
    let mut batch = Batch::new(sink)?;
    let mut reader = Reader::new(store, progress);
    let blob = match put_bytes(&mut reader, &mut batch, &bytes, NAME, &earlier) {
        Ok(blob) => blob,
        Err(Failure::Store(error)) => return Err(error),
        Err(Failure::Unreadable(errno)) => return Err(errno).at("put down the table of hard links for", &store.layout().root),
    };
    batch.finish()?;
    Ok(Some(StoredLinks { table: LinksTable { blob, bytes: bytes.len() as u64 }, bytes }))
}
