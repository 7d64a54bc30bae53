//! Finding secrets in the bytes of one file.

use std::{ops::Range, sync::OnceLock};

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};

use super::{
    literal::{entropy, is_placeholder},
    rules::{Files, RULES, Rule, is_settings},
};

/// Bytes in front of a keyword in which a match may begin, and behind it in which it may end, where no line ends before.
const BEFORE_BYTES: usize = 256;
const BEHIND_BYTES: usize = 4096;
/// Comments that make a line's secrets known ones.
const ALLOWED: [&[u8]; 2] = [b"parhelia:allow", b"gitleaks:allow"];

/// A secret in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The place of its rule among the rules.
    rule: usize,
    /// Its line, from 1.
    pub line: u64,
    /// Its bytes' place in the file.
    pub secret: Range<usize>,
    /// True if a comment on its line says that it may be there.
    pub is_allowed: bool,
}

impl Found {
    /// Its rule.
    pub fn rule(&self) -> &'static Rule {
        &RULES[self.rule]
    }
}

/// The rules, ready for use. A pattern is compiled when one of its keywords is met first.
pub struct Detector {
    keywords: Option<AhoCorasick>,
    /// The rule of each keyword.
    rules: Vec<usize>,
    patterns: Vec<OnceLock<Option<Regex>>>,
}

impl std::fmt::Debug for Detector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Detector({} rules)", RULES.len())
    }
}

impl Default for Detector {
    fn default() -> Self {
        let keywords = || RULES.iter().enumerate().flat_map(|(i, rule)| rule.keywords.iter().map(move |keyword| (i, *keyword)));
        Detector {
            keywords: AhoCorasick::builder().ascii_case_insensitive(true).build(keywords().map(|(_, keyword)| keyword)).ok(),
            rules: keywords().map(|(rule, _)| rule).collect(),
            patterns: RULES.iter().map(|_| OnceLock::new()).collect(),
        }
    }
}

impl Detector {
    /// The secrets in a file's bytes, in order of their places. The path only tells what kind of file it is.
    pub fn find(&self, path: &[u8], bytes: &[u8]) -> Vec<Found> {
        let mut found: Vec<(usize, Range<usize>)> = Vec::new();
        for (rule, windows) in self.windows(path, bytes) {
            let Some(pattern) = self.pattern(rule) else { continue };
            for window in windows {
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
            Found { rule, line, is_allowed: is_allowed(bytes, secret.start), secret }
        });
        located.collect()
    }

    /// The places around keywords, by rule, in order of both.
    fn windows(&self, path: &[u8], bytes: &[u8]) -> Vec<(usize, Vec<Range<usize>>)> {
        let Some(keywords) = &self.keywords else { return Vec::new() };
        let mut windows: Vec<Vec<Range<usize>>> = vec![Vec::new(); RULES.len()];
        let mut settings = None;
        for hit in keywords.find_overlapping_iter(bytes) {
            let rule = self.rules[hit.pattern().as_usize()];
            if RULES[rule].files == Files::Settings && !*settings.get_or_insert_with(|| is_settings(path)) {
                continue;
            }
            match windows[rule].last_mut() {
                Some(last) if hit.start() + BEHIND_BYTES < last.end => {}
                Some(last) if hit.start().saturating_sub(BEFORE_BYTES) <= last.end => last.end = end(bytes, hit.end()),
                _ => windows[rule].push(hit.start().saturating_sub(BEFORE_BYTES)..end(bytes, hit.end())),
            }
        }
        windows.into_iter().enumerate().filter(|(_, windows)| !windows.is_empty()).collect()
    }

    fn pattern(&self, rule: usize) -> Option<&Regex> {
        self.patterns[rule].get_or_init(|| RegexBuilder::new(RULES[rule].pattern).unicode(false).build().ok()).as_ref()
    }
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
        if is_secret(rule, secret.as_bytes()) {
            found.push(secret.range());
        }
        at = secret.end().max(at + 1);
    }
    found
}

fn is_secret(rule: &Rule, text: &[u8]) -> bool {
    entropy(text) >= rule.entropy_min && !is_placeholder(text) && (rule.accepts)(text)
}

/// True if a comment on the line of a place allows what is there.
fn is_allowed(bytes: &[u8], place: usize) -> bool {
    let begin = bytes[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let end = bytes[place..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |newline| place + newline);
    let line = &bytes[begin.max(place.saturating_sub(BEHIND_BYTES))..end.min(place + BEHIND_BYTES)];
    ALLOWED.iter().any(|comment| line.windows(comment.len()).any(|window| window == *comment))
}
