//! Standard output: text for people, or JSON Lines for programs.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use parhelia_store::name;
use parhelia_wire::{Line, Summary};
use serde::Serialize;

use crate::{
    exit::{Failure, Result},
    layout::{Table, wrapped},
    pager::Pager,
};

/// Output for a verb's results.
#[derive(Debug)]
pub struct Output {
    out: BufWriter<Sink>,
    /// True to print JSON Lines.
    pub json: bool,
    quiet: bool,
    colours: bool,
    terminal: bool,
    /// The verb's deeds so far, each "checkpoint X is made", that were not told on standard error.
    deeds: Vec<String>,
    /// The reason why the report of a deed could not be written.
    unreported: Option<String>,
}

/// The place to which results go in the end.
#[derive(Debug)]
enum Sink {
    Stdout(Stdout),
    Pager(Pager),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Stdout(out) => out.write(bytes),
            Sink::Pager(pager) => pager.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stdout(out) => out.flush(),
            Sink::Pager(pager) => pager.flush(),
        }
    }
}

/// The style of a piece of text.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// Headings.
    Bold,
    /// Unimportant text.
    Dim,
    /// Additions, and things that are fine.
    Green,
    /// Removals, and things that are broken.
    Red,
    /// Changes, and things that need a look.
    Yellow,
    /// Names of folders, and marks in a diff.
    Cyan,
}

impl Output {
    /// Results of this process.
    pub fn new(json: bool, quiet: bool) -> Self {
        let out = BufWriter::with_capacity(64 << 10, Sink::Stdout(io::stdout()));
        let terminal = io::stdout().is_terminal();
        let colours = !json && terminal && colours_wanted();
        Output { out, json, quiet, colours, terminal, deeds: Vec::new(), unreported: None }
    }

    /// Notes what the verb has done, as "checkpoint X is made". From here on no write fails: where the report cannot be written, what was done
    /// is told on standard error, the verb goes on to its end, and [`Output::finish`] says so.
    pub fn did(&mut self, deed: impl Into<String>) {
        self.deeds.push(deed.into());
        self.tell_deeds();
    }

    fn tell_deeds(&mut self) {
        if let Some(why) = &self.unreported {
            self.deeds.drain(..).for_each(|deed| tell!("parhelia: {deed}, but {why}"));
        }
    }

    /// Shows what is printed from here on in a pager, where it goes to a terminal and there is one.
    pub fn page(&mut self) -> Result<()> {
        if self.json || !self.terminal {
            return Ok(());
        }
        self.flush()?;
        if let Some(pager) = Pager::start() {
            *self.out.get_mut() = Sink::Pager(pager);
        }
        Ok(())
    }

    /// The width of the terminal that the output goes to.
    fn width(&self) -> Option<usize> {
        self.terminal
            .then(terminal_size::terminal_size)
            .flatten()
            .map(|(width, _)| usize::from(width.0))
            .filter(|width| *width > 0)
    }

    /// Prints a table with a heading. On a terminal, it is no wider than that: columns are dropped, and the widest ones cut.
    pub fn table(&mut self, table: &Table<'_>) -> Result<()> {
        for (i, line) in table.lines(self.width()).iter().enumerate() {
            let line = if i == 0 { self.styled(Style::Bold, line) } else { line.clone() };
            self.line(line)?;
        }
        Ok(())
    }

    /// Prints a line of text; on a terminal, a longer one goes on in further lines, which are indented.
    pub fn paragraph(&mut self, text: impl AsRef<str>, indent: usize) -> Result<()> {
        match self.width() {
            None => self.line(text),
            Some(width) => wrapped(text.as_ref(), width, indent).split('\n').try_for_each(|line| self.line(line)),
        }
    }

