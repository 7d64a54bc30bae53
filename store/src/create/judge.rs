//! Judging new content before it is stored: whoever makes a checkpoint may leave files out by what is in them.

use std::{fmt, sync::Arc};

type Verdict = dyn Fn(&[u8], &[u8]) -> Option<String> + Send + Sync;

/// A judge of files' contents.
#[derive(Clone)]
pub struct Judge {
    bytes_max: u64,
    verdict: Arc<Verdict>,
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Judge(up to {} bytes)", self.bytes_max)
    }
}

impl Judge {
    /// A judge of files of up to so many bytes. It is given path and content of each that is read, and gives the reason to leave it out; none to keep it. Several threads ask it at once.
    pub fn new(bytes_max: u64, verdict: impl Fn(&[u8], &[u8]) -> Option<String> + Send + Sync + 'static) -> Self {
        Judge { bytes_max, verdict: Arc::new(verdict) }
    }

    /// True if files of a length are judged.
    pub(super) fn sees(&self, bytes: u64) -> bool {
        bytes > 0 && bytes <= self.bytes_max
    }

    /// The reason to leave a file out.
    pub(super) fn reason(&self, path: &[u8], content: &[u8]) -> Option<String> {
        (self.verdict)(path, content)
    }
}
