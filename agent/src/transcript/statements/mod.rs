//! Statements: sentences of a conversation that count when the conversation itself is gone. What the user asks for and forbids, what was
//! settled, what did not work, and numbers such as ports.
//!
//! A user's sentences are kept, those without a cue (`cues`) as long as there is room; of the model's only those with cues. Nothing is
//! rephrased. Of what commands print, the lines that name a port are kept.

mod cues;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub use cues::Cue;

use super::{
    json::{clipped, end_of},
    limits::{
        PORTS_MAX, STATEMENT_BYTES_MAX, STATEMENTS_OF_AGENT_MAX, STATEMENTS_OF_AGENT_TOLD, STATEMENTS_OF_ONE_TEXT_MAX,
        STATEMENTS_OF_USER_MAX, STATEMENTS_OF_USER_TOLD,
    },
    prose::sentences,
};
use crate::environment::redact;

/// Bytes of a text's beginning, and of its end, that are looked at: what is pasted is longer.
const LOOKED_BYTES_MAX: usize = 8 << 10;
/// Lines of an output that are looked at.
const LINES_MAX: usize = 400;
/// Longest heading of a configuration, in bytes.
const HEADING_BYTES_MAX: usize = 60;
/// A sentence of the user without a cue has so many words at least, and one of the model so much weight.
const WORDS_MIN: usize = 3;
const WEIGHT_OF_AGENT_MIN: u8 = 3;

/// The maker of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The user, in a prompt.
    #[default]
    User,
    /// The model.
    Agent,
    /// A command, in what it printed.
    Tool,
}

/// A sentence, or a line that a command printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statement {
    /// Its maker.
    pub by: Speaker,
    /// The sentence, or its beginning, without credentials.
    pub text: String,
    /// The number of the prompt, from 1, to whose turn it belongs.
    pub turn: u64,
    /// Signs that it counts.
    pub cues: Vec<Cue>,
    /// Offset of the record in the transcript, in bytes.
    pub at: u64,
}

impl Statement {
    /// The sum of what its cues weigh.
    pub fn weight(&self) -> u8 {
        self.cues.iter().map(|cue| cue.weight()).sum()
    }

    /// Its rank among others where not all have room: much weight in few words comes first.
    pub fn rank(&self) -> u64 {
        let weight = u64::from(self.weight());
        weight * weight * 10_000 / (100 + self.text.len() as u64)
    }
}

/// The statements of a conversation, as far as they are kept, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statements {
    by_user: VecDeque<Statement>,
    by_agent: VecDeque<Statement>,
    ports: VecDeque<(u16, Statement)>,
}

impl Statements {
    /// The statements of one speaker, oldest first.
    pub fn by(&self, speaker: Speaker) -> Vec<&Statement> {
        match speaker {
            Speaker::User => self.by_user.iter().collect(),
            Speaker::Agent => self.by_agent.iter().collect(),
            Speaker::Tool => self.ports.iter().map(|(_, statement)| statement).collect(),
        }
    }

    /// Those that a summary has: of the user and of the model the weightiest, the newer first among equals, and the ports; each in the order
    /// in which they were made.
    pub fn told(&self) -> Vec<Statement> {
        let lists = [(&self.by_user, STATEMENTS_OF_USER_TOLD), (&self.by_agent, STATEMENTS_OF_AGENT_TOLD)];
        let mut told = Vec::new();
        for (list, max) in lists {
            let mut ranked: Vec<(usize, &Statement)> = list.iter().enumerate().collect();
            ranked.sort_by_key(|(place, statement)| std::cmp::Reverse((statement.rank(), *place)));
            ranked.truncate(max);
            ranked.sort_by_key(|(place, _)| *place);
            told.extend(ranked.into_iter().map(|(_, statement)| statement.clone()));
        }
        told.extend(self.ports.iter().map(|(_, statement)| statement.clone()));
        told
    }

