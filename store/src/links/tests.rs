use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::codec::{put_bytes, put_uint};

type Groups = Vec<Vec<Vec<u8>>>;

fn table(groups: &[&[&str]]) -> Option<Vec<u8>> {
    let groups: Vec<Vec<&str>> = groups.iter().map(|group| group.to_vec()).collect();
    encode(&folders_of(&groups))
}

fn decoded(groups: &[&[&str]]) -> Links {
    Links::decode(table(groups).unwrap()).unwrap()
}

/// The order in which paths stand in a table: by folder, name by name, then by name.
fn key(path: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut parts: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
    let last = parts.pop().unwrap();
    (parts, last)
}

fn sorted(mut groups: Groups) -> Groups {
    groups.iter_mut().for_each(|group| group.sort_by(|a, b| key(a).cmp(&key(b))));
    groups.retain(|group| group.len() > 1);
    groups.sort_by(|a, b| key(&a[0]).cmp(&key(&b[0])));
    groups
}

/// Paths in few folders, of which no file is the folder of another: names of folders are upper case.
fn paths() -> impl Strategy<Value = Groups> {
    let path = "([A-C](-|b)?/){0,4}[a-e]{1,3}(-x)?";
    let all = proptest::collection::btree_set(path, 0..40);
    (all, proptest::collection::vec(0usize..6, 40)).prop_map(|(paths, groups): (BTreeSet<String>, Vec<usize>)| {
        let mut found: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for (path, group) in paths.into_iter().zip(groups) {
            found.entry(group).or_default().push(path.into_bytes());
        }
        found.into_values().collect()
    })
}

