//! Sizes of briefings, in tokens and characters, and their limits.

use parhelia_host::config;

/// The limits of an injected text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Tokens, as [`tokens`] estimates them.
    pub tokens_max: usize,
    /// Characters, as the agent counts them: above 10,000 it shows the beginning alone.
    pub characters_max: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { tokens_max: 5_000, characters_max: 10_000 }
    }
}

impl From<&config::Inject> for Budget {
    fn from(inject: &config::Inject) -> Self {
        let at_most = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Budget { tokens_max: at_most(inject.max_tokens), characters_max: at_most(inject.max_characters) }
    }
}

/// Characters as the agent counts them: UTF-16 units.
pub fn characters(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// An estimate of a text's tokens that errs upward: a token for each begun four letters or three digits of a word, one for each other
/// sign, two for a letter outside the Latin, Greek and Cyrillic scripts.
pub fn tokens(text: &str) -> usize {
    let mut count = 0;
    let mut run = 0;
    let mut last = ' ';
    for c in text.chars() {
        let goes_on = c.is_ascii_alphabetic() && last.is_ascii_alphabetic() || c.is_ascii_digit() && last.is_ascii_digit();
        let length = if c.is_ascii_digit() { 3 } else { 4 };
        run = if goes_on { run + 1 } else { 0 };
        count += match c {
            // One space goes with the word behind it.
            ' ' => usize::from(last == ' '),
            c if c.is_ascii_alphanumeric() => usize::from(run % length == 0),
            c if c.is_ascii() => 1,
            c if (c as u32) < 0x0800 => 1,
            _ => 2,
        };
        last = c;
    }
    count
}

impl Budget {
    /// The share of what is known of a project. Of a model's context, that has 10 in a hundred, and the summary of a session 15 (S3, section
    /// 32): what an agent is told at once is divided alike.
    pub fn share_of_memory(self) -> Budget {
        let share = |all: usize| all / 25 * 10;
        Budget { tokens_max: share(self.tokens_max), characters_max: share(self.characters_max) }
    }

    /// So many percent of it.
    pub fn part(self, percent: usize) -> Budget {
        let part = |all: usize| (all as u128 * percent as u128 / 100) as usize;
        Budget { tokens_max: part(self.tokens_max), characters_max: part(self.characters_max) }
    }

    /// The budget that is left after a text; never below 0.
    pub fn minus(self, text: &str) -> Budget {
        Budget {
            tokens_max: self.tokens_max.saturating_sub(tokens(text)),
            characters_max: self.characters_max.saturating_sub(characters(text)),
        }
    }

    /// Checks whether a text fits. Joined texts never take more than their parts.
    pub(crate) fn fits(self, text: &str) -> bool {
        characters(text) <= self.characters_max && tokens(text) <= self.tokens_max
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn estimates_err_upward() {
        // Token counts of a current tokenizer for such text are lower.
        assert_eq!(tokens("The quick brown fox jumps over the lazy dog."), 13);
        assert!(tokens("fn main() { println!(\"{}\", 123456); }") >= 14);
        assert!(tokens("日本語") >= 4);
        assert_eq!((tokens(""), characters("a\u{1f980}")), (0, 3));
    }

    proptest! {
        #[test]
        fn a_whole_takes_at_most_its_parts(a in "[ -~\\n]{0,40}", b in "\\PC{0,40}") {
            let whole = format!("{a}\n{b}");
            prop_assert!(tokens(&whole) <= tokens(&a) + tokens("\n") + tokens(&b));
            prop_assert_eq!(characters(&whole), characters(&a) + 1 + characters(&b));
        }
    }
}
