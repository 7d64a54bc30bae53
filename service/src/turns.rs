//! Turns: whoever does something under a name waits for whoever does something under the same name.

use std::{
    collections::HashSet,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// Names under which something is being done.
#[derive(Default)]
pub struct Turns {
    taken: Mutex<HashSet<String>>,
    given_back: Condvar,
}

/// A turn, until it is dropped.
pub struct Turn<'a> {
    turns: &'a Turns,
    name: String,
}

impl Turns {
    /// Waits for the turn under a name.
    pub fn take(&self, name: String) -> Turn<'_> {
        let mut taken = self.lock();
        while !taken.insert(name.clone()) {
            taken = self.given_back.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        Turn { turns: self, name }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().remove(&self.name);
        self.turns.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::*, thread};

    use super::*;

    #[test]
    fn a_name_has_one_turn_at_a_time_and_another_name_its_own() {
        let (turns, inside, most) = (Turns::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let _other = turns.take("other".into());
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _turn = turns.take("name".into());
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }
}
