use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::testing::{blob_id, ids};

fn runs(n: usize, seed: u64) -> Vec<ChunkRun> {
    (0..n)
        .map(|i| ChunkRun {
            id: blob_id(&[seed.to_le_bytes(), (i as u64).to_le_bytes()].concat()),
            bytes: 1 + i as u32,
            repeat: 1,
        })
        .collect()
}

fn flatten(node: Node, objects: &HashMap<ObjectId, Vec<u8>>, out: &mut Vec<ChunkRun>) {
    match node {
        Node::Chunks(runs) => out.extend(runs),
        Node::Nodes(nodes) => {
            for (id, _) in nodes {
                flatten(decode_node(&objects[&id.object()]).unwrap(), objects, out);
            }
        }
    }
}

proptest! {
    #[test]
    fn recipes_round_trip(n in 2usize..5000, seed in any::<u64>()) {
        let (blob, chunks) = (blob_id(b"whole"), runs(n, seed));
        let encoded = encode(&ids(), blob, &chunks);
        let objects: HashMap<_, _> = encoded.iter().map(|e| (e.id, e.bytes.clone())).collect();
        let root = decode_root(&ids(), blob, &encoded.last().unwrap().bytes).unwrap();
        let mut found = Vec::new();
        flatten(root, &objects, &mut found);
        prop_assert_eq!(found, chunks);
    }

    #[test]
    fn any_bytes_decode_or_fail_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_node(&bytes);
        let _ = decode_root(&ids(), BlobId([0; 32]), &bytes);
    }
}

#[test]
fn an_append_rewrites_one_path() {
    let blob = blob_id(b"x");
    let ids = |n| encode(&ids(), blob, &runs(n, 1)).into_iter().map(|e| e.id).collect::<HashSet<_>>();
    let (before, after) = (ids(4000), ids(4003));
    assert!(before.len() > 30);
    assert!(after.difference(&before).count() <= 3);
}

/// A node that is made by hand, of lines with a byte of their ids, a length and a repeat each.
fn node(level: u8, lines: &[(u8, u64, u32)]) -> Vec<u8> {
    let lines: Vec<Line> = lines.iter().map(|&(id, bytes, repeat)| Line { bytes, repeat, id: [id; ID_BYTES] }).collect();
    let mut bytes = Vec::new();
    encode_node(level, &lines, &mut bytes);
    bytes
}

#[test]
fn one_content_has_one_recipe() {
    let whole = node(0, &[(1, 9, 1), (2, 9, 4), (1, 9, 1)]);
    assert!(decode_node(&whole).is_ok() && decode_node(&node(1, &[(1, 9, 1), (1, 9, 1)])).is_ok());
    assert_eq!(decode_node(&node(0, &[(1, 9, 1), (1, 9, 4)])), Err(DecodeError("chunk repeat")));
    assert!(decode_node(&node(0, &[(1, 9, u32::MAX), (1, 9, 4)])).is_ok());
    for level in [0, 1] {
        assert_eq!(decode_node(&node(level, &[])), Err(DecodeError("recipe length")));
    }
    let root = |node: &[u8]| {
        let blob = blob_id(b"x");
        decode_root(&ids(), blob, &[&blob.0[..], &ids().recipe_seal(blob, node), node].concat())
    };
    assert!(root(&whole).is_ok() && root(&node(0, &[(1, 9, 2)])).is_ok() && root(&node(1, &[(1, 9, 1)])).is_ok());
    assert_eq!(root(&node(0, &[(1, 9, 1)])), Err(DecodeError("recipe of one chunk")));
}

#[test]
fn levels_of_a_recipe_go_down_by_one() {
    for (above, level, fits) in [(1, 0, true), (2, 1, true), (2, 0, false), (1, 1, false), (1, 2, false), (0, 0, false)] {
        assert_eq!(decode_below(above, &node(level, &[(1, 9, 1), (2, 9, 1)])).is_ok(), fits, "{level} below {above}");
    }
}

#[test]
fn a_recipe_of_another_blob_is_refused() {
    let encoded = encode(&ids(), blob_id(b"a"), &runs(3, 1)).pop().unwrap();
    assert!(decode_root(&ids(), blob_id(b"b"), &encoded.bytes).is_err());
}
