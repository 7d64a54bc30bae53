//! Texts as they are indexed, and as they are shown again.

use super::Piece;

/// Marks in an excerpt around what matches. They are no part of any indexed text.
pub const MARKS: (char, char) = ('\u{2}', '\u{3}');
/// Stands between two characters of a script that has no spaces between words, so that each is a word to the engine: parts of a sentence are
/// then found as phrases.
const BETWEEN: char = '\u{200b}';

/// A text as it is indexed: without control characters and colours, and with characters of scripts without spaces apart from each other.
pub fn indexed(text: &str) -> String {
    let mut indexed = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' && rest.next_if_eq(&'[').is_some() {
            // Up to the letter that ends it.
            while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
            rest.next_if(|c| matches!(c, '@'..='~'));
            continue;
        }
        let c = if c.is_control() && c != '\n' { ' ' } else { c };
        if before.is_some_and(has_no_spaces) && has_no_spaces(c) {
            indexed.push(BETWEEN);
        }
        indexed.push(c);
        before = Some(c);
    }
    indexed
}

/// True of Han, Kana and Hangul.
fn has_no_spaces(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// The pieces of an excerpt with [`MARKS`] in it, in one line; none where nothing is marked.
pub fn pieces(marked: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut is_match = false;
    let mut add = |c: char, is_match: bool| match pieces.last_mut() {
        Some(piece) if piece.is_match == is_match => piece.text.push(c),
        _ => pieces.push(Piece { text: c.into(), is_match }),
    };
    let mut was_space = true;
    for c in marked.chars() {
        match c {
            _ if c == MARKS.0 => is_match = true,
            _ if c == MARKS.1 => is_match = false,
            BETWEEN => {}
            _ if c.is_whitespace() => {
                if !was_space {
                    add(' ', is_match);
                }
                was_space = true;
            }
            _ => {
                add(c, is_match);
                was_space = false;
            }
        }
    }
    if !pieces.iter().any(|piece| piece.is_match) {
        return Vec::new();
    }
    if pieces.last_mut().is_some_and(|last| last.text.ends_with(' ') && last.text.pop().is_some() && last.text.is_empty()) {
        pieces.pop();
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_line_in_pieces() {
        let shown = |marked: &str| pieces(marked).into_iter().map(|p| (p.text, p.is_match)).collect::<Vec<_>>();
        let expected = [("a ".to_owned(), false), ("bug".to_owned(), true), (" in b".to_owned(), false)];
        assert_eq!(shown("\n a \n \u{2}bug\u{3}\tin\n\nb\n "), expected);
        assert!(shown("nothing is marked").is_empty());
        assert_eq!(shown(&format!("\u{2}{}\u{3}", indexed("日本"))), [("日本".to_owned(), true)]);
    }

    #[test]
    fn marks_and_what_steers_a_terminal_are_not_indexed() {
        assert_eq!(indexed("a\u{2}b\u{1b}[1;31mc\u{1b}[\nd\u{9b}\u{1b}]e"), "a bc\nd  ]e");
        assert_eq!(indexed("日本 go"), "日\u{200b}本 go");
    }
}
