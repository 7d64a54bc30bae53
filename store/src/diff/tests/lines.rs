use std::{cell::Cell, time::Duration};

use proptest::prelude::*;

use super::model::file;
use crate::{
    diff::{ChangeKind, Fields, Text, TextOptions, TreeChange, file_diff, is_binary, line_counts, unified},
    tree::{Kind, Node},
};

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|&b| b == b'\n').collect()
}

/// Applies a unified diff as strictly as can be: every context and removed line must be there.
fn apply(old: &[u8], patch: &[u8]) -> Vec<u8> {
    let (old, mut at, mut out) = (lines(old), 0, Vec::new());
    let mut patch = lines(patch).into_iter().skip(2).peekable();
    while let Some(line) = patch.next() {
        if line.starts_with(b"@@ -") {
            let range = std::str::from_utf8(line).unwrap()[4..].split(' ').next().unwrap().to_owned();
            let (start, count) = range.split_once(',').unwrap_or((&range, "1"));
            let start = start.parse::<usize>().unwrap() - usize::from(count != "0");
            out.extend(old[at..start].concat());
            at = start;
            continue;
        }
        let mut text = line[1..].to_vec();
        if patch.peek().is_some_and(|next| next.starts_with(b"\\ No newline")) {
            patch.next();
            assert_eq!(text.pop(), Some(b'\n'));
        }
        if line[0] != b'+' {
            assert_eq!(old[at], text);
            at += 1;
        }
        if line[0] != b'-' {
            out.extend(text);
        }
    }
    out.extend(old[at..].concat());
    out
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let line = proptest::sample::select(vec![&b"a\n"[..], b"b\n", b"\n", b"c\r\n", b"d\re\n", b"\xff\xfe\n", b"-- x\n"]);
    (proptest::collection::vec(line, 0..30), proptest::sample::select(vec![&b""[..], b"end", b"\r"]))
        .prop_map(|(lines, end)| [lines.concat(), end.to_vec()].concat())
}

fn modified(old: &[u8], new: &[u8]) -> TreeChange {
    let (old, new) = (Some(file("f", old)), Some(file("f", new)));
    TreeChange { path: b"d/f".to_vec(), kind: ChangeKind::Modified, old, new }
}

