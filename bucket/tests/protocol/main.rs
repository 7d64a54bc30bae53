//! The protocol of commits and gc, searched exhaustively in small: two writers that sleep or die anywhere, two gcs over several rounds, answers
//! that are lost and puts that land late, commits that are written again, deletions, and segments that are emptied. Each rule can be left out, and
//! the search then finds what is lost.
//!
//! A step of a process may come at any time, or never: that is what sleeping and dying are.

#![allow(clippy::unwrap_used)]

mod search;
mod state;

use search::search;
use state::{ALL, Bounds, Rules, TRIES};

fn is_long() -> bool {
    std::env::var_os("PARHELIA_LONG").is_some()
}

/// The shared pack, and the first ones of both writers.
const FIRST_PACKS: u16 = 1 | 1 << 1 | 1 << (1 + TRIES);
const TWO_GCS: Bounds =
    Bounds { condemnations: 2, condemnable: FIRST_PACKS, tries: 2, states_max: 12_000_000, has_deletions: false, gcs: 2 };
const DELETIONS: Bounds = Bounds { condemnable: 1, tries: 1, has_deletions: true, gcs: 1, ..TWO_GCS };

#[test]
fn two_gcs_and_two_writers_lose_nothing() {
    let (states, violation) = search(&ALL, &TWO_GCS);
    println!("two gcs, two rounds: {states} states");
    assert_eq!(violation, None);
    assert!(states > 100_000, "{states}");
}

#[test]
fn deletions_and_emptied_segments_lose_nothing() {
    let (states, violation) = search(&ALL, &DELETIONS);
    println!("deletions, two rounds: {states} states");
    assert_eq!(violation, None);
    assert!(states > 100_000, "{states}");
}

#[test]
fn three_rounds_lose_nothing() {
    if !is_long() {
        return;
    }
    let bounds = Bounds { condemnations: 3, tries: TRIES as u8, states_max: 60_000_000, gcs: 1, ..TWO_GCS };
    let (states, violation) = search(&ALL, &bounds);
    println!("three rounds: {states} states");
    assert_eq!(violation, None);
}

#[test]
fn each_rule_is_needed() {
    let without: [(&str, Rules, Bounds); 9] = [
        ("the read after the put", Rules { read_after_put: false, ..ALL }, TWO_GCS),
        ("the rule against condemned packs", Rules { not_condemned: false, ..ALL }, TWO_GCS),
        ("the void rule", Rules { void: false, ..ALL }, TWO_GCS),
        ("the condemnation before the list", Rules { condemn_first: false, ..ALL }, TWO_GCS),
        ("the record before the deletion", Rules { record_first: false, ..ALL }, TWO_GCS),
        ("one winner among gcs", Rules { one_gc_wins: false, ..ALL }, TWO_GCS),
        ("fresh names", Rules { fresh_names: false, ..ALL }, TWO_GCS),
        ("the same bytes again", Rules { same_bytes_again: false, ..ALL }, TWO_GCS),
        ("numbers that stay taken", Rules { numbers_stay: false, ..ALL }, DELETIONS),
    ];
    for (name, rules, bounds) in without {
        let (states, violation) = search(&rules, &bounds);
        let violation = violation.unwrap_or_else(|| panic!("without {name} nothing is lost in {states} states"));
        println!("without {name}: {states} states, {violation}");
    }
}
