//! Words by which a sentence is known to matter later. English; paths, code and numbers count in every language.

use serde::{Deserialize, Serialize};

/// A sign that a sentence counts later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cue {
    /// It asks for something, or forbids it.
    Rule,
    /// It says what was settled.
    Choice,
    /// It says what did not work.
    Failure,
    /// It names a setting, such as a port.
    Setting,
    /// It has a number.
    Number,
    /// It names code, a file or a path.
    Name,
    /// A cue that this release does not know.
    #[serde(other)]
    Unknown,
}

impl Cue {
    /// Weight of the cue, 0 to 2; the weights of a sentence are added up.
    pub(super) fn weight(self) -> u8 {
        match self {
            Cue::Rule | Cue::Choice | Cue::Failure | Cue::Setting => 2,
            Cue::Number | Cue::Name => 1,
            Cue::Unknown => 0,
        }
    }
}

/// Words that ask for something or forbid it.
const RULES: &[&str] = &[
    "dont",
    "do not",
    "never",
    "must",
    "mustnt",
    "leave",
    "hands off",
    "keep",
    "stay out",
    "stay away",
    "avoid",
    "off limits",
    "only",
    "always",
    "not to",
    "should not",
    "shouldnt",
    "touch",
    "touching",
    "untouched",
    "as is",
    "as it is",
    "frozen",
    "generated",
    "read only",
    "vendored",
    "belongs to",
    "owned by",
    "owns",
    "careful",
    "make sure",
    "need to",
    "needs to",
    "has to",
    "have to",
    "required",
    "forbidden",
    "not allowed",
    "cant",
    "cannot",
    "no changes",
    "not change",
    "not edit",
    "without",
    "except",
    "exempt",
    "ignore",
    "hard no",
    "no way",
    "under no circumstances",
    "mind you",
    "remember",
    "note that",
    "important",
];
/// Words that settle something.
const CHOICES: &[&str] = &[
    "decided",
    "decision",
    "decide",
    "go with",
    "going with",
    "went with",
    "goes with",
    "well use",
    "lets use",
    "use",
    "instead",
    "rather",
    "prefer",
    "preferred",
    "settle",
    "settled",
    "settles",
    "stick with",
    "stick to",
    "sticking",
    "switch to",
    "switched to",
    "agreed",
    "agree",
    "chose",
    "choose",
    "chosen",
    "picked",
    "pick",
    "plan is",
    "we want",
    "i want",
    "over the",
    "opt for",
    "drop",
    "final",
    "convinced",
    "do it as",
    "do it by",
    "do it with",
    "the way to go",
    "not a",
    "not an",
    "not the",
];
/// Words that say that something did not work.
const FAILURES: &[&str] = &[
    "tried",
    "try",
    "attempt",
    "attempted",
    "fails",
    "failed",
    "fail",
    "failing",
    "failure",
    "not work",
    "didnt work",
    "doesnt work",
    "doesnt",
    "didnt",
    "wont",
    "wouldnt",
    "broke",
    "breaks",
    "broken",
    "hang",
    "hangs",
    "hung",
    "deadlock",
    "deadlocks",
    "deadlocked",
    "crash",
    "crashes",
    "crashed",
    "panics",
    "panicked",
    "regressed",
    "regression",
    "slower",
    "useless",
    "no luck",
    "dead end",
    "wrong",
    "rejected",
    "reverted",
    "revert",
    "backed out",
    "rolled back",
    "undo",
    "undid",
    "timed out",
    "times out",
    "leak",
    "leaks",
    "leaked",
    "flaky",
    "blew",
    "blows",
    "bug",
    "error",
    "because",
    "corrupted",
    "twice",
    "worse",
    "gave up",
    "threw away",
    "undone",
];
/// Names of settings that the work needs.
const SETTINGS: &[&str] =
    &["port", "ports", "localhost", "listen", "listens", "listening", "bind", "binds", "timeout", "limit", "version"];

/// Words of a sentence, as lists of cues have them.
struct Words(String);

impl Words {
    fn of(sentence: &str) -> Self {
        let mut words = String::with_capacity(sentence.len() + 2);
        words.push(' ');
        for c in sentence.chars() {
            match c {
                '\'' | '’' => {}
                c if c.is_alphanumeric() => words.extend(c.to_lowercase()),
                _ if !words.ends_with(' ') => words.push(' '),
                _ => {}
            }
        }
        if !words.ends_with(' ') {
            words.push(' ');
        }
        Words(words)
    }

