//! Markdown tables and numbers for people.

/// A table with its columns padded, so that it reads well as plain text too.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut text = line(&head, &widths);
    text.push_str(&line(&rule, &widths));
    for row in rows {
        text.push_str(&line(row, &widths));
    }
    text
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = String::from("|");
    for (cell, width) in cells.iter().zip(widths) {
        let padding = " ".repeat(width - cell.chars().count());
        text.push_str(&format!(" {cell}{padding} |"));
    }
    text.push('\n');
    text
}

/// The unit in which a number is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unit {
    /// A number of seconds, with two decimals.
    Seconds,
    /// Milliseconds, from milliseconds.
    Millis,
    /// A number of bytes, written in MiB.
    Mib,
    /// A number of bytes, written in KiB.
    Kib,
    /// Microseconds, from microseconds.
    Micros,
    /// A factor, as a number of times.
    Times,
    /// Hundredths, from a part of one.
    Percent,
    /// A number of things.
    Count,
}

impl Unit {
    /// A number with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Seconds => format!("{value:.2} s"),
            Self::Millis => format!("{value:.1} ms"),
            Self::Mib => format!("{:.1} MiB", value / 1048576.0),
            Self::Kib => format!("{:.1} KiB", value / 1024.0),
            Self::Micros => format!("{value:.1} µs"),
            Self::Count => thousands(value),
            Self::Times => format!("{value:.2} times"),
            Self::Percent => format!("{:.2} %", 100.0 * value),
        }
    }
}

/// A number if there is one, else a dash.
pub fn maybe(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// A count with its thousands set apart.
pub fn thousands(count: f64) -> String {
    let digits = format!("{count:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()]];
        let text = table(&["tool", "µs"], &rows);
        assert_eq!(text, "| tool | µs |\n| ---- | -- |\n| a    | 1  |\n");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(thousands(999.0), "999");
    }
}
