//! Finding secrets in the bytes of one file.

use std::{ops::Range, sync::OnceLock};

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};

use super::{
    prefilter::Prefilter,
    rule::{Files, Rule},
    rules::{RULES, is_settings},
};

/// Bytes in front of a keyword in which a match may begin, and behind it in which it may end, where no line ends before.
const BEFORE_BYTES: usize = 256;
const BEHIND_BYTES: usize = 4096;
/// At least the number of rules.
const RULES_MAX: usize = 64;
/// Comments that make a line's secrets known ones.
const ALLOWED: [&[u8]; 2] = [b"parhelia:allow", b"gitleaks:allow"];

/// A secret in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The place of its rule among the rules.
    rule: usize,
    /// Line of the file, from 1.
    pub line: u64,
    /// Its bytes' place in the file.
    pub secret: Range<usize>,
    /// True if a comment on its line says that it may be there.
    pub is_allowed: bool,
}

impl Finding {
    /// The rule that the secret fits.
    pub fn rule(&self) -> &'static Rule {
        &RULES[self.rule]
    }
}

/// The rules, ready for use. What a rule needs is made ready when it is likely to find something first.
pub struct Detector {
    filter: Prefilter,
    keywords: Vec<OnceLock<Option<AhoCorasick>>>,
    patterns: Vec<OnceLock<Option<Regex>>>,
}

impl std::fmt::Debug for Detector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Detector({} rules)", RULES.len())
    }
}

impl Default for Detector {
    fn default() -> Self {
        let keywords = RULES.iter().enumerate().flat_map(|(i, rule)| rule.keywords.iter().map(move |keyword| (i, *keyword)));
        Detector {
            filter: Prefilter::new(keywords),
            keywords: RULES.iter().map(|_| OnceLock::new()).collect(),
            patterns: RULES.iter().map(|_| OnceLock::new()).collect(),
        }
    }
}

impl Detector {
    /// The secrets in a file's bytes, in order of their places. The path only tells what kind of file it is.
    pub fn find(&self, path: &[u8], bytes: &[u8]) -> Vec<Finding> {
        let mut found: Vec<(usize, Range<usize>)> = Vec::new();
        for rule in self.likely(path, bytes) {
            let (Some(pattern), Some(keywords)) = (self.pattern(rule), self.keywords(rule)) else { continue };
            for window in windows(keywords, bytes) {
                for secret in secrets(pattern, &RULES[rule], bytes, window) {
                    // Rules come in order of precedence.
                    if !found.iter().any(|(_, other)| other.start < secret.end && secret.start < other.end) {
                        found.push((rule, secret));
                    }
                }
            }
        }
        found.sort_by_key(|(_, secret)| secret.start);
        let (mut line, mut at) = (1, 0);
        let located = found.into_iter().map(|(rule, secret)| {
            line += bytes[at..secret.start].iter().filter(|byte| **byte == b'\n').count() as u64;
            at = secret.start;
            Finding { rule, line, is_allowed: is_allowed(bytes, secret.start), secret }
        });
        located.collect()
    }

    /// The rules that may find something, in order.
    fn likely(&self, path: &[u8], bytes: &[u8]) -> Vec<usize> {
        let mut are_likely = [false; RULES_MAX];
        let mut settings = None;
        self.filter.each(bytes, |i, keyword| {
            let rule = &RULES[i];
            let is_likely = !are_likely[i]
                && (rule.files == Files::All || *settings.get_or_insert_with(|| is_settings(path)))
                && (rule.is_likely)(rule, bytes, keyword);
            are_likely[i] |= is_likely;
        });
        (0..RULES.len()).filter(|rule| are_likely[*rule]).collect()
    }

    fn keywords(&self, rule: usize) -> Option<&AhoCorasick> {
        let build = || AhoCorasick::builder().ascii_case_insensitive(true).build(RULES[rule].keywords).ok();
        self.keywords[rule].get_or_init(build).as_ref()
    }

    fn pattern(&self, rule: usize) -> Option<&Regex> {
        self.patterns[rule].get_or_init(|| RegexBuilder::new(RULES[rule].pattern).unicode(false).build().ok()).as_ref()
    }
}

/// The places around keywords, in order.
fn windows(keywords: &AhoCorasick, bytes: &[u8]) -> Vec<Range<usize>> {
    let mut windows: Vec<Range<usize>> = Vec::new();
    for hit in keywords.find_overlapping_iter(bytes) {
        match windows.last_mut() {
            Some(last) if hit.start() + BEHIND_BYTES < last.end => {}
            Some(last) if hit.start().saturating_sub(BEFORE_BYTES) <= last.end => last.end = end(bytes, hit.end()),
            _ => windows.push(hit.start().saturating_sub(BEFORE_BYTES)..end(bytes, hit.end())),
        }
    }
    windows
}

fn end(bytes: &[u8], keyword: usize) -> usize {
    keyword.saturating_add(BEHIND_BYTES).min(bytes.len())
}

/// The secrets that a rule finds in a part of a file.
fn secrets(pattern: &Regex, rule: &Rule, bytes: &[u8], window: Range<usize>) -> Vec<Range<usize>> {
    let (mut at, mut found) = (window.start, Vec::new());
    while at < window.end
        && let Some(groups) = pattern.captures_at(&bytes[..window.end], at)
    {
        let Some(secret) = groups.iter().skip(1).flatten().next() else { break };
        if rule.is_secret(secret.as_bytes()) {
            found.push(secret.range());
        }
        at = secret.end().max(at + 1);
    }
    found
}

/// True if a comment on the line of a place allows what is there.
fn is_allowed(bytes: &[u8], place: usize) -> bool {
    // A line of a megabyte may hold a thousand of them.
    let (first, last) = (place.saturating_sub(BEHIND_BYTES), bytes.len().min(place + BEHIND_BYTES));
    let begin = bytes[first..place].iter().rposition(|byte| *byte == b'\n').map_or(first, |newline| first + newline + 1);
    let end = bytes[place..last].iter().position(|byte| *byte == b'\n').map_or(last, |newline| place + newline);
    let line = &bytes[begin..end];
    ALLOWED.iter().any(|comment| line.windows(comment.len()).any(|window| window == *comment))
}
