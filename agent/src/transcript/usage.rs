//! Tokens, as the API reported them.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::{
    json::Object,
    limits::{NAME_BYTES_MAX, NAMES_MAX, WINDOW},
};

/// Tokens of one or several messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Read afresh.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Read, and put into the API's cache.
    pub cache_creation_input_tokens: u64,
    /// Read from the API's cache.
    pub cache_read_input_tokens: u64,
}

impl Usage {
    pub(crate) fn of(usage: &Object) -> Self {
        let count = |name| usage.count(name).unwrap_or(0);
        Usage {
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            cache_creation_input_tokens: count("cache_creation_input_tokens"),
            cache_read_input_tokens: count("cache_read_input_tokens"),
        }
    }

    /// All tokens, read and written, those from the cache included.
    pub fn total(&self) -> u64 {
        let cached = self.cache_creation_input_tokens.saturating_add(self.cache_read_input_tokens);
        self.input_tokens.saturating_add(self.output_tokens).saturating_add(cached)
    }

    fn each(self, other: Usage, f: impl Fn(u64, u64) -> u64) -> Usage {
        Usage {
            input_tokens: f(self.input_tokens, other.input_tokens),
            output_tokens: f(self.output_tokens, other.output_tokens),
            cache_creation_input_tokens: f(self.cache_creation_input_tokens, other.cache_creation_input_tokens),
            cache_read_input_tokens: f(self.cache_read_input_tokens, other.cache_read_input_tokens),
        }
    }

    /// The sum of two.
    pub fn plus(self, other: Usage) -> Usage {
        self.each(other, u64::saturating_add)
    }

    fn minus(self, other: Usage) -> Usage {
        self.each(other, u64::saturating_sub)
    }
}

/// Usage of a conversation, each message counted once: one message may span several lines, and each line repeats its usage, earlier
/// lines with what was known then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// All of it.
    pub total: Usage,
    /// The same by the model's API name; an empty name where none is known.
    pub by_model: BTreeMap<String, Usage>,
    /// Messages that were seen last, with what was counted for them.
    recent: VecDeque<(String, Usage, String)>,
}

impl Ledger {
    /// Counts a message's usage, or corrects what an earlier line of the same message said.
    pub(crate) fn count(&mut self, message: &str, model: &str, usage: Usage) {
        if message.len() > NAME_BYTES_MAX || model.len() > NAME_BYTES_MAX {
            return self.add(model, usage);
        }
        let known = self.recent.iter().position(|(id, ..)| id == message).and_then(|at| self.recent.remove(at));
        let (usage, model) = match known {
            None => (usage, model.to_owned()),
            Some((_, before, model)) => {
                self.total = self.total.minus(before);
                if let Some(sum) = self.by_model.get_mut(&model) {
                    *sum = sum.minus(before);
                }
                (before.each(usage, u64::max), model)
            }
        };
        self.add(&model, usage);
        self.recent.push_back((message.to_owned(), usage, model));
        if self.recent.len() > WINDOW {
            self.recent.pop_front();
        }
    }

    fn add(&mut self, model: &str, usage: Usage) {
        self.total = self.total.plus(usage);
        if self.by_model.contains_key(model) || (self.by_model.len() < NAMES_MAX && model.len() <= NAME_BYTES_MAX) {
            let sum = self.by_model.entry(model.to_owned()).or_default();
            *sum = sum.plus(usage);
        }
    }

    /// Takes what was reported for everything since the last report in place of what was counted.
    pub(crate) fn settle(&mut self, counted_before: Usage, reported: Usage) {
        self.total = counted_before.plus(reported);
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input_tokens: input, output_tokens: output, ..Usage::default() }
    }

    #[test]
    fn lines_of_one_message_count_once_with_what_was_known_last() {
        let mut ledger = Ledger::default();
        ledger.count("a", "m", usage(10, 1));
        ledger.count("b", "n", usage(5, 5));
        ledger.count("a", "m", usage(10, 30));
        ledger.count("a", "m", usage(10, 30));
        assert_eq!(ledger.total, usage(15, 35));
        assert_eq!(ledger.by_model["m"], usage(10, 30));
        assert_eq!(ledger.total.total(), 50);
    }

    #[test]
    fn absurd_numbers_do_not_overflow_and_memory_is_bounded() {
        let mut ledger = Ledger::default();
        for i in 0..10_000 {
            ledger.count(&i.to_string(), &i.to_string(), usage(u64::MAX, 1));
        }
        assert_eq!(ledger.total.input_tokens, u64::MAX);
        assert!(ledger.recent.len() <= WINDOW && ledger.by_model.len() <= NAMES_MAX);
    }
}
