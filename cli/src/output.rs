//! Standard output: text for people, or JSON Lines for programs.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde_json::{Map, Value};

use crate::exit::{Failure, Result};

/// Where a verb's results go.
#[derive(Debug)]
pub struct Output {
    out: BufWriter<Stdout>,
    /// Whether to print JSON Lines.
    pub json: bool,
    quiet: bool,
    colours: bool,
}

/// How a piece of text stands out.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// Headings.
    Bold,
    /// What matters less.
    Dim,
    /// What was added, or is fine.
    Green,
    /// What was removed, or is broken.
    Red,
    /// What was changed, or needs a look.
    Yellow,
    /// Names of folders, and marks in a diff.
    Cyan,
}

impl Output {
    /// Results of this process.
    pub fn new(json: bool, quiet: bool) -> Self {
        let out = BufWriter::with_capacity(64 << 10, io::stdout());
        let colours = !json && io::stdout().is_terminal() && colours_wanted();
        Output { out, json, quiet, colours }
    }

    /// Prints a line of text. Nothing under `--json`.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(self.out, "{}", text.as_ref()).map_err(Failure::Output)
    }

    /// Prints what a verb has to say of itself: nothing under `--quiet`.
    pub fn remark(&mut self, text: impl AsRef<str>) -> Result<()> {
        if self.quiet { Ok(()) } else { self.line(text) }
    }

    /// Prints an object of type `kind` as a line. Only under `--json`.
    pub fn object(&mut self, kind: &str, fields: Value) -> Result<()> {
        if !self.json {
            return Ok(());
        }
        let mut object = Map::from_iter([("type".to_owned(), Value::from(kind))]);
        if let Value::Object(fields) = fields {
            object.extend(fields);
        }
        writeln!(self.out, "{}", Value::Object(object)).map_err(Failure::Output)
    }

    /// Prints the last object. Only under `--json`.
    pub fn summary(&mut self, fields: Value) -> Result<()> {
        self.object("summary", fields)
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(Failure::Output)
    }

    /// The stream itself, for what writes to it in pieces.
    pub fn stream(&mut self) -> &mut dyn Write {
        &mut self.out
    }

    /// Sees to it that everything was written.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(Failure::Output)
    }

    /// Forgets what could not be written.
    pub fn give_up(&mut self) {
        let unwritten = std::mem::replace(&mut self.out, BufWriter::with_capacity(0, io::stdout()));
        let _ = unwritten.into_parts();
    }

    /// Whether colours are wanted.
    pub fn has_colours(&self) -> bool {
        self.colours
    }

    /// The text, made to stand out where that is wanted.
    pub fn styled(&self, style: Style, text: impl std::fmt::Display) -> String {
        if !self.colours {
            return text.to_string();
        }
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Green => "32",
            Style::Red => "31",
            Style::Yellow => "33",
            Style::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Whether the environment lets us use colours: `NO_COLOR` forbids them, and a dumb terminal has none.
fn colours_wanted() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}
