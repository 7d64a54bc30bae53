//! The search: breadth first, so that the way to a violation is a shortest one.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::state::{Bounds, Rules, State};

/// A state in 128 bits: states themselves would take all memory.
fn digest(state: &State) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, state).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// Number of states, and the way to a violation, if there is one. Fails if the bound of states is reached.
pub fn search(rules: &Rules, bounds: &Bounds) -> (usize, Option<String>) {
    let mut seen: HashMap<u128, u32> = HashMap::from([(digest(&State::start()), 0)]);
    // Of each state: where it came from, and by which of the steps there.
    let mut from: Vec<(u32, u16)> = vec![(0, 0)];
    let mut queue = VecDeque::from([(State::start(), 0)]);
    while let Some((state, number)) = queue.pop_front() {
        if let Some(violation) = state.violation(rules) {
            return (seen.len(), Some(format!("{violation}: {}", way(rules, bounds, &from, number))));
        }
        for (step, (next, _)) in state.steps(rules, bounds).into_iter().enumerate() {
            if let Entry::Vacant(place) = seen.entry(digest(&next)) {
                let next_number = u32::try_from(from.len()).unwrap();
                place.insert(next_number);
                from.push((number, step as u16));
                queue.push_back((next, next_number));
            }
        }
        assert!(seen.len() < bounds.states_max, "more than {} states", bounds.states_max);
    }
    (seen.len(), None)
}

/// The steps to a state, taken again from the start.
fn way(rules: &Rules, bounds: &Bounds, from: &[(u32, u16)], mut number: u32) -> String {
    let mut choices = Vec::new();
    while number != 0 {
        let (parent, step) = from[number as usize];
        choices.push(step);
        number = parent;
    }
    let (mut state, mut way) = (State::start(), Vec::new());
    for step in choices.into_iter().rev() {
        let (next, what) = state.steps(rules, bounds).swap_remove(usize::from(step));
        way.push(what);
        state = next;
    }
    way.join(" > ")
}
