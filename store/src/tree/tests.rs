use std::{
    collections::{BTreeMap, HashMap, HashSet},
    convert::Infallible,
};

use proptest::prelude::*;

use super::*;
use crate::id::{BlobId, TreeId};

fn file(name: impl Into<Vec<u8>>, content: &[u8]) -> Node {
    Node {
        name: name.into(),
        meta: Meta { mode: 0o644, mtime: Time { secs: -5, nanos: 7 }, ..Meta::default() },
        links: 1,
        kind: Kind::File { size: content.len() as u64, blob: crate::testing::blob_id(content), holes: vec![] },
    }
}

fn build(entries: &[Node]) -> (TreeId, Totals, HashMap<TreeId, Vec<u8>>) {
    let mut objects = HashMap::new();
    let (id, totals) = encode_folder(&crate::testing::ids(), entries, |e| {
        objects.insert(TreeId(e.id.0), e.bytes);
        Ok::<_, Infallible>(())
    })
    .unwrap();
    (id, totals, objects)
}

fn read(id: TreeId, objects: &HashMap<TreeId, Vec<u8>>) -> Vec<Node> {
    match decode(&objects[&id]).unwrap() {
        TreeNode::Leaf(nodes) => nodes,
        TreeNode::Inner(children) => children.iter().flat_map(|c| read(c.tree, objects)).collect(),
    }
}

fn arbitrary_kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        (1u64..1 << 50, any::<[u8; 32]>()).prop_map(|(size, id)| Kind::File {
            size,
            blob: BlobId(id),
            holes: if size > 100 { vec![Hole { start: 3, bytes: 10 }, Hole { start: 50, bytes: 50 }] } else { vec![] },
        }),
        any::<[u8; 32]>().prop_map(|id| Kind::Folder { tree: TreeId(id), totals: Totals { files: 3, ..Totals::default() } }),
        proptest::collection::vec(1u8.., 1..50).prop_map(|target| Kind::Symlink { target }),
        Just(Kind::Fifo),
        Just(Kind::Socket),
        (any::<u32>(), any::<u32>()).prop_map(|(major, minor)| Kind::CharDevice { major, minor }),
        (any::<u32>(), any::<u32>()).prop_map(|(major, minor)| Kind::BlockDevice { major, minor }),
    ]
}

fn arbitrary_node() -> impl Strategy<Value = (Vec<u8>, Node)> {
    let name = proptest::collection::vec(any::<u8>().prop_filter("slash", |b| *b != b'/' && *b != 0), 1..255)
        .prop_filter("dots", |n| crate::name::is_valid(n));
    (name, arbitrary_kind(), 0u32..0o10000, any::<u32>(), any::<i64>(), 0u32..1_000_000_000, 1u32..4, any::<bool>()).prop_map(
        |(name, kind, mode, uid, secs, nanos, links, x)| {
            let xattrs = if x { vec![(b"user.a".to_vec(), vec![0, 255]), (b"user.b".to_vec(), vec![])] } else { vec![] };
            let meta = Meta { mode, uid, gid: !uid, mtime: Time { secs, nanos }, xattrs };
            (name.clone(), Node { name, meta, links, kind })
        },
    )
}

proptest! {
    #[test]
    fn folders_round_trip(entries in proptest::collection::btree_map(any::<u8>(), arbitrary_node(), 0..60)) {
        let entries: BTreeMap<Vec<u8>, Node> = entries.into_values().collect();
        let entries: Vec<Node> = entries.into_values().collect();
        let (id, totals, objects) = build(&entries);
        prop_assert_eq!(read(id, &objects), entries.clone());
        let mut expected = Totals::default();
        entries.iter().for_each(|n| expected.add(n));
        prop_assert_eq!(totals, expected);
    }

    #[test]
    fn any_bytes_decode_or_fail_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn a_big_folder_keeps_its_shape_when_one_name_comes(n in 3000usize..6000, extra in "[a-z]{12}") {
        let mut entries: Vec<Node> = (0..n).map(|i| file(format!("file-{i:06}"), b"x")).collect();
        let (id, totals, before) = build(&entries);
        prop_assert_eq!(totals.files, n as u64);
        prop_assert_eq!(read(id, &before).len(), n);
        entries.push(file(extra, b"y"));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|a, b| a.name == b.name);
        let (_, _, after) = build(&entries);
        let old: HashSet<_> = before.keys().collect();
        prop_assert!(after.keys().filter(|id| !old.contains(id)).count() <= 4);
    }
}

