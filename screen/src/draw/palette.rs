//! Colours, all of them the terminal's own sixteen; without them, signs and weights say the same.

use ratatui::style::{Color, Modifier, Style};

use crate::text::{Colour, Tone};

/// Styles with colours, or without.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    has_colours: bool,
}

impl Palette {
    /// With colours, if they are wanted.
    pub fn new(has_colours: bool) -> Self {
        Palette { has_colours }
    }

    fn colour(self, colour: Color) -> Style {
        if self.has_colours { Style::default().fg(colour) } else { Style::default() }
    }

    /// Of little weight.
    pub fn dim(self) -> Style {
        Style::default().add_modifier(Modifier::DIM)
    }

    /// Titles.
    pub fn heading(self) -> Style {
        Style::default().add_modifier(Modifier::BOLD)
    }

    /// Style of the selected entry: reversed.
    pub fn selected(self) -> Style {
        Style::default().add_modifier(Modifier::REVERSED)
    }

    /// A thing that somebody has to look at.
    pub fn waits(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// A thing that is fine, or was added.
    pub fn good(self) -> Style {
        self.colour(Color::Green)
    }

    /// A thing that failed, or was removed.
    pub fn bad(self) -> Style {
        self.colour(Color::Red)
    }

    /// Style of the letter that tells how a file changed: `A`, `D`, `M` and so on.
    pub fn letter(self, letter: char) -> Style {
        match letter {
            'A' => self.good(),
            'D' => self.bad(),
            'M' | 'T' => self.colour(Color::Yellow),
            'R' => self.colour(Color::Cyan),
            _ => self.dim(),
        }
    }

    /// The sign of a line. In a diff it has the diff's colour, and the text that of its syntax.
    pub fn sign(self, tone: Tone) -> Style {
        match (tone, self.has_colours) {
            (Tone::Added, true) => Style::default().fg(Color::Black).bg(Color::Green),
            (Tone::Removed, true) => Style::default().fg(Color::Black).bg(Color::Red),
            (Tone::Added | Tone::Removed, false) => self.heading(),
            _ => self.tone(tone),
        }
    }

    /// A line's text.
    pub fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::default(),
            Tone::Dim => self.dim(),
            Tone::Heading => self.heading(),
            Tone::Added => self.good(),
            Tone::Removed => self.bad(),
            Tone::Hunk | Tone::Call => self.colour(Color::Cyan),
            Tone::Prompt => self.colour(Color::Green).add_modifier(Modifier::BOLD),
            Tone::Bad => self.colour(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Question => self.waits(),
        }
    }

    /// A piece of code.
    pub fn code(self, colour: Colour) -> Style {
        match colour {
            Colour::Plain => Style::default(),
            Colour::Comment => self.dim(),
            Colour::Literal => self.colour(Color::Yellow),
            Colour::Constant => self.colour(Color::Cyan),
            Colour::Keyword => self.colour(Color::Magenta),
            Colour::Name => self.colour(Color::LightBlue),
        }
    }
}
