//! One flipped bit of a record, found by its checksum: the CRC of a message with one flipped bit differs from the right one by a value that
//! tells which bit it is.

use super::frames::{FRAME_BYTES, checked_frame, decode_frame};
use crate::format::JOURNAL_RECORD_BYTES_MAX;

/// CRC-32C's polynomial, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// A record with a bit set right.
pub(super) struct HealedRecord {
    /// The whole record.
    pub(super) frame: Vec<u8>,
    /// The offset in it of the byte that was wrong.
    pub(super) byte_at: usize,
}

/// The record at the start of `bytes` with one bit set right, if that makes it the one that is expected. Where another whole record follows, that
/// one must name this one's hash.
pub(super) fn heal(bytes: &[u8], sequence: u64, previous: &[u8; 32]) -> Option<HealedRecord> {
    let told = u32::from_le_bytes(*bytes.first_chunk()?);
    let lengths = (0..32).map(|bit| told ^ (1 << bit)).filter(|length| *length as usize <= JOURNAL_RECORD_BYTES_MAX);
    let by_length = lengths.filter_map(|length| {
        let mut frame = bytes.get(..FRAME_BYTES + length as usize)?.to_vec();
        let byte_at = (told ^ length).trailing_zeros() as usize / 8;
        frame[..4].copy_from_slice(&length.to_le_bytes());
        checked_frame(&frame).is_some().then_some(HealedRecord { frame, byte_at })
    });
    let healed = by_length.into_iter().next().or_else(|| heal_content(bytes.get(..FRAME_BYTES.checked_add(told as usize)?)?))?;
    let (length, _, hash) = decode_frame(&healed.frame, sequence, previous)?;
    let follows = bytes.get(length..).and_then(checked_frame).filter(|next| next[..8] == (sequence + 1).to_le_bytes());
    follows.is_none_or(|next| next[8..40] == hash).then_some(healed)
}

/// The same, of a record whose length is right.
fn heal_content(bytes: &[u8]) -> Option<HealedRecord> {
    let stored = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
    let syndrome = stored ^ crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), &bytes[8..]);
    let mut frame = bytes.to_vec();
    if syndrome.is_power_of_two() {
        // The checksum itself.
        let byte_at = 4 + syndrome.trailing_zeros() as usize / 8;
        frame[4..8].copy_from_slice(&(stored ^ syndrome).to_le_bytes());
        return Some(HealedRecord { frame, byte_at });
    }
    let table: [u32; 256] = std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |crc, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 })
    });
    // What flipping each bit of a byte adds to the checksum, from the last byte to the first.
    let mut adds: [u32; 8] = std::array::from_fn(|bit| table[1 << bit]);
    for byte_at in (8..bytes.len()).rev() {
        if let Some(bit) = adds.iter().position(|add| *add == syndrome) {
            frame[byte_at] ^= 1 << bit;
            return Some(HealedRecord { frame, byte_at });
        }
        adds = adds.map(|add| add >> 8 ^ table[(add & 0xff) as usize]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{super::frames::encode_frame, *};

    #[test]
    fn each_flipped_bit_of_a_record_is_found_and_two_are_not_mistaken_for_one() {
        let previous = [7; 32];
        let (frame, hash) = encode_frame(12, &previous, br#"{"type":"event","kind":"note"}"#);
        let (next, _) = encode_frame(13, &hash, b"{}");
        for follows in [&[][..], &next] {
            let good = [&frame[..], follows].concat();
            for bit in 0..frame.len() * 8 {
                let mut bytes = good.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let healed = heal(&bytes, 12, &previous).unwrap_or_else(|| panic!("bit {bit}"));
                assert_eq!((healed.frame, healed.byte_at), (frame.clone(), bit / 8));
                for other in (0..frame.len() * 8).filter(|other| *other != bit).step_by(7) {
                    let mut bytes = bytes.clone();
                    bytes[other / 8] ^= 1 << (other % 8);
                    assert!(heal(&bytes, 12, &previous).is_none_or(|healed| healed.frame == frame), "bits {bit} and {other}");
                }
            }
        }
        assert!(heal(&frame[..20], 12, &previous).is_none());
        assert!(heal(&frame, 13, &previous).is_none());
    }
}
