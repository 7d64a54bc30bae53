//! Computing parity.

use super::{field::twice, shape::Shape};

/// The parity shards of a pack while its shards come in, in order.
///
/// Row 0 of a stripe is the sum of its shards; row 1 is multiplied by 2 before each shard is added, row 2 by 4. So the rows are a Reed-Solomon
/// code, as of RAID with three disks of parity: any three shards of a stripe can be computed from the others. (H. P. Anvin, "The mathematics of
/// RAID-6"; the third row is the next power.)
pub struct Stripes {
    shape: Shape,
    next: u64,
    /// All shards of row 0, then those of row 1, then those of row 2.
    parity: Vec<u8>,
}

impl Stripes {
    pub fn new(shape: Shape) -> Self {
        Stripes { shape, next: 0, parity: vec![0; shape.parity_bytes() as usize] }
    }

    /// Takes in the next shard. One that is too short counts as filled with zeros.
    pub fn add(&mut self, shard: &[u8]) {
        let (shard_bytes, stripes) = (self.shape.shard_bytes as usize, self.shape.stripes as usize);
        let at = (self.next % u64::from(self.shape.stripes)) as usize * shard_bytes;
        self.next += 1;
        let mut rows = self.parity.chunks_exact_mut(stripes * shard_bytes).map(|row| &mut row[at..at + shard_bytes]);
        if let Some(sum) = rows.next() {
            step(sum, shard, |value| value);
        }
        if let Some(sum) = rows.next() {
            step(sum, shard, twice);
        }
        if let Some(sum) = rows.next() {
            step(sum, shard, |value| twice(twice(value)));
        }
    }

    /// The parity shards of everything that came in. Stripes with a shard less are stepped once more.
    pub fn finish(mut self) -> Vec<u8> {
        while self.next < self.shape.stripe_rows() * u64::from(self.shape.stripes) {
            self.add(&[]);
        }
        self.parity
    }
}

/// Multiplies a row, and adds a shard.
fn step(row: &mut [u8], shard: &[u8], times: impl Fn(u8) -> u8) {
    let (met, rest) = row.split_at_mut(shard.len().min(row.len()));
    met.iter_mut().zip(shard).for_each(|(sum, byte)| *sum = times(*sum) ^ byte);
    rest.iter_mut().for_each(|sum| *sum = times(*sum));
}
