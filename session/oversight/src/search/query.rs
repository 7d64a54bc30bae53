//! Queries as people type them, and as the engine takes them. Each word goes to the engine in quotes, so that nothing in it is syntax.

use std::str::FromStr;

use super::text;
use parhelia_host::Refusal;

/// The longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 4096;
/// The most words and phrases of a query.
pub const TERMS_MAX: usize = 100;

/// The words and phrases that a checkpoint has to have, all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    terms: Vec<Term>,
}

/// A word or a phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    text: String,
    /// True if its last word only has to begin so.
    is_prefix: bool,
}

impl FromStr for Query {
    type Err = Refusal;

    /// Words apart from each other, `"phrases in quotes"`, and beginnings of words as `word*`. A quote that is not closed goes on to the end.
    fn from_str(given: &str) -> Result<Self, Refusal> {
        if given.len() > QUERY_BYTES_MAX {
            return Err(Refusal::NoQuery { why: "it has more than 4096 bytes" });
        }
        let mut terms: Vec<Term> = Vec::new();
        for (i, piece) in given.split('"').enumerate() {
            // Behind an odd number of quotes.
            let is_phrase = i % 2 == 1;
            if is_phrase {
                terms.push(Term { text: piece.to_owned(), is_prefix: false });
                continue;
            }
            let rest = match terms.last_mut().filter(|_| i > 0 && piece.starts_with('*')) {
                Some(phrase) => {
                    phrase.is_prefix = true;
                    &piece[1..]
                }
                None => piece,
            };
            terms.extend(rest.split_whitespace().map(|word| Term { text: word.to_owned(), is_prefix: word.ends_with('*') }));
        }
        let mut distinct = Vec::new();
        for term in terms.into_iter().filter(|term| term.text.contains(char::is_alphanumeric)) {
            if !distinct.contains(&term) {
                distinct.push(term);
            }
        }
        match distinct.len() {
            0 => Err(Refusal::NoQuery { why: "it has no letter and no digit" }),
            1..=TERMS_MAX => Ok(Query { terms: distinct }),
            _ => Err(Refusal::NoQuery { why: "it has more than 100 words" }),
        }
    }
}

impl Query {
    /// The query in the engine's syntax.
    pub(super) fn engine(&self) -> String {
        let terms = self.terms.iter().map(|term| {
            let quoted = text::indexed(&term.text).replace('"', "\"\"");
            format!("\"{quoted}\"{}", if term.is_prefix { " *" } else { "" })
        });
        terms.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::search::index::{Index, IndexQuery};

    fn engine(given: &str) -> String {
        given.parse::<Query>().unwrap().engine()
    }

    #[test]
    fn words_phrases_and_prefixes_are_understood() {
        for (given, expected) in [
            ("parser bug", r#""parser" "bug""#),
            ("  parser\tparser ", r#""parser""#),
            ("\"lost the key\" now", r#""lost the key" "now""#),
            ("\"not closed", r#""not closed""#),
            ("pars*", r#""pars*" *"#),
            ("\"the pars\"* x", r#""the pars" * "x""#),
            ("a AND (b) NOT -c col:d", r#""a" "AND" "(b)" "NOT" "-c" "col:d""#),
            ("... foo ** \"\" '", r#""foo""#),
            ("日本", "\"日\u{200b}本\""),
        ] {
            assert_eq!(engine(given), expected, "{given}");
        }
    }

    #[test]
    fn a_query_without_words_is_refused() {
        let refused = |given: &str| given.parse::<Query>().unwrap_err().to_string();
        for given in ["", "  ", "\"", "\"\"\"", "*", "--- ()", "\x1b[", "🎉"] {
            assert!(refused(given).contains("no letter"), "{given:?}");
        }
        assert!(refused(&"x".repeat(QUERY_BYTES_MAX + 1)).contains("4096 bytes"));
        let words = |n: usize| (0..n).map(|i| format!("w{i} ")).collect::<String>();
        assert!(refused(&words(TERMS_MAX + 1)).contains("100 words"));
        assert!(words(TERMS_MAX).parse::<Query>().is_ok());
    }

    proptest! {
        #[test]
        fn no_query_makes_the_engine_fail(given in "[a-c\"*():^+{}\\-. \\x00\\x1bé日AND]{0,40}|\\PC{0,60}|(?s:.{0,60})") {
            if let Ok(query) = given.parse::<Query>() {
                let index = Index::in_memory().unwrap();
                let engine = query.engine();
                let asked = IndexQuery { query: &engine, session: None, since: None };
                prop_assert!(index.ranked(&asked).is_ok(), "{:?}", index.ranked(&asked));
                prop_assert!(index.matches(&engine, &[]).is_ok());
            }
        }
    }

    #[test]
    fn the_longest_queries_are_answered() {
        let index = Index::in_memory().unwrap();
        let long = [
            "a-".repeat(QUERY_BYTES_MAX / 2),
            "x".repeat(QUERY_BYTES_MAX),
            (0..TERMS_MAX).map(|i| format!("w{i}* ")).collect(),
            "日".repeat(QUERY_BYTES_MAX / 3),
        ];
        for given in long {
            let engine = engine(&given);
            let asked = IndexQuery { query: &engine, session: None, since: None };
            assert!(index.ranked(&asked).is_ok(), "{:?}", index.ranked(&asked));
        }
    }
}
