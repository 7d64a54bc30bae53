//! Damage, and what verbs make of it. A store of sixty versions, most of which build on others, is damaged in one place; then pairs of verbs run
//! over it, each pair on a copy of its own.
//!
//! - Nothing is vouched for that cannot be read: whatever verb ends with 0 after it has read something, or after the damage is known, was right.
//! - Nothing recoverable is lost: what could be read before a verb can be read after it, and with a second copy of the store everything comes
//!   back in one repair.
//! - A repair leaves packs that are at most 1.2 times as long as before.
//!
//! The ordinary run takes a sample; `PARHELIA_LONG=N` takes every pair with every damage, and N hundred rounds of the random ones; `PARHELIA_SEED=N`
//! repeats a run of chance.

mod chaos;
mod damage;
mod flips;
mod full;
mod oracle;
mod verbs;
mod world;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use damage::Damage;
use parhelia_tests::{given_seed, long};
use verbs::Verb;
use world::World;

/// Pairs in the ordinary run.
const SAMPLED: usize = 44;

/// Every pair of verbs with a damage, in a fixed order.
fn all() -> Vec<(Damage, Verb, Verb)> {
    let mut all = Vec::new();
    for damage in Damage::ALL {
        for first in Verb::ALL {
            all.extend(Verb::ALL.map(|second| (damage, first, second)));
        }
    }
    all
}

/// A sample in which each damage, and each verb in both places, comes about as often.
fn sample(seed: u64) -> Vec<(Damage, Verb, Verb)> {
    let (verbs, damages) = (Verb::ALL.len(), Damage::ALL.len());
    let pick = |number: usize| {
        let at = number + seed as usize;
        let (first, second) = (at % verbs, (at * 5 + at / verbs * 3 + 1) % verbs);
        (Damage::ALL[(at * 3 + at / damages) % damages], Verb::ALL[first], Verb::ALL[second])
    };
    (0..SAMPLED).map(pick).collect()
}

#[test]
fn every_pair_of_verbs_over_a_damaged_store() {
    let world = World::new();
    let seed = given_seed().unwrap_or(0);
    let pairs = if long() > 0 { all() } else { sample(seed) };
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((damage, first, second)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut one = world.copy();
            let what = format!("{damage:?}: {first:?}, {second:?}");
            one.damage(*damage);
            one.step(*first, &what);
            one.step(*second, &what);
            one.repair_all(&what);
        }
    };
    thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(work)));
}

/// What was reported: a bit in a block on which many build, known to a check; gc; a checkpoint of the same content.
#[test]
fn a_checkpoint_after_gc_does_not_reuse_what_was_found_damaged() {
    let world = World::new();
    for damage in [Damage::BaseBit, Damage::DeltaBit, Damage::TreeBit] {
        let mut one = world.copy();
        one.damage(damage);
        for verb in [Verb::CheckData, Verb::Gc, Verb::Create, Verb::Gc, Verb::Create] {
            one.step(verb, &format!("{damage:?}: reported"));
        }
        assert!(one.newest_is_readable(), "{damage:?}");
    }
}

#[test]
fn a_missing_or_cut_pack_is_noticed_by_the_checkpoint_that_reuses_it() {
    let world = World::new();
    for damage in [Damage::Missing, Damage::Truncated, Damage::SmallMissing] {
        let mut one = world.copy();
        one.damage(damage);
        one.step(Verb::Create, &format!("{damage:?}"));
        assert!(one.newest_is_readable(), "{damage:?}");
    }
}