    /// Takes in a prompt.
    pub(super) fn prompted(&mut self, text: &str, turn: u64, at: u64) {
        let is_kept = |text: &str, weight: u8| weight > 0 || text.split_whitespace().count() >= WORDS_MIN;
        for (text, cues) in chosen(text, is_kept) {
            push(&mut self.by_user, Statement { by: Speaker::User, text, turn, cues, at }, STATEMENTS_OF_USER_MAX);
        }
    }

    /// Takes in a text of the model.
    pub(super) fn replied(&mut self, text: &str, turn: u64, at: u64) {
        for (text, cues) in chosen(text, |_, weight| weight >= WEIGHT_OF_AGENT_MIN) {
            push(&mut self.by_agent, Statement { by: Speaker::Agent, text, turn, cues, at }, STATEMENTS_OF_AGENT_MAX);
        }
    }

    /// Takes in a command line and what it printed.
    pub(super) fn printed(&mut self, line: &str, output: &str, turn: u64, at: u64) {
        let mut above = Headings::default();
        let lines = std::iter::once(line).chain(clipped(output, LOOKED_BYTES_MAX).lines().take(LINES_MAX));
        for line in lines {
            let line = clipped(line, 4 * STATEMENT_BYTES_MAX);
            let Some(port) = cues::port(line) else {
                above.passed(line);
                continue;
            };
            // The first line says what a port is for as well as a later one, and a search that shows it again makes no other of it.
            if !self.ports.iter().any(|(known, _)| *known == port) {
                if self.ports.len() == PORTS_MAX {
                    self.ports.pop_front();
                }
                let text = kept(&above.with(line));
                self.ports.push_back((port, Statement { by: Speaker::Tool, text, turn, cues: vec![Cue::Setting], at }));
            }
        }
    }

    /// Forgets what was said from this place of the transcript on: the user has withdrawn the prompt.
    pub(super) fn withdraw(&mut self, from: u64) {
        self.by_user.retain(|statement| statement.at < from);
        self.by_agent.retain(|statement| statement.at < from);
        self.ports.retain(|(_, statement)| statement.at < from);
    }
}

/// Headings that lines of a configuration stand below: `[name]`, and `name:` that is less indented.
#[derive(Default)]
struct Headings<'a>(Vec<(usize, &'a str)>);

impl<'a> Headings<'a> {
    /// A line that is none of those that are kept.
    fn passed(&mut self, line: &'a str) {
        let heading = line.split(" #").next().unwrap_or_default().trim();
        let is_table = heading.starts_with('[') && heading.ends_with(']');
        if heading.len() <= HEADING_BYTES_MAX && (is_table || heading.ends_with(':')) {
            let indent = indent(line);
            self.0.retain(|(known, _)| *known < indent);
            self.0.push((indent, heading));
        }
    }

