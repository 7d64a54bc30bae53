//! Tables and paragraphs that fit a terminal.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A column is cut to this width, and no further while others can be dropped.
const COLUMN_MIN: usize = 10;
/// The same of the first column: no id of a checkpoint is cut, and few of sessions.
const FIRST_MIN: usize = 36;
/// Space between two columns.
const GAP: usize = 2;

/// A table: rows of cells under a heading.
#[derive(Debug, Default)]
pub struct Table<'a> {
    /// The rows; the first one is the heading.
    pub rows: &'a [Vec<String>],
    /// Columns that are aligned to the right.
    pub right: &'a [usize],
    /// Headings of the columns that are dropped where the table is too wide, the least important first.
    pub dropped: &'a [&'a str],
}

impl Table<'_> {
    /// Lines of cells, each column as wide as its widest cell. Where they would be wider than `width`, columns are dropped, and the widest ones
    /// cut; the first one, which names what the line is about, is cut last.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| columns_of(cell)).max();
        let mut shown: Vec<(usize, usize)> = (0..columns).map(|column| (column, widest(column).unwrap_or(0))).collect();
        if let Some(width) = width {
            self.drop_columns(&mut shown, width);
            narrow(&mut shown, width);
        }
        self.rows.iter().map(|row| self.line(row, &shown)).collect()
    }

    /// Drops columns until the others fit when they are cut; first those without a cell.
    fn drop_columns(&self, shown: &mut Vec<(usize, usize)>, width: usize) {
        let total = |shown: &[(usize, usize)]| {
            let cut = shown.iter().enumerate().map(|(i, (_, wide))| (*wide).min(if i == 0 { FIRST_MIN } else { COLUMN_MIN }));
            cut.sum::<usize>() + GAP * shown.len().saturating_sub(1)
        };
        let heading = |column: usize| self.rows.first().and_then(|row| row.get(column)).map_or("", String::as_str);
        let is_empty = |column: usize| self.rows.iter().skip(1).all(|row| row.get(column).is_none_or(String::is_empty));
        if total(shown) > width {
            shown.retain(|(column, _)| *column == 0 || !is_empty(*column));
        }
        for name in self.dropped {
            if total(shown) > width {
                shown.retain(|(column, _)| *column == 0 || heading(*column) != *name);
            }
        }
    }

    fn line(&self, row: &[String], shown: &[(usize, usize)]) -> String {
        let mut line = String::new();
        for (i, (column, width)) in shown.iter().enumerate() {
            let cell = cut(row.get(*column).map_or("", String::as_str), *width);
            let fill = " ".repeat(width.saturating_sub(columns_of(&cell)));
            if i > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            match self.right.contains(column) {
                true => line.extend([&*fill, &*cell]),
                false => line.extend([&*cell, &*fill]),
            }
        }
        line.trim_end().to_owned()
    }
}

/// Cuts the widest columns until all fit; further than [`COLUMN_MIN`] and [`FIRST_MIN`] only where nothing else helps.
fn narrow(shown: &mut [(usize, usize)], width: usize) {
    let gaps = GAP * shown.len().saturating_sub(1);
    for (columns, least) in [(1..usize::MAX, COLUMN_MIN), (0..1, FIRST_MIN), (1..usize::MAX, 4), (0..usize::MAX, 1)] {
        while shown.iter().map(|(_, wide)| wide).sum::<usize>() + gaps > width {
            // The last of the widest, which is prose rather than a number.
            let widest = shown.iter_mut().enumerate().filter(|(i, (_, wide))| columns.contains(i) && *wide > least);
            let widest = widest.map(|(_, column)| column).max_by_key(|(_, wide)| *wide);
            match widest {
                Some((_, wide)) => *wide -= 1,
                None => break,
            }
        }
    }
}

/// The columns that a text takes: two for each character of East Asian scripts.
pub fn columns_of(text: &str) -> usize {
    text.width()
}

/// The beginning of a text, with a mark where it was cut.
fn cut(text: &str, columns_max: usize) -> Cow<'_, str> {
    if columns_of(text) <= columns_max {
        return text.into();
    }
    let mut left = columns_max.saturating_sub(1);
    let fits = |c: &char| {
        let has_room = c.width().unwrap_or(0) <= left;
        left = left.saturating_sub(c.width().unwrap_or(0));
        has_room
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{}…", kept.trim_end()).into()
}

