//! The rules run plainly, without anything in front of their patterns but their keywords, as the measure of the detector.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;
use proptest::prelude::*;
use regex::bytes::{Regex, RegexBuilder};

use super::*;
use crate::scan::{detector::Finding, rule::Files, rules::is_settings};

static READY: LazyLock<Vec<(AhoCorasick, Regex)>> = LazyLock::new(|| {
    let ready = |rule: &Rule| {
        let keywords = AhoCorasick::builder().ascii_case_insensitive(true).build(rule.keywords).unwrap();
        (keywords, RegexBuilder::new(rule.pattern).unicode(false).build().unwrap())
    };
    RULES.iter().map(ready).collect()
});

/// What every rule finds around its keywords: rule, line and place.
fn plainly(path: &[u8], bytes: &[u8]) -> Vec<(&'static str, u64, Range<usize>)> {
    let mut found: Vec<(usize, Range<usize>)> = Vec::new();
    for (i, rule) in RULES.iter().enumerate().filter(|(_, rule)| rule.files == Files::All || is_settings(path)) {
        let (keywords, pattern) = &READY[i];
        let mut windows: Vec<Range<usize>> = Vec::new();
        for hit in keywords.find_overlapping_iter(bytes) {
            let end = (hit.end() + 4096).min(bytes.len());
            match windows.last_mut() {
                Some(last) if hit.start() + 4096 < last.end => {}
                Some(last) if hit.start().saturating_sub(256) <= last.end => last.end = end,
                _ => windows.push(hit.start().saturating_sub(256)..end),
            }
        }
        for window in windows {
            let mut at = window.start;
            while at < window.end
                && let Some(groups) = pattern.captures_at(&bytes[..window.end], at)
            {
                let Some(secret) = groups.iter().skip(1).flatten().next() else { break };
                let is_new = !found.iter().any(|(_, other)| other.start < secret.end() && secret.start() < other.end);
                if is_new && rule.is_secret(secret.as_bytes()) {
                    found.push((i, secret.range()));
                }
                at = secret.end().max(at + 1);
            }
        }
    }
    found.sort_by_key(|(_, secret)| secret.start);
    let line = |at: usize| 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count() as u64;
    found.into_iter().map(|(rule, secret)| (RULES[rule].id, line(secret.start), secret)).collect()
}

fn by_detector(detector: &Detector, path: &[u8], bytes: &[u8]) -> Vec<(&'static str, u64, Range<usize>)> {
    let found = detector.find(path, bytes).into_iter();
    found.map(|found: Finding| (found.rule().id, found.line, found.secret)).collect()
}

/// Pieces of which texts are made that nearly match.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let keywords: Vec<&str> = RULES.iter().flat_map(|rule| rule.keywords).copied().collect();
    let lines: Vec<String> = samples().into_iter().map(|(_, _, line)| line).collect();
    let between = vec![
        "\"",
        "'",
        "`",
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\x0b",
        ":",
        "=",
        ":=",
        "=>",
        "==",
        "!==",
        ",",
        "]",
        ": &'static str = ",
        ": String = ",
        "_",
        "-",
        "_key",
        "_production",
        "s",
        "[",
        "https",
        "postgres",
        "user",
        "@",
        "/",
        "@h",
        ".",
        "b\"",
        "export ",
        "# x",
        "${",
        "eyJ",
        ".eyJ",
        "AA",
        "<",
        "\\",
    ];
    let random = prop::collection::vec(prop::sample::select(b"abcXYZ0123456789kQz+/_-".to_vec()), 1..70);
    prop_oneof![
        3 => (prop::sample::select(keywords), 0u8..3).prop_map(|(keyword, case)| match case {
            0 => keyword.as_bytes().to_vec(),
            1 => keyword.to_ascii_uppercase().into_bytes(),
            _ => [&keyword.as_bytes()[..1].to_ascii_uppercase(), &keyword.as_bytes()[1..]].concat(),
        }),
        6 => prop::sample::select(between).prop_map(|text| text.as_bytes().to_vec()),
        4 => random,
        1 => prop::sample::select(lines).prop_map(String::into_bytes),
        // A secret that is cut: the middle of a sample.
        1 => (prop::sample::select(samples()), 0usize..40, 0usize..40).prop_map(|((_, _, line), from, to)| {
            let line = line.into_bytes();
            line[from.min(line.len())..line.len().saturating_sub(to).max(from.min(line.len()))].to_vec()
        }),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        // Longer than a test behind a keyword looks, and than a pattern does.
        1 => (prop::sample::select(b" \tx0\n".to_vec()), prop::sample::select(vec![20usize, 60, 200, 1000, 1030, 4080, 4100]))
            .prop_map(|(byte, times)| vec![byte; times]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn what_comes_before_the_patterns_loses_nothing(
        pieces in prop::collection::vec(piece(), 0..40),
        path in prop::sample::select(vec![".env", "a.js", "x/deploy.yaml"]),
    ) {
        static DETECTOR: LazyLock<Detector> = LazyLock::new(Detector::default);
        let bytes = pieces.concat();
        prop_assert_eq!(by_detector(&DETECTOR, path.as_bytes(), &bytes), plainly(path.as_bytes(), &bytes));
    }
}

/// A value that ends where its pattern stops looking is found though it is longer than any may be.
#[test]
fn values_at_the_end_of_what_a_pattern_sees_are_found_as_they_were() {
    let detector = Detector::default();
    for spaces in 3800..4100 {
        let text = format!("token{}= {}\n", " ".repeat(spaces), word(300));
        assert_eq!(by_detector(&detector, b".env", text.as_bytes()), plainly(b".env", text.as_bytes()), "{spaces}");
    }
}

#[test]
fn every_sample_is_found_as_it_was_behind_and_before_any_other() {
    let detector = Detector::default();
    for (_, path, line) in samples() {
        for (_, _, other) in samples() {
            let text = format!("{other}\n{line} {other}");
            assert_eq!(
                by_detector(&detector, path.as_bytes(), text.as_bytes()),
                plainly(path.as_bytes(), text.as_bytes()),
                "{text}"
            );
        }
    }
}
