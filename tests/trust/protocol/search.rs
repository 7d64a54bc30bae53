//! A search through every state that can be reached, breadth first, so that what it finds is shortest.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::model::{Op, State};

/// Result of a search.
pub struct Explored {
    /// Number of states.
    pub states: usize,
    /// In how many nothing is left to do.
    pub finals: usize,
}

/// Stands for a state: states are many, and only those that are still to be looked at are kept whole.
type Print = (u64, u64);

fn print_of(state: &State) -> Print {
    let (mut first, mut second) = (DefaultHasher::new(), DefaultHasher::new());
    second.write_u8(1);
    state.hash(&mut first);
    state.hash(&mut second);
    (first.finish(), second.finish())
}

/// By which step of whom a state was reached, and from which.
type From = Option<(Print, Op, &'static str)>;

/// Looks at every state that follows from the first. An error tells the steps to one in which something is wrong.
pub fn explore(first: &State) -> Result<Explored, String> {
    let mut from: HashMap<Print, From> = HashMap::from([(print_of(first), None)]);
    let mut queue = VecDeque::from([first.clone()]);
    let mut finals = 0;
    while let Some(state) = queue.pop_front() {
        let next = state.next();
        finals += usize::from(next.is_empty());
        let own = print_of(&state);
        if let Err(wrong) = state.check(next.is_empty()) {
            return Err(format!("{wrong}:\n{}", trace(&from, own)));
        }
        for (op, step, next) in next {
            from.entry(print_of(&next)).or_insert_with(|| {
                queue.push_back(next);
                Some((own, op, step))
            });
        }
    }
    Ok(Explored { states: from.len(), finals })
}

fn trace(from: &HashMap<Print, From>, mut state: Print) -> String {
    let mut steps = Vec::new();
    while let Some(Some((before, op, step))) = from.get(&state) {
        steps.push(format!("  {op} {step}"));
        state = *before;
    }
    steps.reverse();
    steps.join("\n")
}