/// A text in lines of at most `width` columns, all but the first one indented. Lines end at blanks, or in a word that is longer than a line.
/// Codes of styles take no column.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let indent = indent.min(width / 2);
    let (mut out, mut used) = (String::new(), 0);
    for (i, word) in text.split(' ').enumerate() {
        let long = visible(word);
        let gap = usize::from(i > 0);
        let has_room = used + gap + long <= width || used <= indent || indent + long > width;
        if i > 0 && (used + gap >= width || !has_room) {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = indent;
        } else if i > 0 {
            out.push(' ');
            used += 1;
        }
        used = put_word(&mut out, word, used, (width, indent));
    }
    out
}

/// Puts a word behind what `used` columns have; returns the columns that are used then.
fn put_word(out: &mut String, word: &str, mut used: usize, (width, indent): (usize, usize)) -> usize {
    let mut in_code = false;
    for c in word.chars() {
        in_code |= c == '\x1b';
        let wide = if in_code { 0 } else { c.width().unwrap_or(0) };
        if used + wide > width && used > indent {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = indent;
        }
        out.push(c);
        used += wide;
        in_code &= c != 'm';
    }
    used
}

/// The columns of a text with codes of styles.
fn visible(text: &str) -> usize {
    let mut pieces = text.split('\x1b');
    let plain = pieces.next().map_or(0, columns_of);
    plain + pieces.map(|piece| piece.split_once('m').map_or(0, |(_, rest)| columns_of(rest))).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: [&str; 3]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn a_table_is_cut_to_its_width_in_the_widest_columns() {
        let rows = [row(["ID", "N", "MESSAGE"]), row(["01KAN7R2", "12", "a long message that goes on"])];
        let line = |width| Table { rows: &rows, right: &[1], dropped: &["N"] }.lines(width).pop().unwrap_or_default();
        assert_eq!(line(None), "01KAN7R2  12  a long message that goes on");
        assert_eq!(line(Some(30)), "01KAN7R2  12  a long message…");
        assert_eq!(line(Some(21)), "01KAN7R2  a long mes…", "a number is dropped, not cut");
        assert_eq!(line(Some(14)), "01KAN7R2  a l…", "an id is not cut while something else can be");
        for width in 4..40 {
            assert!(columns_of(&line(Some(width))) <= width, "{width}");
        }
    }

    #[test]
    fn what_takes_two_columns_is_counted_as_two() {
        let rows = [row(["ID", "N", "PROMPT"]), row(["1", "2", "修复解析器的测试"]), row(["2", "3", "plain"])];
        let lines = Table { rows: &rows, right: &[], dropped: &[] }.lines(Some(14));
        assert_eq!(lines, ["ID  N  PROMPT", "1   2  修复解…", "2   3  plain"]);
        assert!(
            wrapped("修复解析器的测试 修复", 7, 2).lines().all(|line| line.width() <= 7),
            "{}",
            wrapped("修复解析器的测试 修复", 7, 2)
        );
    }

    #[test]
    fn columns_without_a_cell_are_dropped_first() {
        let rows = [row(["ID", "STATE", "MESSAGE"]), row(["01KAN7R2", "", "a message"])];
        let table = Table { rows: &rows, right: &[], dropped: &[] };
        assert_eq!(table.lines(Some(20)), ["ID        MESSAGE", "01KAN7R2  a message"]);
        assert_eq!(table.lines(None)[0], "ID        STATE  MESSAGE");
    }

    #[test]
    fn a_paragraph_is_as_wide_as_the_terminal() {
        assert_eq!(wrapped("  M one two", 80, 4), "  M one two");
        assert_eq!(wrapped("one two three", 9, 2), "one two\n  three");
        assert_eq!(wrapped("to /a/long/path: x", 10, 2), "to /a/long\n  /path: x");
        assert_eq!(wrapped("\x1b[1mone\x1b[0m two", 7, 2), "\x1b[1mone\x1b[0m two");
        for width in 2..30 {
            let text = wrapped("Last checkpoint of /somewhere/that/is/long: 01KAN7R2", width, 4);
            assert!(text.lines().all(|line| columns_of(line) <= width), "{width}: {text}");
        }
    }
}
