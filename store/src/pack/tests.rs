//! Blocks that are encoded, decoded, damaged and forged.

use proptest::prelude::*;
use zstd::zstd_safe;

use super::{ObjectKind, builder::*, directory::*};
use crate::{
    codec::{DecodeError, put_uint},
    format::{BLOCK_BYTES_MAX, BLOCK_MAGIC, BLOCK_OBJECTS_MAX, PAYLOAD_BYTES_MAX, STORED_BLOCK_BYTES_MAX},
    id::ID_BYTES,
    keys::Part,
    testing::{ids, seal},
};

fn encode(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    for (i, bytes) in objects.iter().enumerate() {
        if i % 3 == 2 {
            builder.push(ObjectKind::Tree, ids().tree(bytes).object(), bytes, bytes.len() / 2);
        } else {
            builder.push(ObjectKind::Chunk, ids().blob(bytes).object(), bytes, 0);
        }
    }
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    builder.encode(&mut compressor, &seal()).unwrap().1
}

/// The block with another header, whose checksum is right.
fn with_header(bytes: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let end = directory_end(bytes.first_chunk().unwrap(), &seal()).unwrap();
    change(&mut bytes);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..HEADER_BYTES - 4]), &bytes[HEADER_BYTES..end]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn what_only_a_later_release_writes_is_refused() {
    let bytes = encode(&[vec![7; 1000]]);
    assert!(Directory::decode(&with_header(&bytes, |_| {}), &seal()).is_ok());
    // The codec, the cipher, and the two bytes in which a key may be named.
    for (at, value) in [(4, 3), (5, 1), (6, 1), (7, 1)] {
        assert!(Directory::decode(&with_header(&bytes, |bytes| bytes[at] = value), &seal()).is_err(), "byte {at}");
    }
}

#[test]
fn a_block_in_cipher_has_no_directory_where_ours_has_it() {
    let bytes = encode(&[vec![7; 1000]]);
    for (at, value) in [(5, 1), (6, 1), (7, 1)] {
        let mut header: [u8; HEADER_BYTES] = *bytes.first_chunk().unwrap();
        header[at] = value;
        assert!(directory_end(&header, &seal()).is_err(), "byte {at}");
    }
}

/// A block on bases that is made by hand: for each object its kind and the number of its base.
fn on_bases(objects: &[(u8, u32)], bases: u32) -> Vec<u8> {
    let mut directory = Vec::new();
    for (number, (kind, base)) in objects.iter().enumerate() {
        directory.push(*kind);
        directory.extend_from_slice(&[number as u8; ID_BYTES]);
        for number in [3, 0, *base] {
            put_uint(&mut directory, u64::from(number));
        }
    }
    (0..bases).for_each(|base| directory.extend_from_slice(&[0x80 + base as u8; ID_BYTES]));
    let directory = seal().seal(Part::Directory, directory);
    let mut block = BLOCK_MAGIC.to_vec();
    block.extend_from_slice(&[Codec::ZstdPrefix as u8, 0, 0, 0]);
    let heads = 3 * objects.len() as u32;
    for number in [objects.len() as u32, bases, directory.len() as u32, 9 + seal().overhead() as u32, heads, 0, 0, 0] {
        block.extend_from_slice(&number.to_le_bytes());
    }
    block.extend_from_slice(&directory);
    with_header(&block, |_| {})
}

#[test]
fn each_base_is_of_an_object_and_of_its_kind() {
    let decoded = |objects: &[(u8, u32)], bases| Directory::decode(&on_bases(objects, bases), &seal());
    let whole = decoded(&[(1, 1), (4, 2), (1, 0), (1, 1)], 2).unwrap();
    let kinds: Vec<ObjectKind> = whole.kinds_and_bases().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [ObjectKind::Chunk, ObjectKind::Tree]);
    assert_eq!(decoded(&[(1, 1), (1, 0)], 2), Err(DecodeError("base of no object")));
    assert_eq!(decoded(&[(1, 0)], 1), Err(DecodeError("base of no object")));
    assert_eq!(decoded(&[(1, 1), (4, 1)], 1), Err(DecodeError("kind of a base")));
    assert_eq!(decoded(&[(6, 1)], 1), Err(DecodeError("object base")));
}

#[test]
fn whatever_keeps_to_the_limits_of_a_block_is_no_longer_than_one_may_be() {
    let longest = HEADER_BYTES + BLOCK_OBJECTS_MAX * (2 * ID_BYTES + 16) + PAYLOAD_BYTES_MAX;
    assert!(longest <= STORED_BLOCK_BYTES_MAX && zstd_safe::compress_bound(BLOCK_BYTES_MAX) <= PAYLOAD_BYTES_MAX);
    let bytes = encode(&[vec![7; 1000]]);
    let longer = |heads: u32, tails: u32| {
        with_header(&bytes, |bytes| {
            bytes[24..28].copy_from_slice(&heads.to_le_bytes());
            bytes[28..32].copy_from_slice(&tails.to_le_bytes());
        })
    };
    let half = (BLOCK_BYTES_MAX / 2) as u32;
    assert_eq!(Directory::decode(&longer(half, half + 1), &seal()), Err(DecodeError("block length")));
}

#[test]
fn a_payload_is_one_frame() {
    let frame = zstd::bulk::compress(&[7; 1000], 3).unwrap();
    let skipped = [&0x184D_2A50u32.to_le_bytes()[..], &4u32.to_le_bytes(), b"more"].concat();
    for coded in
        [[&frame[..], &frame].concat(), [&skipped[..], &frame].concat(), [&frame[..], &skipped].concat(), skipped, vec![]]
    {
        assert!(decompress(&coded, 5000).is_err() && decompress_on(b"prefix", &coded, 5000).is_err());
    }
    assert_eq!(decompress(&frame, 5000).unwrap(), [7; 1000]);
}

proptest! {
    #[test]
    fn blocks_round_trip(objects in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 1..20)) {
        let bytes = encode(&objects);
        let directory = Directory::decode(&bytes, &seal()).unwrap();
        prop_assert_eq!(directory.block_bytes(), bytes.len());
        let block = directory.open_payload(&bytes[directory.directory_end..], &seal()).and_then(|payload| directory.unpack(&payload)).unwrap();
        let stored = directory.unpack_stored(bytes, &seal()).unwrap();
        for (i, (kind, id, range)) in block.objects.iter().enumerate() {
            prop_assert_eq!(&block.bytes[range.clone()], &objects[i][..]);
            prop_assert_eq!(stored.object(*id).unwrap(), &objects[i][..]);
            prop_assert!(ids().matches(*kind, *id, &objects[i]));
        }
    }

    #[test]
    fn a_flipped_bit_is_always_noticed(at in any::<proptest::sample::Index>(), bit in 0u8..8) {
        let objects: Vec<Vec<u8>> = (0..6u8).map(|i| vec![i; 100]).collect();
        let mut bytes = encode(&objects);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let noticed = match Directory::decode(&bytes, &seal()) {
            Err(_) => true,
            Ok(d) => bytes.get(d.directory_end..d.block_bytes()).is_none_or(|p| d.open_payload(p, &seal()).is_err()),
        };
        prop_assert!(noticed, "byte {at}");
    }

    #[test]
    fn any_bytes_decode_or_fail_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let n = bytes.len().min(4);
        bytes[..n].copy_from_slice(&BLOCK_MAGIC[..n]);
        let _ = Directory::decode(&bytes, &seal());
    }
}