    /// A line with the headings above it.
    fn with(&self, line: &str) -> String {
        let indent = indent(line);
        let headings = self.0.iter().filter(|(known, heading)| *known < indent || heading.starts_with('['));
        headings.map(|(_, heading)| *heading).chain([line.trim()]).collect::<Vec<_>>().join(" ")
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Sentences of a text that are kept, each with its cues, in their order: of too many the weightiest.
fn chosen(text: &str, is_kept: impl Fn(&str, u8) -> bool) -> Vec<(String, Vec<Cue>)> {
    let mut found = sentences(clipped(text, LOOKED_BYTES_MAX));
    if text.len() > LOOKED_BYTES_MAX {
        found.extend(sentences(end_of(text, LOOKED_BYTES_MAX.min(text.len() - LOOKED_BYTES_MAX))));
    }
    let weighed = found.into_iter().map(|sentence| {
        let cues = cues::cues(&sentence);
        (cues.iter().map(|cue| cue.weight()).sum::<u8>(), sentence, cues)
    });
    let mut chosen: Vec<_> = weighed.filter(|(weight, sentence, _)| is_kept(sentence, *weight)).enumerate().collect();
    chosen.sort_by_key(|(place, (weight, ..))| (std::cmp::Reverse(*weight), *place));
    chosen.truncate(STATEMENTS_OF_ONE_TEXT_MAX);
    chosen.sort_by_key(|(place, _)| *place);
    chosen.into_iter().map(|(_, (_, sentence, cues))| (kept(&sentence), cues)).collect()
}

/// A sentence as it is kept: in one line, without credentials, cut where it is long.
fn kept(text: &str) -> String {
    let line = clipped(text, 4 * STATEMENT_BYTES_MAX).split_whitespace().collect::<Vec<_>>().join(" ");
    let line = redact::prose(&line);
    let cut = clipped(&line, STATEMENT_BYTES_MAX);
    if cut.len() < line.len() { format!("{}...", cut.trim_end()) } else { line }
}

/// Appends to a list. Where it is full, the oldest of those that weigh least goes.
fn push(list: &mut VecDeque<Statement>, statement: Statement, max: usize) {
    // What is said again counts where it was said last.
    list.retain(|known| known.text != statement.text);
    if list.len() >= max {
        let least = list.iter().enumerate().min_by_key(|(place, known)| (known.rank(), *place)).map(|(place, _)| place);
        least.map(|place| list.remove(place));
    }
    list.push_back(statement);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(statements: &Statements, speaker: Speaker) -> Vec<&str> {
        statements.by(speaker).into_iter().map(|statement| statement.text.as_str()).collect()
    }

    #[test]
    fn users_are_kept_and_models_where_it_matters() {
        let mut said = Statements::default();
        said.prompted("ok. Look at the parser first\nplease, and don't touch src/ffi.", 1, 0);
        said.replied("I read it. The stub now listens on port 7313, see `stub.py`. All good here.", 1, 10);
        said.printed("python3 stub.py", "import 3\nlistening on 127.0.0.1:7313\nagain 127.0.0.1:7313", 1, 20);
        assert_eq!(texts(&said, Speaker::User), ["Look at the parser first please, and don't touch src/ffi."]);
        assert_eq!(texts(&said, Speaker::Agent), ["The stub now listens on port 7313, see `stub.py`."]);
        assert_eq!(texts(&said, Speaker::Tool), ["listening on 127.0.0.1:7313"]);
        said.printed("cat a.toml", "[web]\nx = 1\n[stub] # mine\nlisten = \"127.0.0.1:5377\"", 1, 20);
        said.printed("cat b.yml", "services:\n  db:\n    image: x\n  echo:\n    ports:\n      - \"8931:8931\"", 1, 20);
        let of_files = ["[stub] listen = \"127.0.0.1:5377\"", "services: echo: ports: - \"8931:8931\""];
        assert_eq!(texts(&said, Speaker::Tool)[1..], of_files);
        said.withdraw(10);
        assert_eq!((said.by(Speaker::User).len(), said.by(Speaker::Agent).len(), said.by(Speaker::Tool).len()), (1, 0, 0));
    }

    #[test]
    fn where_there_is_no_room_what_weighs_least_goes() {
        let mut said = Statements::default();
        said.prompted("never touch src/ffi", 1, 0);
        for n in 0..2 * STATEMENTS_OF_USER_MAX as u64 {
            said.prompted(&format!("and this is sentence {n} of them"), n + 2, n + 1);
        }
        let kept = texts(&said, Speaker::User);
        assert_eq!((kept.len(), kept[0]), (STATEMENTS_OF_USER_MAX, "never touch src/ffi"));
        said.prompted(&"do not do this. ".repeat(100_000), 9, 9);
        assert!(texts(&said, Speaker::User).iter().filter(|text| text.contains("do this")).count() <= STATEMENTS_OF_ONE_TEXT_MAX);
    }

    #[test]
    fn a_statement_has_no_credentials() {
        let mut said = Statements::default();
        said.prompted(&format!("use the token Authorization: Bearer abcdefghijklmnop1234567890 {}", "long ".repeat(400)), 1, 0);
        let kept = texts(&said, Speaker::User)[0];
        assert!(!kept.contains("abcdefghij") && kept.len() <= STATEMENT_BYTES_MAX + 3, "{kept}");
    }
}
