//! Lines of text in a pane: wrapped to its width, scrolled, and searched.

use std::ops::Range;

use parhelia_store::name;
use unicode_width::UnicodeWidthChar;

/// Columns of a tab.
const TAB: &str = "    ";

/// The meaning of a line, which says how it stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// Of little weight, such as what a tool printed.
    Dim,
    /// The heading of a part.
    Heading,
    /// A line that only the newer file has.
    Added,
    /// A line that only the older file has.
    Removed,
    /// The place of a part of a diff.
    Hunk,
    /// Words of the user.
    Prompt,
    /// A call of a tool.
    Call,
    /// Something that failed.
    Bad,
    /// A question that nobody answered.
    Question,
}

/// The meaning of a piece of source code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// Nothing special.
    #[default]
    Plain,
    /// A comment in code.
    Comment,
    /// A string.
    Literal,
    /// A number or another constant.
    Constant,
    /// A keyword or an operator that is a word.
    Keyword,
    /// A name that is defined, a type, a function.
    Name,
}

/// A line of text as a pane has it, before it is wrapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The mark before it, of one character; empty for none.
    pub sign: &'static str,
    /// Its meaning.
    pub tone: Tone,
    /// The text. Nothing in it steers a terminal.
    pub text: String,
    /// Ends of its coloured pieces, in bytes; empty where it has not been coloured.
    pub colours: Vec<(usize, Colour)>,
}

impl Line {
    /// A line of a text that somebody else wrote: with what steers a terminal escaped, and tabs as blanks.
    pub fn new(sign: &'static str, tone: Tone, text: &str) -> Self {
        Line { sign, tone, text: one_line(text), colours: Vec::new() }
    }
}

/// A text in one line, with everything escaped that steers a terminal, and tabs as blanks.
pub fn one_line(text: &str) -> String {
    let text = name::printable(text);
    match text.contains(['\t', '\n']) {
        true => text.replace('\t', TAB).replace('\n', " "),
        false => text.into_owned(),
    }
}

/// A piece of a line that fits the pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number of the line in the text, from 0.
    pub line: usize,
    /// Bytes of the line's text that the row has.
    pub bytes: Range<usize>,
}

/// A movement in a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// By so many rows, down if positive.
    By(isize),
    /// To the beginning.
    Top,
    /// To the end.
    Bottom,
}

impl Move {
    /// The place that it leads to.
    pub fn from(self, place: usize, last: usize) -> usize {
        match self {
            Move::By(rows) => place.saturating_add_signed(rows).min(last),
            Move::Top => 0,
            Move::Bottom => last,
        }
    }
}

/// A word that is searched for. Capital letters count only where it has any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    text: String,
    ignores_case: bool,
}

impl Query {
    /// Of what was typed.
    pub fn new(text: &str) -> Self {
        Query { text: text.to_owned(), ignores_case: !text.chars().any(char::is_uppercase) }
    }

    /// The word.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks whether a text has it.
    pub fn is_in(&self, text: &str) -> bool {
        match self.ignores_case {
            true => text.to_lowercase().contains(&self.text),
            false => text.contains(&self.text),
        }
    }

    /// The next of `count` places behind `from` that matches, going round at the end; true with it if it went round.
    pub fn next(&self, from: usize, count: usize, forward: bool, is_match: impl Fn(usize) -> bool) -> Option<(usize, bool)> {
        let step = |n: usize| if forward { (from + n) % count } else { (from + count - n % count) % count };
        let found = (1..=count).map(step).find(|place| is_match(*place))?;
        Some((found, if forward { found <= from } else { found >= from }))
    }
}

/// Lines of text in a pane.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// Lines of the text, unwrapped.
    pub lines: Vec<Line>,
    /// The line that was found last.
    pub found: Option<usize>,
    rows: Vec<Row>,
    width: usize,
    height: usize,
    top: usize,
    breaks_between_words: bool,
}

