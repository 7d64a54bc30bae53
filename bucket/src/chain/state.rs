//! Following a chain: each segment bears its number and the hash of the one before.

use super::segment::{Body, Segment};
use crate::error::{Error, Result};

/// A place in a chain: behind a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainState {
    /// Number of the next segment.
    pub next: u64,
    /// Chain hash of the last one; zeros at the beginning.
    pub hash: [u8; 32],
}

/// A segment in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The segment.
    pub segment: Segment,
    /// Its chain hash.
    pub hash: [u8; 32],
}

impl ChainState {
    /// The beginning of a chain.
    pub fn start() -> Self {
        ChainState { next: 1, hash: [0; 32] }
    }

    /// Moves behind the next segment. Fails if it is not the one that follows: the chain was cut, or mixed with an older copy.
    pub fn follow(&mut self, link: &Link) -> Result<()> {
        let Segment { number, body, .. } = &link.segment;
        if *number != self.next {
            return Err(Error::damaged(link.segment.object(), format!("segment {} before it is missing", self.next)));
        }
        if let Body::Full { previous, .. } = body
            && *previous != self.hash
        {
            return Err(Error::damaged(link.segment.object(), "it does not follow the segment before it"));
        }
        *self = ChainState { next: self.next + 1, hash: link.hash };
        Ok(())
    }
}