    fn has(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| {
            let found = self.0.match_indices(phrase).map(|(at, _)| (at, at + phrase.len()));
            let bytes = self.0.as_bytes();
            found.into_iter().any(|(start, end)| bytes.get(start.wrapping_sub(1)) == Some(&b' ') && bytes.get(end) == Some(&b' '))
        })
    }

    /// True for a number of at least two digits.
    fn has_number(&self) -> bool {
        self.0.split(' ').any(|word| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

/// The cues of a sentence.
pub(super) fn cues(sentence: &str) -> Vec<Cue> {
    let words = Words::of(sentence);
    let is = [
        (Cue::Rule, words.has(RULES)),
        (Cue::Choice, words.has(CHOICES)),
        (Cue::Failure, words.has(FAILURES)),
        (Cue::Setting, words.has(SETTINGS)),
        (Cue::Number, words.has_number()),
        (Cue::Name, names_something(sentence)),
    ];
    is.into_iter().filter(|(_, is)| *is).map(|(cue, _)| cue).collect()
}

/// True where something stands between backticks, or a word looks like a path, a file or a name of code.
fn names_something(sentence: &str) -> bool {
    sentence.contains('`')
        || sentence.split_whitespace().any(|word| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            let is_inner = |sign: char| word.contains(sign);
            is_inner('/') && word.len() > 3 || is_inner('_') || word.contains("::") || has_ending(word)
        })
}

/// True for a word like `conn.rs`.
fn has_ending(word: &str) -> bool {
    word.rsplit_once('.').is_some_and(|(name, ending)| {
        !name.is_empty() && (1..=5).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_lowercase())
    })
}

/// The port that a line names: behind the address of this machine, or near the word.
pub(super) fn port(line: &str) -> Option<u16> {
    let lower = line.to_lowercase();
    let behind = |at: usize| -> Option<u16> {
        let digits: String = lower[at..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok().filter(|port| (2..=5).contains(&digits.len()) && *port > 9)
    };
    let of_host = HOSTS.iter().find_map(|host| lower.match_indices(host).find_map(|(at, _)| behind(at + host.len())));
    of_host.or_else(|| mapped(&lower)).or_else(|| {
        lower.match_indices("port").find_map(|(at, word)| {
            let is_word = lower[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
            let rest = &lower[at + word.len()..];
            let rest = rest.strip_prefix('s').unwrap_or(rest);
            let gap = rest.find(|c: char| c.is_ascii_digit()).filter(|gap| (1..=GAP_BYTES_MAX).contains(gap))?;
            let between = rest.get(..gap)?;
            let is_near = between.chars().filter(|c| c.is_alphanumeric()).count() <= GAP_LETTERS_MAX;
            (is_word && is_near && !between.contains('.')).then(|| behind(lower.len() - rest.len() + gap)).flatten()
        })
    })
}

/// The port of a line that maps one to another, like `8080:80`. Of two digits both may be a time.
fn mapped(line: &str) -> Option<u16> {
    let words = line.split(|c: char| !c.is_ascii_digit() && c != ':');
    let pairs = words.filter_map(|word| word.split_once(':'));
    let is_port = |digits: &str| (2..=5).contains(&digits.len()) && !digits.starts_with('0');
    let found = pairs.filter(|(from, to)| from.len() > 2 && is_port(from) && is_port(to)).find_map(|(from, _)| from.parse().ok());
    found.filter(|_| !line.contains("::"))
}

const HOSTS: [&str; 4] = ["localhost:", "127.0.0.1:", "0.0.0.0:", "[::1]:"];
/// A number is the port's if so little stands between the word and it.
const GAP_BYTES_MAX: usize = 12;
const GAP_LETTERS_MAX: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn weight_of(sentence: &str) -> u8 {
        cues(sentence).into_iter().map(Cue::weight).sum()
    }

    #[test]
    fn sentences_that_matter_weigh_more() {
        for (sentence, expected) in [
            ("thanks, looks good", 0),
            ("Don’t touch src/ffi", 3),
            ("we tried rayon there and it deadlocked", 2),
            ("go with rustls instead of openssl, openssl never links", 4),
            ("the stub listens on 7313", 3),
            ("Nothing is here", 0),
            ("look at conn.rs", 1),
            ("bitte nur `parse` ändern", 1),
        ] {
            assert_eq!(weight_of(sentence), expected, "{sentence}");
        }
    }

    #[test]
    fn ports_are_told_from_other_numbers() {
        for (line, expected) in [
            ("listening on http://127.0.0.1:8089/x", Some(8089)),
            ("PORT=7000", Some(7000)),
            ("  \"port\": 5433,", Some(5433)),
            ("the port is 7313 for now", Some(7313)),
            ("--port 81", Some(81)),
            ("ports 80 and 443", Some(80)),
            ("- 8080:80", Some(8080)),
            ("at 12:30:45", None),
            ("src/a.rs:120:17", None),
            ("import 20", None),
            ("port 99999", None),
            ("the port of the parser took 12 days", None),
            ("port. 20 files", None),
            ("port", None),
        ] {
            assert_eq!(port(line), expected, "{line}");
        }
    }
}
