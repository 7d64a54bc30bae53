//! Invented text: words, sentences, identifiers and lines of code from a seeded generator.

use crate::rng::Rng;

const ONSETS: &[&str] = &[
    "b", "br", "c", "cl", "d", "dr", "f", "fl", "g", "gr", "h", "k", "l", "m", "n", "p", "pl", "qu", "r", "s", "sh", "sp", "st",
    "t", "tr", "v", "w", "z",
];
const NUCLEI: &[&str] = &["a", "e", "i", "o", "u", "ai", "ea", "io", "ou"];
const CODAS: &[&str] = &["", "n", "r", "l", "s", "t", "nd", "rk", "st", "m"];
const INDENTS: &[&str] = &["", "    ", "        ", "            "];

/// A vocabulary and what can be said with it.
#[derive(Debug, Clone)]
pub struct Text {
    words: Vec<String>,
    /// Source of the words.
    pub rng: Rng,
}

impl Text {
    /// A vocabulary of `words` invented words.
    pub fn new(seed: u64, words: usize) -> Self {
        let mut rng = Rng::new(seed);
        let words = (0..words).map(|_| invent(&mut rng)).collect();
        Self { words, rng }
    }

    /// One word; the first of the vocabulary come far more often than the last.
    pub fn word(&mut self) -> &str {
        let rank = self.rng.skewed(self.words.len());
        &self.words[rank]
    }

    /// A sentence of prose.
    pub fn sentence(&mut self, out: &mut String) {
        let words = self.rng.between(5, 16);
        for i in 0..words {
            if i > 0 {
                out.push(' ');
            }
            let word = self.word();
            out.push_str(word);
        }
        out.push_str(". ");
    }

    /// A name as code has them: two or three words joined by underscores.
    pub fn identifier(&mut self, out: &mut String) {
        let words = self.rng.between(1, 3);
        for i in 0..words {
            if i > 0 {
                out.push('_');
            }
            let word = self.word();
            out.push_str(word);
        }
    }

    /// A path of a source file.
    pub fn path(&mut self, out: &mut String) {
        for _ in 0..self.rng.between(1, 3) {
            let word = self.word();
            out.push_str(word);
            out.push('/');
        }
        self.identifier(out);
        out.push_str([".rs", ".py", ".ts", ".md"][self.rng.below(4)]);
    }

    /// A line that looks like code, with its line feed.
    pub fn code_line(&mut self, out: &mut String) {
        out.push_str(INDENTS[self.rng.below(INDENTS.len())]);
        match self.rng.below(6) {
            0 => {
                out.push_str("let ");
                self.identifier(out);
                out.push_str(" = self.");
                self.identifier(out);
                out.push('(');
                self.identifier(out);
                out.push_str(")?;");
            }
            1 => {
                out.push_str("if ");
                self.identifier(out);
                out.push_str(".is_empty() {");
            }
            2 => {
                out.push_str("// ");
                self.sentence(out);
            }
            3 => out.push('}'),
            4 => {
                out.push_str("return ");
                self.identifier(out);
                out.push('[');
                out.push_str(&self.rng.below(5000).to_string());
                out.push_str("];");
            }
            _ => {
                self.identifier(out);
                out.push_str(".push(\"");
                let word = self.word();
                out.push_str(word);
                out.push_str("\");");
            }
        }
        out.push('\n');
    }

    /// `digits` hexadecimal digits of noise.
    pub fn hex(&mut self, digits: usize, out: &mut String) {
        for _ in 0..digits {
            let digit = self.rng.below(16) as u32;
            out.push(char::from_digit(digit, 16).unwrap_or('0'));
        }
    }

    /// A random (version 4) UUID.
    pub fn uuid(&mut self) -> String {
        let mut out = String::with_capacity(36);
        self.hex(8, &mut out);
        out.push('-');
        self.hex(4, &mut out);
        out.push_str("-4");
        self.hex(3, &mut out);
        out.push_str("-a");
        self.hex(3, &mut out);
        out.push('-');
        self.hex(12, &mut out);
        out
    }
}

fn invent(rng: &mut Rng) -> String {
    let mut word = String::new();
    for _ in 0..rng.between(1, 3) {
        word.push_str(ONSETS[rng.below(ONSETS.len())]);
        word.push_str(NUCLEI[rng.below(NUCLEI.len())]);
        word.push_str(CODAS[rng.below(CODAS.len())]);
    }
    word
}
