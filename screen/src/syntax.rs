//! Colours of source code. They are found for the lines that are looked at, from the beginning of their part of the diff.

use std::sync::OnceLock;

use parhelia_store::name;
use syntect::{
    highlighting::{Color, HighlightIterator, HighlightState, Highlighter, StyleModifier, Theme, ThemeItem, ThemeSettings},
    parsing::{ParseState, ScopeStack, SyntaxReference, SyntaxSet},
};

use crate::text::{Colour, Line, Tone};

/// Longer lines have no colours: no person wrote them.
const LINE_BYTES_MAX: usize = 500;
/// Lines of one part of a diff that have colours.
const PART_LINES_MAX: usize = 2000;

/// Scopes of syntaxes, and the colour of each.
const SCOPES: [(&str, Colour); 6] = [
    ("comment", Colour::Comment),
    ("string", Colour::Literal),
    ("constant, support.constant", Colour::Constant),
    ("keyword, storage.modifier, storage.type, variable.language", Colour::Keyword),
    ("entity.name, support.type, support.function, support.class", Colour::Name),
    ("punctuation.definition.comment", Colour::Comment),
];

/// Extensions of languages that are coloured as another one.
const ALIKE: [(&str, &str); 9] = [
    ("ts", "js"),
    ("tsx", "js"),
    ("jsx", "js"),
    ("mjs", "js"),
    ("cjs", "js"),
    ("mts", "js"),
    ("jsonl", "json"),
    ("pyi", "py"),
    ("zsh", "sh"),
];

/// Syntaxes, and a theme of the terminal's own colours.
struct Assets {
    syntaxes: SyntaxSet,
    theme: Theme,
}

static LOADED: OnceLock<Assets> = OnceLock::new();

/// Loads the syntaxes, which takes some milliseconds.
pub fn load() {
    LOADED.get_or_init(|| Assets { syntaxes: SyntaxSet::load_defaults_newlines(), theme: theme() });
}

/// A theme whose colours stand for [`Colour`].
fn theme() -> Theme {
    let colour = |colour: Colour| Color { r: colour as u8, g: 0, b: 0, a: 0 };
    let items = SCOPES.iter().filter_map(|(scopes, meaning)| {
        let style = StyleModifier { foreground: Some(colour(*meaning)), ..StyleModifier::default() };
        Some(ThemeItem { scope: scopes.parse().ok()?, style })
    });
    let settings = ThemeSettings { foreground: Some(colour(Colour::Plain)), ..ThemeSettings::default() };
    Theme { scopes: items.collect(), settings, ..Theme::default() }
}

fn meaning(colour: Color) -> Colour {
    let all = [Colour::Comment, Colour::Literal, Colour::Constant, Colour::Keyword, Colour::Name];
    all.into_iter().find(|one| *one as u8 == colour.r).unwrap_or_default()
}

/// The syntax of a file by its name; none where it is not known, or nothing is loaded yet.
fn syntax_of(path: &[u8]) -> Option<(&'static Assets, &'static SyntaxReference)> {
    let loaded = LOADED.get()?;
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let extension = String::from_utf8_lossy(name::extension(file)).to_lowercase();
    let extension = ALIKE.iter().find(|(other, _)| *other == extension).map_or(extension.as_str(), |(_, like)| like);
    let file = String::from_utf8_lossy(file);
    let found = loaded.syntaxes.find_syntax_by_extension(&file);
    let found = found.or_else(|| loaded.syntaxes.find_syntax_by_extension(extension).filter(|_| !extension.is_empty()))?;
    Some((loaded, found))
}

/// Colours of a diff's lines, found as far as they are looked at.
#[derive(Debug, Default)]
pub struct Colours {
    path: Vec<u8>,
    /// The part that is under way: its first line, and the line up to which it has colours.
    part: Option<(usize, usize, Sides)>,
}

/// The state on both sides of a part: lines of the older file, and of the newer one.
#[derive(Debug)]
struct Sides {
    old: Side,
    new: Side,
}

#[derive(Clone, Debug)]
struct Side {
    parse: ParseState,
    highlight: HighlightState,
}

impl Side {
    fn new(loaded: &Assets, syntax: &SyntaxReference) -> Self {
        let highlight = HighlightState::new(&Highlighter::new(&loaded.theme), ScopeStack::new());
        Side { parse: ParseState::new(syntax), highlight }
    }

