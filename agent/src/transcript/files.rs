//! The files of a conversation.

pub use super::raw::{LeftOut, RawFile, RawSet, TRANSCRIPT};

use super::cut::cut;
use crate::{error::Result, kind::TranscriptLocation};

impl RawSet {
    /// Looks for all files of a conversation. The transcript must be there.
    pub fn find(located: &TranscriptLocation) -> Result<Self> {
        let mut set = RawSet::default();
        let at = cut(&located.transcript)?;
        let (source, name) = (located.transcript.clone(), TRANSCRIPT.into());
        set.files.push(RawFile { name, source, bytes: at.bytes, torn_bytes: at.torn_bytes });
        located.kind.beside(located, &mut set);
        Ok(set)
    }
}