impl Text {
    /// Of lines, each of which is broken at blanks if `breaks_between_words`.
    pub fn new(lines: Vec<Line>, breaks_between_words: bool) -> Self {
        Text { lines, breaks_between_words, ..Text::default() }
    }

    /// Other lines in the same pane, from their beginning.
    pub fn replace(&mut self, lines: Vec<Line>) {
        let (width, height) = (self.width, self.height);
        *self = Text::new(lines, self.breaks_between_words);
        self.lay(width, height);
    }

    /// Fits it into a pane of so many columns and rows. The line at the top stays there.
    pub fn lay(&mut self, width: usize, height: usize) {
        self.height = height;
        if self.width != width && width > 0 {
            let line = self.rows.get(self.top).map_or(0, |row| row.line);
            self.width = width;
            self.rows.clear();
            for (number, line) in self.lines.iter().enumerate() {
                let is_prose = self.breaks_between_words || matches!(line.tone, Tone::Dim | Tone::Bad);
                wrap(&line.text, width, is_prose, |bytes| self.rows.push(Row { line: number, bytes }));
            }
            self.top = self.rows.partition_point(|row| row.line < line);
        }
        self.top = self.top.min(self.last_top());
    }

    fn last_top(&self) -> usize {
        self.rows.len().saturating_sub(self.height)
    }

    /// Scrolls.
    pub fn go(&mut self, to: Move) {
        self.top = to.from(self.top, self.last_top());
    }

    /// The rows that the pane shows.
    pub fn shown(&self) -> &[Row] {
        &self.rows[self.top.min(self.rows.len())..(self.top + self.height).min(self.rows.len())]
    }

    /// The rows above the pane, and all of them.
    pub fn place(&self) -> (usize, usize) {
        (self.top, self.rows.len())
    }

    /// Goes to the next line that has a word. None if no line has it; true if it went round.
    pub fn search(&mut self, query: &Query, forward: bool) -> Option<bool> {
        let at_top = self.rows.get(self.top).map_or(0, |row| row.line);
        let shown = |line: &usize| self.shown().iter().any(|row| row.line == *line);
        // Without an earlier match in sight, one at the top counts as well.
        let before = if forward { at_top.checked_sub(1).unwrap_or(self.lines.len().saturating_sub(1)) } else { at_top };
        let earlier = self.found.filter(shown);
        let from = earlier.unwrap_or(before);
        let (found, is_round) = query.next(from, self.lines.len(), forward, |line| query.is_in(&self.lines[line].text))?;
        self.found = Some(found);
        let row = self.rows.partition_point(|row| row.line < found);
        if row < self.top || row >= self.top + self.height {
            self.top = row.saturating_sub(self.height / 3).min(self.last_top());
        }
        Some(match earlier {
            Some(_) => is_round,
            None if forward => found < at_top,
            None => found > at_top,
        })
    }
}

/// Columns of a character. A selector of an emoji's look may make the one before it wider; too many columns hide nothing.
fn columns(c: char) -> usize {
    if c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(0) }
}

/// Columns of a text.
pub fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// Cuts a text into pieces of at most so many columns; an empty one is one empty piece.
pub fn wrap(text: &str, width: usize, between_words: bool, mut each: impl FnMut(Range<usize>)) {
    let (mut start, mut column, mut blank) = (0, 0, None);
    for (at, c) in text.char_indices() {
        let wide = columns(c);
        if column + wide > width && at > start {
            let end = blank.filter(|_| between_words && c != ' ').unwrap_or(at);
            each(start..end);
            column = self::width(&text[end..at]);
            (start, blank) = (end, None);
        }
        column += wide;
        if c == ' ' {
            blank = Some(at + 1);
        }
    }
    each(start..text.len());
}

/// The end of a text that fits so many columns, with a mark where something is missing before it.
pub fn cut_left(text: &str, width: usize) -> String {
    if self::width(text) <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut start = text.len();
    for (at, c) in text.char_indices().rev() {
        match left.checked_sub(columns(c)) {
            Some(rest) => (left, start) = (rest, at),
            None => break,
        }
    }
    format!("…{}", &text[start..])
}

