//! The chain of events: each names the hash of the one before it.

use super::Break;

/// A chain of events so far.
#[derive(Default)]
pub(super) struct Chain {
    /// True once an event has named the one before it: those of the first releases name none.
    has_begun: bool,
    /// Hash of the last event.
    pub(super) last: Option<String>,
    /// Places at which it is broken.
    pub(super) breaks: Vec<Break>,
}

impl Chain {
    /// Takes in the next event: the hash that it names, and its own.
    pub(super) fn goes_on(&mut self, sequence: u64, previous: Option<&str>, hash: String) {
        self.has_begun |= previous.is_some();
        if self.has_begun && previous != self.last.as_deref() {
            self.breaks.push(Break { sequence, names: previous.map(str::to_owned), expected: self.last.clone() });
        }
        self.last = Some(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places at which a chain of events is broken, each given as the hash that it names and its own.
    fn breaks(events: &[(&str, &str)]) -> Vec<u64> {
        let mut chain = Chain::default();
        for (i, (previous, hash)) in events.iter().enumerate() {
            chain.goes_on(i as u64, (!previous.is_empty()).then_some(*previous), (*hash).to_owned());
        }
        chain.breaks.iter().map(|found| found.sequence).collect()
    }

    #[test]
    fn a_removed_or_changed_event_breaks_the_chain_where_it_was() {
        assert_eq!(breaks(&[("", "a"), ("a", "b"), ("b", "c"), ("c", "d")]), [0; 0]);
        assert_eq!(breaks(&[("", "a"), ("", "b"), ("b", "c")]), [0; 0], "the first releases named none");
        assert_eq!(breaks(&[("", "a"), ("b", "c"), ("c", "d")]), [1], "b was removed");
        assert_eq!(breaks(&[("", "a"), ("a", "B"), ("b", "c")]), [2], "b was changed");
        assert_eq!(breaks(&[("a", "b"), ("b", "c")]), [0], "the first was removed");
        assert_eq!(breaks(&[("", "a"), ("a", "b"), ("", "c")]), [2], "c names none");
        assert_eq!(breaks(&[("", "a"), ("a", "b"), ("a", "c"), ("b", "d")]), [2, 3], "two were exchanged");
    }
}