    /// The colours of the next line. None where it cannot be parsed.
    fn line(&mut self, loaded: &Assets, text: &str) -> Vec<(usize, Colour)> {
        let text = format!("{text}\n");
        let Ok(steps) = self.parse.parse_line(&text, &loaded.syntaxes) else { return Vec::new() };
        let highlighter = Highlighter::new(&loaded.theme);
        let mut end = 0;
        let pieces = HighlightIterator::new(&mut self.highlight, &steps, &text, &highlighter).map(|(style, piece)| {
            end += piece.len();
            (end.min(text.len() - 1), meaning(style.foreground))
        });
        pieces.collect()
    }
}

impl Colours {
    /// Of the diff of a file.
    pub fn of(path: &[u8]) -> Self {
        Colours { path: path.to_owned(), part: None }
    }

    /// Colours the lines up to one of them, from the beginning of its part.
    pub fn reach(&mut self, lines: &mut [Line], wanted: usize) {
        let wanted = wanted.min(lines.len().saturating_sub(1));
        let Some((loaded, syntax)) = syntax_of(&self.path) else { return };
        let Some(start) = lines.get(..=wanted).and_then(|before| before.iter().rposition(|line| line.tone == Tone::Hunk)) else {
            return;
        };
        let begin = || (start, start + 1, Sides { old: Side::new(loaded, syntax), new: Side::new(loaded, syntax) });
        let mut part = self.part.take().filter(|(first, ..)| *first == start).unwrap_or_else(begin);
        while part.1 <= wanted && part.1 - start <= PART_LINES_MAX {
            let line = &mut lines[part.1];
            part.1 += 1;
            if line.text.len() > LINE_BYTES_MAX {
                continue;
            }
            line.colours = match line.tone {
                Tone::Removed => part.2.old.line(loaded, &line.text),
                Tone::Added => part.2.new.line(loaded, &line.text),
                Tone::Plain => {
                    let colours = part.2.new.line(loaded, &line.text);
                    // Both files have it, and mostly stand alike.
                    part.2.old = part.2.new.clone();
                    colours
                }
                _ => Vec::new(),
            };
        }
        self.part = Some(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coloured(path: &str, lines: &[(Tone, &str)]) -> Vec<Line> {
        load();
        let mut lines: Vec<Line> = lines.iter().map(|(tone, text)| Line::new("", *tone, text)).collect();
        let last = lines.len();
        Colours::of(path.as_bytes()).reach(&mut lines, last);
        lines
    }

    fn colour_of(line: &Line, word: &str) -> Colour {
        let at = line.text.find(word).unwrap();
        line.colours.iter().find(|(end, _)| *end > at).map_or(Colour::Plain, |(_, colour)| *colour)
    }

    #[test]
    fn code_has_the_colours_of_its_language() {
        let lines =
            coloured("a/b.rs", &[(Tone::Hunk, "@@"), (Tone::Added, "let x = \"word\"; // note"), (Tone::Plain, "fn main() {}")]);
        assert_eq!(colour_of(&lines[1], "let"), Colour::Keyword);
        assert_eq!(colour_of(&lines[1], "word"), Colour::Literal);
        assert_eq!(colour_of(&lines[1], "note"), Colour::Comment);
        assert_eq!(colour_of(&lines[2], "main"), Colour::Name);
    }

    #[test]
    fn a_comment_that_only_one_side_opens_colours_that_side_alone() {
        let lines = [(Tone::Hunk, "@@"), (Tone::Removed, "/* open"), (Tone::Added, "let a = 1;"), (Tone::Removed, "let b = 1;")];
        let lines = coloured("x.rs", &lines);
        assert_eq!((colour_of(&lines[2], "let"), colour_of(&lines[3], "let")), (Colour::Keyword, Colour::Comment));
    }

    #[test]
    fn unknown_files_and_long_lines_have_none() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        assert!(coloured("a.unknown", &[(Tone::Hunk, "@@"), (Tone::Added, "let")])[1].colours.is_empty());
        assert!(coloured("a.rs", &[(Tone::Hunk, "@@"), (Tone::Added, &long)])[1].colours.is_empty());
        assert!(!coloured("Makefile", &[(Tone::Hunk, "@@"), (Tone::Added, "# note")])[1].colours.is_empty());
        assert!(!coloured("a.ts", &[(Tone::Hunk, "@@"), (Tone::Added, "var a = 1")])[1].colours.is_empty());
    }
}
