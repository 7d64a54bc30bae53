//! The words of an agent's command line.

use std::ffi::OsString;

/// A way around the agent's permission checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// All checks are off.
    On,
    /// The user may turn them off.
    Offered,
}

/// The words that a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// The flag stands by itself.
    Nothing,
    /// The next word.
    One,
    /// The next word, unless that is a flag.
    Optional,
    /// All words up to the next flag.
    Many,
    /// It is in no table: the next word, unless that is a flag, or reads like a prompt.
    Unknown,
}

/// A piece of a command line: a flag with its words, or words by themselves.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// A flag, with the words that belong to it.
    Flag {
        /// As it is written.
        name: String,
        /// The words that it takes.
        words: Vec<OsString>,
        /// True if its word stands behind a `=`.
        is_joined: bool,
    },
    /// `--`: all words behind it are prompt.
    End,
    /// A prompt.
    Word(OsString),
}

impl Piece {
    /// Appends the piece to a command line, as it was written.
    pub fn write(&self, argv: &mut Vec<OsString>) {
        match self {
            Piece::Flag { name, words, is_joined: true } => {
                let mut joined = OsString::from(format!("{name}="));
                words.iter().for_each(|word| joined.push(word));
                argv.push(joined);
            }
            Piece::Flag { name, words, .. } => {
                argv.push(name.into());
                argv.extend(words.iter().cloned());
            }
            Piece::End => argv.push("--".into()),
            Piece::Word(word) => argv.push(word.clone()),
        }
    }
}

/// True of a word that is a flag.
pub(crate) fn is_flag(word: &OsString) -> bool {
    word.to_string_lossy().starts_with('-')
}

/// The words behind an agent's program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words(pub Vec<Piece>);

impl Words {
    /// The words of the first of these flags that stands there.
    pub fn flag(&self, names: &[&str]) -> Option<&[OsString]> {
        self.0.iter().find_map(|piece| match piece {
            Piece::Flag { name, words, .. } if names.contains(&name.as_str()) => Some(words.as_slice()),
            _ => None,
        })
    }

    /// True if one of these flags stands there.
    pub fn has(&self, names: &[&str]) -> bool {
        self.flag(names).is_some()
    }

    /// The value of the first of these flags that stands there.
    pub fn value(&self, names: &[&str]) -> Option<String> {
        self.flag(names)?.first().map(|word| word.to_string_lossy().into_owned())
    }

    /// The words that belong to no flag, in order.
    pub fn plain(&self) -> impl Iterator<Item = &OsString> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Word(word) => Some(word),
            Piece::Flag { .. } | Piece::End => None,
        })
    }

    /// The first word that belongs to no flag, if no `--` stands before it.
    pub fn command(&self) -> Option<&OsString> {
        self.0.iter().take_while(|piece| !matches!(piece, Piece::End)).find_map(|piece| match piece {
            Piece::Word(word) => Some(word),
            _ => None,
        })
    }
}

/// The way in which a conversation is resumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resume {
    /// The conversation to go on with; without one a new conversation begins.
    pub conversation: Option<String>,
    /// The id of a new conversation, where one begins.
    pub new_conversation: Option<String>,
    /// The permission mode in which it was last; the recorded one may have been changed since the launch.
    pub permission_mode: Option<String>,
    /// The first prompt. A headless agent needs one.
    pub prompt: Option<String>,
    /// Prompts that the agent has had: a word that was one is not given again.
    pub earlier_prompts: Vec<String>,
    /// Arguments that bring hooks.
    pub hooks: Vec<OsString>,
    /// True if the agent answers that prompt and ends ([`Agent::resume_argv`](crate::command::Agent::resume_argv) sees to it).
    pub is_headless: bool,
}