    /// Prints labels and what stands behind each.
    pub fn facts<'a>(&mut self, facts: impl IntoIterator<Item = (&'a str, String)>, label_columns: usize) -> Result<()> {
        for (label, value) in facts {
            let label = self.styled(Style::Bold, format!("{label:<label_columns$}"));
            self.paragraph(format!("{label}{value}"), label_columns)?;
        }
        Ok(())
    }

    /// Prints a line of text, with what steers a terminal escaped. Nothing under `--json`.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        if self.json {
            return Ok(());
        }
        let text = if self.colours { printable_styled(text.as_ref()).into() } else { name::printable(text.as_ref()) };
        let written = writeln!(self.out, "{text}");
        self.unless_done(written)
    }

    /// Prints what a verb has to say of itself: nothing under `--quiet`.
    pub fn remark(&mut self, text: impl AsRef<str>) -> Result<()> {
        if self.quiet { Ok(()) } else { self.line(text) }
    }

    /// Prints an object as a line. Only under `--json`.
    pub fn object(&mut self, line: Line) -> Result<()> {
        if !self.json {
            return Ok(());
        }
        let text = self::line(&line).map_err(Failure::Output)?;
        let written = self.out.write_all(&text);
        self.unless_done(written)
    }

    /// Prints the last object. Only under `--json`.
    pub fn summary(&mut self, summary: Summary) -> Result<()> {
        self.object(summary.into())
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.out.write_all(bytes);
        self.unless_done(written)
    }

    /// The stream itself, for what writes to it in pieces.
    pub fn stream(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// Sees to it that everything was written.
    pub fn flush(&mut self) -> Result<()> {
        let written = self.out.flush();
        self.unless_done(written)
    }

    /// Writes what is left. False where the report of something that was done could not be written.
    pub fn finish(&mut self) -> Result<bool> {
        let flushed = self.flush();
        if let Sink::Pager(pager) = self.out.get_mut() {
            pager.wait();
        }
        flushed.map(|()| self.unreported.is_none())
    }

    /// A write that fails is the verb's failure, unless the verb has done something before.
    fn unless_done(&mut self, written: io::Result<()>) -> Result<()> {
        match written {
            Err(source) if self.deeds.is_empty() && self.unreported.is_none() => Err(Failure::Output(source)),
            // Nobody listens any more, which is the reader's right.
            Err(source) if source.kind() != io::ErrorKind::BrokenPipe && self.unreported.is_none() => {
                self.unreported = Some(Failure::Output(source).to_string());
                self.tell_deeds();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// True if the output goes to a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// True if colours are wanted.
    pub fn has_colours(&self) -> bool {
        self.colours
    }

    /// The text, made to stand out where that is wanted.
    pub fn styled(&self, style: Style, text: impl std::fmt::Display) -> String {
        if !self.colours {
            return text.to_string();
        }
        format!("{}{text}{PLAIN}", style.code())
    }
}

/// An object as a line of JSON. Characters that steer a terminal or hide in a text are escaped, as JSON allows for any.
pub fn line(object: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_string(object)?;
    let is_hidden = |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let mut line = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match is_hidden(c) {
            true => line.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => line.push(c),
        }
    }
    line.push('\n');
    Ok(line.into_bytes())
}

/// The code that ends a [`Style`].
const PLAIN: &str = "\x1b[0m";

impl Style {
    const ALL: [Style; 6] = [Style::Bold, Style::Dim, Style::Green, Style::Red, Style::Yellow, Style::Cyan];

    /// The code that switches it on.
    fn code(self) -> &'static str {
        match self {
            Style::Bold => "\x1b[1m",
            Style::Dim => "\x1b[2m",
            Style::Green => "\x1b[32m",
            Style::Red => "\x1b[31m",
            Style::Yellow => "\x1b[33m",
            Style::Cyan => "\x1b[36m",
        }
    }
}

/// As [`name::printable`], but for the codes of [`Output::styled`].
fn printable_styled(text: &str) -> String {
    let codes = || Style::ALL.into_iter().map(Style::code).chain([PLAIN]);
    let mut pieces = text.split('\x1b');
    let mut out = name::printable(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        let code = codes().find(|code| piece.starts_with(&code[1..]));
        out.push_str(code.unwrap_or("\\x1b"));
        out.push_str(&name::printable(&piece[code.map_or(0, |code| code.len() - 1)..]));
    }
    out
}

/// Prints a line on standard error, with what steers a terminal escaped. That nobody reads it, as behind a terminal that is gone, is no
/// reason to stop what is under way.
pub fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{}", name::printable(text));
}

/// Checks whether the environment allows colours: `NO_COLOR` forbids them, and a dumb terminal has none.
fn colours_wanted() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_our_styles_and_no_other_escape() {
        let styled = format!("{}a\u{202e}b{PLAIN} \x1b]0;title\x07 \x1b[2J", Style::Red.code());
        assert_eq!(printable_styled(&styled), "\x1b[31ma\\xe2\\x80\\xaeb\x1b[0m \\x1b]0;title\\x07 \\x1b[2J");
    }
}
