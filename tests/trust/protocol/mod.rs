//! The protocol of lock, pins, commits and collection, small enough that every order of its steps is looked at.
//!
//! [`model`] holds what the processes share: the journal, the packs' files, the pins, the writer lock. [`actors`] are the processes,
//! each a list of steps that the kernel may interleave with all others', and may end at any of them. A search through all states
//! finds none in which a checkpoint that exists cannot be read. That the search could find one is shown by leaving out one rule after
//! the other: each time it does.

mod actors;
mod model;
mod search;

use actors::{Actor, Collector, Creator, Deleter, Reader};
use model::{Rules, State};
use search::{Explored, explore};

fn with(rules: Rules, actors: Vec<Actor>, crashes: u8) -> Result<Explored, String> {
    explore(&State::new(rules, actors, crashes))
}

#[track_caller]
fn sound(name: &str, actors: Vec<Actor>, crashes: u8) {
    match with(Rules::default(), actors, crashes) {
        Ok(explored) => println!("{name}: {} states, {} of them final", explored.states, explored.finals),
        Err(trace) => panic!("{name}: {trace}"),
    }
}

/// As [`sound`], in a store without any checkpoint: who comes first has to write X.
#[track_caller]
fn sound_from_nothing(name: &str, actors: Vec<Actor>, crashes: u8) {
    match explore(&State::new(Rules::default(), actors, crashes).empty()) {
        Ok(explored) => println!("{name}: {} states, {} of them final", explored.states, explored.finals),
        Err(trace) => panic!("{name}: {trace}"),
    }
}

/// True if leaving out a rule goes wrong somewhere.
fn is_needed(rules: Rules, actors: Vec<Actor>, crashes: u8) -> bool {
    with(rules, actors.clone(), crashes).is_err() || explore(&State::new(rules, actors, crashes).empty()).is_err()
}

fn creator() -> Actor {
    Actor::Creator(Creator::default())
}

fn from_base() -> Actor {
    Actor::Creator(Creator::from_base())
}

fn gc() -> Actor {
    Actor::Collector(Collector::default())
}

fn reader() -> Actor {
    Actor::Reader(Reader::default())
}

fn deleter() -> Actor {
    Actor::Deleter(Deleter::default())
}

#[test]
fn a_creator_and_a_deletion_beside_collection() {
    sound("creator", vec![creator(), deleter(), gc()], 1);
    sound("creator from a base", vec![from_base(), deleter(), gc()], 1);
}

#[test]
fn two_creators_beside_collection() {
    sound("two creators", vec![creator(), creator(), deleter(), gc()], 0);
    sound("two creators, one from a base", vec![creator(), from_base(), deleter(), gc()], 0);
}

#[test]
fn a_reader_beside_two_collections() {
    sound("reader", vec![reader(), deleter(), gc(), gc()], 0);
}

#[test]
fn a_creator_beside_two_collections() {
    sound("creator, two collectors", vec![creator(), deleter(), gc(), gc()], 0);
    sound("creator from a base, two collectors", vec![from_base(), deleter(), gc(), gc()], 0);
}

#[test]
fn packs_of_a_dead_creator_are_taken_up_or_swept() {
    sound("taking up", vec![creator(), creator(), gc()], 1);
    sound("taking up twice", vec![creator(), creator(), creator()], 1);
    sound_from_nothing("taking up, from nothing", vec![creator(), creator(), gc()], 1);
    sound_from_nothing("taking up twice, from nothing", vec![creator(), creator(), creator()], 1);
}

#[test]
fn without_any_of_these_rules_something_is_lost() {
    let all = Rules::default();
    let beside = |first: fn() -> Actor| vec![first(), deleter(), gc()];
    let rules: [(&str, Rules, Vec<Actor>, u8); 10] = [
        ("a commit looks at what was condemned", Rules { commit_checks_condemned: false, ..all }, beside(creator), 0),
        ("gc marks what was committed meanwhile", Rules { publish_catches_up: false, ..all }, beside(creator), 0),
        ("the lock is exclusive", Rules { lock_excludes: false, ..all }, beside(creator), 0),
        ("who pins looks again", Rules { pinner_looks_again: false, ..all }, beside(from_base), 0),
        ("gc reads the view before the pins", Rules { view_before_pins: false, ..all }, beside(from_base), 0),
        ("pins keep a deleted base", Rules { pins_keep: false, ..all }, beside(from_base), 0),
        ("orphans are nobody's that lives", Rules { orphans_are_dead: false, ..all }, beside(creator), 0),
        ("who takes up holds the pin", Rules { adoption_seizes: false, ..all }, vec![creator(), creator()], 0),
        ("who takes up looks again", Rules { adopter_looks_again: false, ..all }, vec![creator(), creator()], 1),
        ("a reader looks again", Rules { reader_retries: false, ..all }, beside(reader), 0),
    ];
    let needless: Vec<&str> = rules.into_iter().filter(|(_, r, a, c)| !is_needed(*r, a.clone(), *c)).map(|rule| rule.0).collect();
    assert!(needless.is_empty(), "nothing goes wrong without {needless:?}: the model does not show what they are for");
}

#[test]
fn that_sweeping_waits_for_writers_only_spares_them_a_second_look() {
    let rules = Rules { sweep_waits: false, ..Rules::default() };
    for first in [creator(), from_base()] {
        assert!(!is_needed(rules, vec![first, deleter(), gc()], 1));
    }
}