fn constant(bytes: &[u8]) -> impl Fn(&[u8], &Node) -> crate::Result<Vec<u8>> {
    move |_, _| Ok(bytes.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn a_unified_diff_makes_the_new_text_of_the_old_one(old in text(), new in text(), context in 0usize..5) {
        let patch = unified(Some((b"f", &old)), Some((b"f", &new)), context);
        prop_assert_eq!(patch.is_empty(), old == new);
        prop_assert_eq!(apply(&old, &patch), new);
    }

    #[test]
    fn counts_are_the_signs_of_the_diff(old in text(), new in text()) {
        let change = modified(&old, &new);
        let options = TextOptions::default();
        let Text::Lines(counts) = line_counts(&change, &constant(&old), &constant(&new), options).unwrap() else { panic!() };
        let Text::Lines(patch) = file_diff(&change, &constant(&old), &constant(&new), options).unwrap() else { panic!() };
        let signs = |sign| lines(&patch).into_iter().skip(2).filter(|line| line[0] == sign).count() as u64;
        prop_assert_eq!(counts, (signs(b'+'), signs(b'-')));
    }
}

#[test]
fn it_looks_as_people_know_it() {
    let patch = unified(Some((b"d/f", b"1\n2\n3\n4\n5\n6\n7\n")), Some((b"d/f", b"1\n2\n3\n4\n5\n6\nseven")), 1);
    let expected = "--- a/d/f\n+++ b/d/f\n@@ -6,2 +6,2 @@\n 6\n-7\n+seven\n\\ No newline at end of file\n";
    assert_eq!(String::from_utf8(patch).unwrap(), expected);
    let patch = unified(None, Some((b"my file", b"x\n")), 3);
    assert_eq!(String::from_utf8(patch).unwrap(), "--- /dev/null\n+++ b/my file\t\n@@ -0,0 +1 @@\n+x\n");
    let patch = unified(Some((b"a\n\x1b\"", b"x\n")), None, usize::MAX);
    assert_eq!(String::from_utf8(patch).unwrap(), "--- \"a/a\\n\\033\\\"\"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n");
}

#[test]
fn only_an_early_nul_makes_a_file_binary() {
    assert!(is_binary(b"a\0b") && !is_binary(b"\xff\xfe") && !is_binary(b""));
    assert!(!is_binary(&[vec![b'x'; 8192], vec![0]].concat()));
    let counts = line_counts(&modified(b"a", b"\0"), &constant(b"a"), &constant(b"\0"), TextOptions::default());
    assert_eq!(counts.unwrap(), Text::Binary);
}

#[test]
fn what_is_too_large_or_known_to_be_equal_is_not_read() {
    let reads = Cell::new(0);
    let content = |_: &[u8], _: &Node| {
        reads.set(reads.get() + 1);
        Ok(b"grown while it was read".to_vec())
    };
    let options = TextOptions { bytes_max: 10, ..TextOptions::default() };
    let counts = |change: &TreeChange| line_counts(change, &content, &content, options).unwrap();
    assert_eq!(counts(&modified(b"a", b"more than ten bytes")), Text::TooLarge);
    for kind in [ChangeKind::Metadata(Fields::MODE), ChangeKind::Renamed { from: b"g".to_vec() }] {
        assert_eq!(counts(&TreeChange { kind, ..modified(b"a", b"a") }), Text::Lines((0, 0)));
    }
    assert_eq!(reads.get(), 0);
    assert_eq!(counts(&modified(b"a", b"b")), Text::TooLarge);
}

#[test]
fn a_difference_that_is_looked_for_no_longer_is_longer_and_as_right() {
    let text = |step: usize| (0..3001).map(|n| format!("{}\n", n * step % 3001)).collect::<String>().into_bytes();
    let (old, new) = (text(1), text(1237));
    let change = modified(&old, &new);
    let compare = |time_max| {
        let options = TextOptions { time_max, context_lines: usize::MAX, ..TextOptions::default() };
        let counts = line_counts(&change, &constant(&old), &constant(&new), options).unwrap();
        (counts, file_diff(&change, &constant(&old), &constant(&new), options).unwrap())
    };
    let patched = |patch: &Text<Vec<u8>>| if let Text::Lines(patch) = patch { apply(&old, patch) } else { Vec::new() };
    let (shortest, hasty) = (compare(None), compare(Some(Duration::ZERO)));
    let added = |counts: &Text<(u64, u64)>| if let Text::Lines((added, _)) = counts { *added } else { 0 };
    assert!(added(&hasty.0) > added(&shortest.0), "{:?} {:?}", hasty.0, shortest.0);
    assert!(patched(&hasty.1) == new && patched(&shortest.1) == new);
}

#[test]
fn a_symlink_is_compared_by_its_target() {
    let mut change = modified(b"a\n", b"");
    change.kind = ChangeKind::TypeChanged;
    change.new = Some(Node { kind: Kind::Symlink { target: b"to".to_vec() }, ..file("f", b"") });
    let found = file_diff(&change, &constant(b"a\n"), &constant(b"unused"), TextOptions::default()).unwrap();
    let expected = b"--- a/d/f\n+++ b/d/f\n@@ -1 +1 @@\n-a\n+to\n\\ No newline at end of file\n";
    assert_eq!(found, Text::Lines(expected.to_vec()));
}

#[test]
fn large_texts_with_nothing_in_common_do_not_hang() {
    let text = |salt: u64| -> Vec<u8> {
        let line = |i: u64| format!("{:x}\n", (i ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44);
        (0..100_000).flat_map(|i| line(i).into_bytes()).collect()
    };
    let (old, new) = (text(1), text(12_345_678));
    let started = std::time::Instant::now();
    let counts = line_counts(&modified(&old, &new), &constant(&old), &constant(&new), TextOptions::default()).unwrap();
    let elapsed = started.elapsed();
    assert!(elapsed.as_secs() < 30, "{counts:?} in {elapsed:?}");
}
