//! Information density: how much of a text does not repeat what came before.

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

/// So many tokens in a row count as said before if they were.
const RUN_TOKENS: usize = 8;

/// The part of all runs of 8 tokens that occur for the first time: 1 where nothing is repeated. Runs stay within one text; a shorter text
/// is one run. 0 of nothing.
pub fn density<'a>(texts: impl IntoIterator<Item = &'a [u32]>) -> f64 {
    let (mut seen, mut all) = (HashSet::new(), 0_u64);
    for text in texts.into_iter().filter(|text| !text.is_empty()) {
        for run in text.windows(RUN_TOKENS.min(text.len())) {
            let mut hasher = DefaultHasher::new();
            run.hash(&mut hasher);
            seen.insert(hasher.finish());
            all += 1;
        }
    }
    if all == 0 { 0.0 } else { seen.len() as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_counts_once() {
        let one: Vec<u32> = (0..108).collect();
        assert_eq!(density([one.as_slice()]), 1.0);
        assert_eq!(density([one.as_slice(), &one]), 0.5);
        assert_eq!(density([[7; 107].as_slice()]), 0.01);
        assert_eq!((density([]), density([[].as_slice(), &[1]])), (0.0, 1.0));
    }
}
