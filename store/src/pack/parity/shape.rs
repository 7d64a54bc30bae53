//! The division of a pack into shards and stripes.

use crate::{
    codec::DecodeError,
    format::{PARITY_BYTES_MAX, PARITY_SHARDS_MAX, SHARD_BYTES, SHARD_BYTES_MAX, SHARD_BYTES_MIN, STRIPE_ROWS_MAX},
};

/// A pack has at least so many shards where they can be short enough.
const SHARDS_MIN: u64 = 96;
/// A stripe has at least so many shards where there is more than one.
const STRIPE_ROWS_MIN: u64 = 128;
/// Parity shards of a stripe, in what this release writes and at most.
const PARITY_ROWS: u8 = 3;

/// The division of a pack into shards, and of those into stripes: shard `n` is in stripe `n % stripes`, so that shards that are damaged together
/// are in stripes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes from the pack's beginning on that are covered: header, blocks, copies.
    pub covered_bytes: u64,
    /// Length of a shard, in bytes; the last one may be shorter, and counts as filled with zeros.
    pub shard_bytes: u32,
    /// Number of stripes, at least 1.
    pub stripes: u32,
    /// Parity shards of each stripe. So many shards of a stripe can be lost.
    pub rows: u8,
}

impl Shape {
    /// The shape of a pack of this length. Shards are as long as sectors, in small packs shorter.
    pub fn of(covered_bytes: u64) -> Self {
        let wanted = (covered_bytes / SHARDS_MIN).max(1);
        let shard_bytes = (1 << wanted.ilog2()).clamp(SHARD_BYTES_MIN, SHARD_BYTES);
        let stripes = (covered_bytes.div_ceil(u64::from(shard_bytes)) / STRIPE_ROWS_MIN).max(1);
        Shape { covered_bytes, shard_bytes, stripes: stripes as u32, rows: PARITY_ROWS }
    }

    /// Fails where a shape is none that can be computed with, or takes more memory than any that is written.
    pub fn check(&self) -> Result<(), DecodeError> {
        let are_in_range = (SHARD_BYTES_MIN..=SHARD_BYTES_MAX).contains(&self.shard_bytes)
            && (1..=PARITY_ROWS).contains(&self.rows)
            && self.stripes > 0
            && self.covered_bytes > 0;
        match are_in_range
            && self.shards() <= PARITY_SHARDS_MAX
            && self.parity_bytes() <= PARITY_BYTES_MAX
            && self.shards().div_ceil(u64::from(self.stripes)) <= STRIPE_ROWS_MAX
        {
            true => Ok(()),
            false => Err(DecodeError("shape of a pack's parity")),
        }
    }

    /// Number of shards that are covered, without parity shards.
    pub fn shards(&self) -> u64 {
        self.covered_bytes.div_ceil(u64::from(self.shard_bytes))
    }

    /// Shards of a stripe; some stripes have one less, which counts as zeros.
    pub fn stripe_rows(&self) -> u64 {
        self.shards().div_ceil(u64::from(self.stripes))
    }

    /// Number of parity shards.
    pub fn parity_shards(&self) -> u64 {
        u64::from(self.stripes) * u64::from(self.rows)
    }

    /// Length of all parity shards, in bytes.
    pub fn parity_bytes(&self) -> u64 {
        self.parity_shards() * u64::from(self.shard_bytes)
    }

    /// Length of the checksums of all shards and parity shards, in bytes.
    pub fn checksums_bytes(&self) -> u64 {
        (self.shards() + self.parity_shards()) * 4
    }

    /// The place and length of a shard in the pack.
    pub fn place(&self, shard: u64) -> (u64, usize) {
        let offset = shard * u64::from(self.shard_bytes);
        (offset, u64::from(self.shard_bytes).min(self.covered_bytes - offset) as usize)
    }

    /// The factor of a shard in a row of its stripe's parity is 2 to this power, times the row's number.
    pub fn exponent(&self, shard: u64) -> u64 {
        self.stripe_rows() - 1 - shard / u64::from(self.stripes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::PACK_BYTES;

    #[test]
    fn parity_takes_a_fortieth_of_any_but_small_packs() {
        let mut bytes = 16;
        while bytes < 3 * PACK_BYTES {
            let shape = Shape::of(bytes);
            shape.check().unwrap();
            let added = shape.parity_bytes() + shape.checksums_bytes();
            assert!(added <= (bytes * 4 / 100).max(1300), "{bytes}: {added}");
            assert!(bytes < PACK_BYTES || added * 40 <= bytes, "{bytes}: {added}");
            // A sector can be lost from 192 KiB on.
            assert!(bytes < 192 << 10 || u64::from(shape.shard_bytes) * u64::from(shape.rows) >= 4096, "{bytes}");
            bytes += bytes / 61 + 1;
        }
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let good = Shape::of(1 << 20);
        good.check().unwrap();
        for bad in [
            Shape { shard_bytes: 32, ..good },
            Shape { shard_bytes: u32::MAX, ..good },
            Shape { stripes: 0, ..good },
            Shape { stripes: u32::MAX, ..good },
            Shape { rows: 0, ..good },
            Shape { rows: 4, ..good },
            Shape { covered_bytes: 0, ..good },
            Shape { covered_bytes: u64::MAX, ..good },
            Shape { stripes: 1, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
