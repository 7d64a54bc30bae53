//! A rule: a kind of credential and how it is recognised.

use std::ops::Range;

use super::literal::{entropy, is_placeholder};

/// A kind of credential and how it is recognised.
#[derive(Debug)]
pub struct Rule {
    /// Its name, as findings give it.
    pub id: &'static str,
    /// The credential, for people.
    pub description: &'static str,
    /// Texts of which one stands in each match, in lower case; they are looked for in any case.
    pub keywords: &'static [&'static str],
    /// A regular expression over bytes; its first group is the secret.
    pub pattern: &'static str,
    /// Least entropy of the secret, in bits per byte. Below it lie placeholders and words.
    pub entropy_min: f64,
    /// One more condition on the secret.
    pub accepts: fn(&[u8]) -> bool,
    /// The files that it is looked for in.
    pub files: Files,
    /// A test at a keyword, given all bytes and its place, that costs less than the pattern: it fails only where no secret of the rule can
    /// belong to the keyword.
    pub(super) is_likely: fn(&Rule, &[u8], Range<usize>) -> bool,
}

impl Rule {
    /// True if a text that the pattern finds is a secret, and no placeholder.
    pub(super) fn is_secret(&self, text: &[u8]) -> bool {
        (self.accepts)(text) && entropy(text) >= self.entropy_min && !is_placeholder(text)
    }
}

/// The files in which a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// Every file that is scanned.
    All,
    /// Those whose values stand without quotes, such as `.env` and YAML.
    Settings,
}