proptest! {
    #[test]
    fn groups_round_trip(groups in paths()) {
        let expected = sorted(groups.clone());
        let Some(bytes) = encode(&folders_of(&groups)) else {
            prop_assert!(expected.is_empty());
            return Ok(());
        };
        let links = Links::decode(bytes.clone()).unwrap();
        prop_assert_eq!(links.groups(), expected.clone());
        // What is read says the same when it is written again.
        prop_assert_eq!(encode(&folders_of(&links.groups())), Some(bytes));
        for group in &expected {
            for path in group {
                let member = links.member_at(path).unwrap();
                prop_assert_eq!(&links.path(member), path);
                prop_assert_eq!(links.path(links.leader_of(member)), group[0].clone());
                let (folder, name) = key(path);
                let (leads, leader) = links.leader(&folder.join(&b'/'), name).unwrap();
                prop_assert_eq!(name::join(&leads, leader), group[0].clone());
            }
        }
        for path in ["zz", "A/zz", "A-/B/zz", "C/a/b"] {
            prop_assert!(links.member_at(path.as_bytes()).is_none());
        }
    }

    #[test]
    fn one_table_has_one_encoding(groups in paths(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let Some(mut bytes) = encode(&folders_of(&groups)) else { return Ok(()) };
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(links) = Links::decode(bytes.clone()) {
            prop_assert_eq!(encode(&folders_of(&links.groups())), Some(bytes));
        }
    }

    #[test]
    fn a_cut_or_longer_table_is_refused(groups in paths(), at in any::<prop::sample::Index>()) {
        let Some(bytes) = encode(&folders_of(&groups)) else { return Ok(()) };
        // A table may end behind a folder; the groups of the rest are then whole, and it is the table of these.
        let cut = bytes[..at.index(bytes.len())].to_vec();
        if let Ok(links) = Links::decode(cut.clone()) {
            prop_assert_eq!(encode(&folders_of(&links.groups())), Some(cut));
        }
        prop_assert!(Links::decode([&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn any_bytes_decode_or_fail_without_panic(bytes in proptest::collection::vec(0u8..6, 0..60)) {
        if let Ok(links) = Links::decode([&MAGIC[..], &bytes].concat()) {
            prop_assert_eq!(encode(&folders_of(&links.groups())), Some([&MAGIC[..], &bytes].concat()));
        }
    }
}

#[test]
fn names_of_one_file_alone_make_no_table() {
    assert_eq!(table(&[]), None);
    assert_eq!(table(&[&["a"], &["d/b"]]), None);
    assert!(Links::default().root().is_none() && Links::default().member_at(b"a").is_none());
    assert!(Links::decode(MAGIC.to_vec()).is_err());
}

#[test]
fn the_bytes_are_those_of_the_document() {
    let bytes = table(&[&["a/x", "b/x"], &["a/y", "a/z"], &["top", "b/c/end"]]).unwrap();
    let expected = [
        &b"links\x01"[..],
        b"\x00\x00\x01\x03top\x00",
        b"\x00\x01\x01a\x03\x01x\x00\x01y\x00\x01z\x01\x01\x01a\x01y",
        b"\x00\x01\x01b\x01\x01x\x02\x00\x00",
        b"\x01\x01\x01c\x01\x03end\x01\x00\x03top",
    ];
    assert_eq!(bytes, expected.concat());
    let document: &[u8] = b"links\x01\0\0\x01\x01a\0\0\x01\x01d\x02\x01b\x01\0\x01a\x01c\0\0\x01\x01e\x01\x01c\x01\x01\x01d\0";
    assert_eq!(table(&[&["a", "d/b"], &["d/c", "e/c"]]).as_deref(), Some(document));
}

#[test]
fn folders_come_in_the_order_of_a_walk() {
    // By its bytes alone, `a-b` would stand between `a` and `a/c`.
    let links = decoded(&[&["a/c/f", "a-b/f", "a/f", "z"]]);
    assert_eq!(links.groups(), [["z", "a/f", "a/c/f", "a-b/f"].map(|path| path.as_bytes().to_vec())]);
}

/// A table of one folder, the workspace, that has these members, each with what is said of its leader.
fn forged(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = [&MAGIC[..], b"\x00\x00"].concat();
    put_uint(&mut bytes, members.len() as u64);
    for (name, leader) in members {
        put_bytes(&mut bytes, name.as_bytes());
        bytes.extend_from_slice(leader);
    }
    bytes
}

#[test]
fn what_says_the_same_otherwise_or_nothing_is_refused() {
    let leads: &[u8] = b"\x00";
    let follows_a: &[u8] = b"\x01\x00\x01a";
    assert!(Links::decode(forged(&[("a", leads), ("b", follows_a)])).is_ok());
    let refused: [&[(&str, &[u8])]; 9] = [
        // Alone, twice, out of order, and names that are none.
        &[("a", leads)],
        &[("a", leads), ("a", follows_a)],
        &[("b", follows_a), ("a", leads)],
        &[("a", leads), ("b/c", follows_a)],
        &[("a", leads), ("..", follows_a)],
        // Leaders that are not there, follow another, or are told in a longer way; more folders kept than there are.
        &[("a", leads), ("b", b"\x01\x00\x01c")],
        &[("a", leads), ("b", follows_a), ("c", b"\x01\x00\x01b")],
        &[("a", leads), ("b", b"\x01\x00\x01b")],
        &[("a", leads), ("b", b"\x02\x00\x01a")],
    ];
    for members in refused {
        assert!(Links::decode(forged(members)).is_err(), "{members:?}");
    }
    let d = |rest: &[u8]| Links::decode([&MAGIC[..], rest].concat());
    assert!(d(b"\x00\x01\x01d\x02\x01a\x00\x01b\x01\x01\x01d\x01a").is_ok());
    // The leader's folder is the one of the reference before, and is given anew.
    let three = |last: &[u8]| [b"\x00\x01\x01d\x03\x01a\x00\x01b\x01\x01\x01d\x01a\x01c", last].concat();
    assert!(d(&three(b"\x02\x00\x01a")).is_ok());
    assert!(d(&three(b"\x01\x01\x01d\x01a")).is_err());
    // A folder again, one that goes back, and one without members.
    for second in [&b"\x00\x01\x01d"[..], b"\x00\x01\x01c", b"\x01\x00", b"\x02\x01\x01e"] {
        let forged = [&b"\x00\x01\x01d\x02\x01a\x00\x01b\x01\x01\x01d\x01a"[..], second, b"\x01\x01x\x02\x00\x01a"].concat();
        assert!(d(&forged).is_err(), "{second:?}");
    }
    assert!(d(b"\x00\x01\x01d\x02\x01a\x00\x01b\x01\x01\x01d\x01a\x01\x01\x01e\x00").is_err());
    assert!(Links::decode(b"links\x02\x00\x00\x02\x01a\x00\x01b\x01\x00\x01a".to_vec()).is_err());
    // A length beyond the end, and one that would be much memory.
    assert!(d(b"\x00\x00\xff\xff\xff\xff\x0f").is_err() && d(b"\x00\xff\xff\xff\xff\x0f\x01a").is_err());
}

#[test]
fn a_table_of_more_than_an_object_may_have_is_read() {
    let mut folders = vec![LinkedFolder::new(0, b""), LinkedFolder::new(1, b"copy")];
    let count = 600_000u64;
    let name = |i: u64| format!("a file of the name {i:08}");
    (0..2).for_each(|folder| (0..count).for_each(|i| folders[folder].push(name(i).as_bytes(), (1, i))));
    let bytes = encode(&folders).unwrap();
    assert!(bytes.len() > 32 << 20, "{}", bytes.len());
    let length = bytes.len();
    let links = Links::decode(bytes).unwrap();
    let memory = length + links.names.capacity() * 8 + links.leaders.capacity() * 4;
    assert!(memory < length + length + (8 << 20), "{memory}");
    for i in [0, 1, count / 2, count - 1] {
        assert_eq!(links.leader(b"copy", name(i).as_bytes()), Some((Vec::new(), name(i).as_bytes())));
    }
    assert_eq!(links.leader(b"copy", b"none"), None);
}

#[test]
fn an_entry_that_comes_changes_the_bytes_beside_it_alone() {
    let mut groups: Vec<Vec<String>> = (0..10_000).map(|i| vec![format!("a/f{i:05}"), format!("b/f{i:05}")]).collect();
    let before = encode(&folders_of(&groups)).unwrap();
    groups.push(vec!["a/f00500a".into(), "c".into()]);
    let after = encode(&folders_of(&groups)).unwrap();
    let same = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let reversed = |bytes: &[u8]| bytes.iter().rev().copied().collect::<Vec<u8>>();
    let (front, back) = (same(&before, &after), same(&reversed(&before), &reversed(&after)));
    // The new leader stands in the workspace folder, at the very front; all behind the new member is as it was.
    assert!(back > before.len() - 8_000, "{front} {back} {}", before.len());
    assert!(before.len() < 10_000 * 22, "{}", before.len());
}
