//! An answer as it is kept.

use super::super::quote::cleaned;
use crate::budget::tokens;

/// A longer answer is none, in bytes.
pub const BYTES_MAX: usize = 64 << 10;

/// An answer of at most so many tokens, without control characters but line breaks, and without what looks like a secret; none where it says
/// nothing.
pub fn kept(answer: &str, tokens_max: usize) -> Option<String> {
    let text = cleaned(answer);
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        // Empty lines part paragraphs, one at a time.
        if !line.is_empty() || lines.last().is_some_and(|last| !last.is_empty()) {
            lines.push(line);
        }
    }
    let text = cut(lines.join("\n").trim(), tokens_max);
    (!text.is_empty()).then_some(text)
}

/// The beginning of a text, of at most so many tokens.
pub fn cut(text: &str, tokens_max: usize) -> String {
    if tokens(text) <= tokens_max {
        return text.to_owned();
    }
    const MARK: &str = "...";
    let room = tokens_max.saturating_sub(tokens(MARK));
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    // A longer beginning never has fewer tokens.
    let fitting = ends.partition_point(|end| tokens(&text[..*end]) <= room);
    let end = fitting.checked_sub(1).and_then(|at| ends.get(at)).copied().unwrap_or(0);
    let (beginning, rest) = text.split_at(end);
    // No word is cut in two, as long as there are words.
    let is_whole = rest.starts_with(char::is_whitespace);
    let last_word = beginning.rfind(char::is_whitespace).filter(|_| !is_whole).unwrap_or(end);
    match beginning[..last_word].trim_end() {
        "" => String::new(),
        beginning => format!("{beginning}{MARK}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_answer_is_bounded_and_harmless() {
        let said = "\r\n# Done\r\n\r\n\r\n\u{1b}[31mred\u{202e} with ghp_0123456789abcdefghijklmnopqrstuvwxyz12 in it  \n";
        let text = kept(said, 800).unwrap();
        assert!(text.starts_with("# Done\n\n\\x1b[31mred") && text.ends_with("in it"), "{text}");
        assert!(!text.contains("ghp_") && !text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        assert_eq!(kept(" \n\t\n", 800), None);
        assert_eq!(kept("one two three four five six", 6).as_deref(), Some("one two..."));
    }

    proptest! {
        #[test]
        fn what_is_cut_fits(text in "\\PC{0,80}|[a-z \\n0-9]{0,200}", tokens_max in 0usize..60) {
            prop_assert!(tokens(&cut(&text, tokens_max)) <= tokens_max);
        }
    }
}
