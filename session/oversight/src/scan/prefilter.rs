//! The filter before the rules: one pass over a text that finds the keywords of all rules.
//!
//! Of each keyword, the three bytes that are rarest in texts are hashed into a small table. A place of a text whose three bytes are not in the
//! table costs one look-up, and no look-up waits for the one before, as the states of an automaton do.

use std::{collections::BTreeMap, ops::Range};

const SLOT_BITS: u32 = 14;
const SLOTS: usize = 1 << SLOT_BITS;
/// The last group takes whatever would need a further one.
const GROUPS_MAX: usize = u8::MAX as usize;
/// Bytes of which the hash is made.
const PROBE_BYTES: usize = 3;

/// A keyword that is looked for, and where in it the probe lies.
struct Anchor {
    keyword: &'static [u8],
    at: usize,
    rule: usize,
}

/// Keywords, ready to be looked for in any case.
pub(super) struct Prefilter {
    /// For each hash, the group of the keywords with such a probe, from 1; 0 for none.
    slots: Box<[u8; SLOTS]>,
    groups: Vec<Vec<Anchor>>,
}

impl Prefilter {
    /// A filter of rules and their keywords, which are in lower case and two bytes long or longer.
    pub(super) fn new(keywords: impl Iterator<Item = (usize, &'static str)>) -> Self {
        let keywords: Vec<(usize, &'static [u8])> = keywords.map(|(rule, keyword)| (rule, keyword.as_bytes())).collect();
        let mut by_slot: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, (_, keyword)) in keywords.iter().enumerate() {
            for probe in probes(keyword) {
                let numbers = by_slot.entry(slot(probe)).or_default();
                if !numbers.contains(&number) {
                    numbers.push(number);
                }
            }
        }
        let mut filter = Prefilter { slots: Box::new([0; SLOTS]), groups: Vec::new() };
        let mut known: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for (slot, numbers) in by_slot {
            let next = known.len().min(GROUPS_MAX - 1);
            let group = *known.entry(numbers.clone()).or_insert(next);
            if group == filter.groups.len() {
                filter.groups.push(Vec::new());
            }
            for (rule, keyword) in numbers.into_iter().map(|number| keywords[number]) {
                let anchors = &mut filter.groups[group];
                if !anchors.iter().any(|anchor| (anchor.rule, anchor.keyword) == (rule, keyword)) {
                    anchors.push(Anchor { keyword, at: probe_at(keyword), rule });
                }
            }
            filter.slots[slot] = group as u8 + 1;
        }
        filter
    }

    /// Calls `meet` with the rule and the place of each keyword in a text, in order of the places of their probes.
    pub(super) fn each(&self, bytes: &[u8], mut meet: impl FnMut(usize, Range<usize>)) {
        let mut look = |at: usize, word: u32| {
            let group = self.slots[slot(word)];
            if group > 0 {
                self.meet(group, bytes, at, &mut meet);
            }
        };
        for (at, four) in bytes.array_windows::<4>().enumerate() {
            look(at, u32::from_le_bytes(*four));
        }
        // The last places, with zeros behind them.
        for at in bytes.len().saturating_sub(PROBE_BYTES)..bytes.len() {
            let mut four = [0; 4];
            four[..bytes.len() - at].copy_from_slice(&bytes[at..]);
            look(at, u32::from_le_bytes(four));
        }
    }

    #[inline(never)]
    fn meet(&self, group: u8, bytes: &[u8], probe: usize, meet: &mut impl FnMut(usize, Range<usize>)) {
        for Anchor { keyword, at, rule } in &self.groups[usize::from(group) - 1] {
            let Some(start) = probe.checked_sub(*at) else { continue };
            let end = start + keyword.len();
            if bytes.get(start..end).is_some_and(|found| found.eq_ignore_ascii_case(keyword)) {
                meet(*rule, start..end);
            }
        }
    }
}

/// The slot of three bytes, which are the low ones of a word. Letters that differ in case alone have the same.
fn slot(word: u32) -> usize {
    const CASELESS: u32 = 0x00df_dfdf;
    ((word & CASELESS).wrapping_mul(0x9e37_79b1) >> (32 - SLOT_BITS)) as usize
}

/// The words by which a keyword is found: one, or for a keyword of two bytes those with every byte behind it.
fn probes(keyword: &[u8]) -> Vec<u32> {
    let byte = |at: usize| u32::from(keyword[at]) << (8 * at);
    match keyword.len() {
        2 => (0..=0xff).map(|last| byte(0) | byte(1) | last << 16).collect(),
        _ => {
            let probe = &keyword[probe_at(keyword)..];
            vec![u32::from_le_bytes([probe[0], probe[1], probe[2], 0])]
        }
    }
}

/// The beginning of the three rarest bytes of a keyword.
fn probe_at(keyword: &[u8]) -> usize {
    let commonness = |at: &usize| keyword[*at..*at + PROBE_BYTES].iter().map(|byte| commonness(*byte)).product::<u32>();
    (0..(keyword.len() + 1).saturating_sub(PROBE_BYTES)).min_by_key(commonness).unwrap_or(0)
}

/// How common a byte is in sources and documents, roughly, in percent.
fn commonness(byte: u8) -> u32 {
    match byte {
        b' ' => 16,
        b'e' | b't' => 8,
        b'a' | b'i' | b'n' | b'o' | b'r' | b's' => 6,
        b'c' | b'd' | b'l' | b'p' | b'u' | b'm' => 3,
        b'b' | b'f' | b'g' | b'h' | b'/' | b'.' | b'-' | b'_' | b':' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: [&str; 6] = ["token", "q~", "://", "secret access key", "accesskey", "sk-or-v1-"];

    fn met(filter: &Prefilter, bytes: &[u8]) -> Vec<(usize, Range<usize>)> {
        let mut met = Vec::new();
        filter.each(bytes, |rule, place| met.push((rule, place)));
        met.sort_by_key(|(rule, place)| (place.start, *rule));
        met
    }

    fn plainly(bytes: &[u8]) -> Vec<(usize, Range<usize>)> {
        let lower = bytes.to_ascii_lowercase();
        let at = |start: usize| {
            let words = WORDS.iter().enumerate();
            words.map(move |(i, word)| (i, start..start + word.len())).collect::<Vec<_>>()
        };
        let is = |(i, place): &(usize, Range<usize>)| lower.get(place.clone()) == Some(WORDS[*i].as_bytes());
        (0..bytes.len()).flat_map(at).filter(is).collect()
    }

    proptest! {
        #[test]
        fn every_keyword_is_met_once_wherever_it_stands(
            pieces in prop::collection::vec((0usize..WORDS.len(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..4)), 0..9)
        ) {
            let filter = Prefilter::new(WORDS.into_iter().enumerate());
            let mut bytes = Vec::new();
            for (word, is_upper, between) in pieces {
                bytes.extend_from_slice(&between);
                let word = WORDS[word].as_bytes();
                bytes.extend_from_slice(&if is_upper { word.to_ascii_uppercase() } else { word.to_vec() });
            }
            prop_assert_eq!(met(&filter, &bytes), plainly(&bytes));
        }
    }

    #[test]
    fn more_groups_than_there_are_numbers_for_are_one() {
        let words: Vec<&'static str> = (0..600).map(|i| &*format!("k{i:03}").leak()).collect();
        let filter = Prefilter::new(words.iter().copied().enumerate());
        for (i, word) in words.iter().enumerate() {
            assert_eq!(met(&filter, format!("a {word} b").as_bytes()), [(i, 2..6)]);
        }
    }
}
