//! Looking at content as it is captured: whoever makes a checkpoint may look through what is read, and leave files out by what is in them.

use std::{fmt, sync::Arc};

use crate::id::BlobId;

type Verdict = dyn Fn(&Content<'_>) -> Option<String> + Send + Sync;

/// A file's content that was read.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// The file's path, from the workspace folder.
    pub path: &'a [u8],
    /// The id of the bytes.
    pub blob: BlobId,
    /// All of its bytes.
    pub bytes: &'a [u8],
}

/// A judge of files' contents. Several threads ask it at once.
#[derive(Clone)]
pub struct Judge {
    bytes_max: u64,
    leaves_out: bool,
    verdict: Arc<Verdict>,
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Judge(up to {} bytes, leaves out: {})", self.bytes_max, self.leaves_out)
    }
}

impl Judge {
    /// A judge of files of up to so many bytes. It is given each that is read, before anything of it is stored, and gives the reason to leave it
    /// out; none to keep it.
    pub fn new(bytes_max: u64, verdict: impl Fn(&Content<'_>) -> Option<String> + Send + Sync + 'static) -> Self {
        Judge { bytes_max, leaves_out: true, verdict: Arc::new(verdict) }
    }

    /// A judge that keeps everything, and looks at it while it is at hand. It may be given content that is read again in the end because the
    /// file has changed, and is not given every file: one that looks as it did is not read, and of one with long holes not everything is.
    pub fn looking_on(bytes_max: u64, look: impl Fn(&Content<'_>) + Send + Sync + 'static) -> Self {
        let verdict = move |content: &Content<'_>| {
            look(content);
            None
        };
        Judge { bytes_max, leaves_out: false, verdict: Arc::new(verdict) }
    }

    /// True if it is asked before anything is stored.
    pub(super) fn leaves_out(&self) -> bool {
        self.leaves_out
    }

    /// True if files of a length are judged.
    pub(super) fn sees(&self, bytes: u64) -> bool {
        bytes > 0 && bytes <= self.bytes_max
    }

    /// The reason to leave a file out.
    pub(super) fn reason(&self, content: &Content<'_>) -> Option<String> {
        (self.verdict)(content)
    }
}
