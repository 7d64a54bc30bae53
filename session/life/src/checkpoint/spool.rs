//! A stream that is looked at twice, as a file.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use parhelia_store::{
    Store,
    files::{self, How},
    id::Ulid,
};

use parhelia_host::{Error, Result};

/// A copy of a stream; removed when this is dropped.
#[derive(Debug)]
pub struct SpoolFile(PathBuf);

impl SpoolFile {
    /// Copies a stream to its end.
    pub fn of(store: &Store, stream: &mut dyn Read) -> Result<Self> {
        let spooled = SpoolFile(store.layout().cache().join(format!("{}.stream.tmp", Ulid::generate())));
        let failed = |source| Error::Io { action: "copy standard input to", path: spooled.0.clone(), source };
        files::open(&spooled.0, How::New).and_then(|mut file| io::copy(stream, &mut file)).map_err(failed)?;
        Ok(spooled)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        let _ = files::remove(&self.0);
    }
}