/// The beginning of a text that fits so many columns, with a mark where something is missing behind it.
pub fn cut(text: &str, width: usize) -> String {
    if self::width(text) <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut end = 0;
    for (at, c) in text.char_indices() {
        match left.checked_sub(columns(c)) {
            Some(rest) => (left, end) = (rest, at + c.len_utf8()),
            None => break,
        }
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, width: usize, between_words: bool) -> Vec<&str> {
        let mut found = Vec::new();
        wrap(text, width, between_words, |bytes| found.push(&text[bytes]));
        found
    }

    #[test]
    fn lines_are_wrapped_by_columns_and_nothing_is_lost() {
        assert_eq!(pieces("", 4, false), [""]);
        assert_eq!(pieces("abcdefghi", 4, false), ["abcd", "efgh", "i"]);
        assert_eq!(pieces("漢字漢字", 5, false), ["漢字", "漢字"]);
        assert_eq!(pieces("one two three", 8, true), ["one two ", "three"]);
        assert_eq!(pieces("abcdefghij k", 4, true), ["abcd", "efgh", "ij k"]);
        for width in 1..9 {
            let text = "漢 a❤️b\u{301} long-word x";
            assert_eq!(pieces(text, width, true).concat(), text);
        }
    }

    #[test]
    fn texts_are_cut_to_columns() {
        assert_eq!((cut("abcdef", 4).as_str(), cut_left("abcdef", 4).as_str()), ("abc…", "…def"));
        assert_eq!((cut("漢字漢字", 4).as_str(), cut_left("漢字漢字", 4).as_str()), ("漢…", "…字"));
        assert_eq!(cut("abcd", 4), "abcd");
    }

    fn text(count: usize) -> Text {
        let lines = (0..count).map(|n| Line::new("", Tone::Plain, &format!("line {n}"))).collect();
        let mut text = Text::new(lines, false);
        text.lay(20, 10);
        text
    }

    #[test]
    fn scrolling_stays_within_the_text() {
        let mut text = text(25);
        text.go(Move::By(-3));
        assert_eq!(text.place(), (0, 25));
        text.go(Move::By(4));
        assert_eq!(text.shown()[0].line, 4);
        text.go(Move::Bottom);
        assert_eq!((text.shown()[0].line, text.shown().len()), (15, 10));
        text.lay(20, 30);
        assert_eq!(text.place().0, 0);
    }

    #[test]
    fn the_line_at_the_top_stays_there_when_the_width_changes() {
        let mut text = text(50);
        text.go(Move::By(20));
        text.lay(3, 10);
        assert_eq!(text.shown()[0].line, 20);
        text.lay(40, 10);
        assert_eq!(text.shown()[0].line, 20);
    }

    #[test]
    fn a_search_goes_round_and_says_so() {
        let mut text = text(50);
        let query = Query::new("LINE 4");
        assert_eq!(text.search(&query, true), None);
        let query = Query::new("line 4");
        assert_eq!((text.search(&query, true), text.found), (Some(false), Some(4)));
        assert_eq!((text.search(&query, true), text.found), (Some(false), Some(40)));
        assert!(text.shown().iter().any(|row| row.line == 40));
        assert_eq!((text.search(&query, false), text.found), (Some(false), Some(4)));
        assert_eq!((text.search(&query, false), text.found), (Some(true), Some(49)));
        assert_eq!((text.search(&query, true), text.found), (Some(true), Some(4)));
    }

    #[test]
    fn nothing_of_a_line_steers_a_terminal() {
        let line = Line::new("", Tone::Plain, "\x1b[2Ja\tb\u{202e}c\r");
        assert_eq!(line.text, "\\x1b[2Ja    b\\xe2\\x80\\xaec\\x0d");
    }
}
