//! Chance that replays.

use std::sync::{Arc, Mutex};

use parhelia_bucket::{Result, random::Random};

/// A stream of random numbers, shared by its clones.
#[derive(Clone)]
pub struct Chance(Arc<Mutex<u64>>);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(Arc::new(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678)))
    }

    /// SplitMix64.
    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True so many times in a thousand.
    pub fn permille(&self, times: u64) -> bool {
        self.below(1000) < times
    }

    /// A stream of its own.
    pub fn fork(&self) -> Self {
        Chance::new(self.next())
    }
}

impl Random for Chance {
    fn fill(&self, buffer: &mut [u8]) -> Result<()> {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