#[test]
fn the_order_of_names_is_checked() {
    let (id, _, objects) = build(&[file("a", b"1"), file("b", b"2")]);
    let mut bytes = objects[&id].clone();
    let at = bytes.iter().position(|&b| b == b'a').unwrap();
    bytes[at] = b'c';
    assert!(decode(&bytes).is_err());
}

/// True if a folder with this entry alone decodes.
fn decodes(node: &Node) -> bool {
    let (id, _, objects) = build(std::slice::from_ref(node));
    decode(&objects[&id]).is_ok()
}

#[test]
fn one_entry_has_one_encoding() {
    let sparse = |holes: &[(u64, u64)]| {
        let mut node = file("f", b"x");
        let Kind::File { size, holes: all, .. } = &mut node.kind else { unreachable!() };
        *size = 1000;
        *all = holes.iter().map(|&(start, bytes)| Hole { start, bytes }).collect();
        decodes(&node)
    };
    assert!(sparse(&[(0, 10), (20, 30)]) && !sparse(&[(0, 0)]) && !sparse(&[(5, 10), (15, 10)]) && !sparse(&[(990, 20)]));
    let with = |names: &[&[u8]]| {
        let mut node = file("f", b"x");
        node.meta.xattrs = names.iter().map(|name| (name.to_vec(), Vec::new())).collect();
        decodes(&node)
    };
    assert!(with(&[b"user.a", b"user.b"]) && with(&[&[b'a'; 255]]));
    for refused in [&[&b"user.b"[..], b"user.a"][..], &[b"user.a", b"user.a"], &[b""], &[b"user.\0"], &[&[b'a'; 256]]] {
        assert!(!with(refused), "{refused:?}");
    }
    let link = |target: &[u8]| decodes(&Node { kind: Kind::Symlink { target: target.to_vec() }, ..file("l", b"") });
    assert!(link(b"a") && link(&[b'a'; 4095]) && !link(b"") && !link(b"a\0b") && !link(&[b'a'; 4096]));
    let totals = |features| {
        let folder = Kind::Folder { tree: TreeId([1; 32]), totals: Totals { features, ..Totals::default() } };
        decodes(&Node { kind: folder, ..file("d", b"") })
    };
    assert!(totals(15) && !totals(16) && !totals(128));
    // Flags that say what is not there: the number of links, of attributes, of holes.
    let (id, _, objects) = build(&[file("name", b"x")]);
    let plain = &objects[&id];
    let at = plain.windows(5).position(|bytes| bytes == b"\x04name").unwrap() - 1;
    for flag in [0x08, 0x10, 0x20, 0x40, 0x80] {
        let mut changed = plain.clone();
        changed[at] |= flag;
        assert!(decode(&changed).is_err(), "{flag:#x}");
    }
}

#[test]
fn holes_that_touch_are_one() {
    let mut holes = Vec::new();
    for (start, end) in [(0, 0), (0, 4), (4, 8), (9, 12), (12, 12)] {
        Hole::add(&mut holes, start, end);
    }
    assert_eq!(holes, [Hole { start: 0, bytes: 8 }, Hole { start: 9, bytes: 3 }]);
}

#[test]
fn names_that_lead_out_of_a_folder_are_refused() {
    for bad in ["..", ".", "a/b"] {
        let (id, _, objects) = build(&[file(bad, b"1")]);
        assert!(decode(&objects[&id]).is_err(), "{bad}");
    }
}
