//! A small seeded generator (SplitMix64), so that generated data is the same everywhere and always.

/// A stream of pseudo-random numbers that depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Starts a stream.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, of 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end` (0 if `end` is 0).
    pub fn below(&mut self, end: usize) -> usize {
        // The high half of a 128-bit product is always below `end`.
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of 100 draws.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A number below `end` that is small far more often than large, as word ranks are.
    pub fn skewed(&mut self, end: usize) -> usize {
        let unit = (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        ((unit * unit * unit * end as f64) as usize).min(end.saturating_sub(1))
    }

    /// Fills `bytes` with noise that no compressor can shrink.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_stream() {
        let mut a = Rng::new(7);
        let mut b = Rng::new(7);
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            assert!(rng.below(10) < 10);
            assert!((3..=5).contains(&rng.between(3, 5)));
            assert!(rng.skewed(100) < 100);
        }
        assert_eq!(rng.below(0), 0);
    }
}
