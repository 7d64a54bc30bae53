//! Command lines of agents: the program, its flags and words, and the kind of agent that understands them.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::{
    error::Result,
    hooks::HookCommand,
    kind::{KINDS, Kind},
};

/// Words before an agent's program are looked at so far.
const LAUNCHERS_MAX: usize = 8;

/// Shells, and other programs that start the program that their arguments name.
const STARTERS: &[&str] = &[
    "sh",
    "bash",
    "dash",
    "zsh",
    "fish",
    "ksh",
    "busybox",
    "sudo",
    "doas",
    "su",
    "env",
    "timeout",
    "nice",
    "xargs",
    "script",
    "watch",
    "time",
    "strace",
    "ssh",
    "tmux",
    "screen",
    "docker",
    "podman",
    "bwrap",
    "firejail",
    "unshare",
    "nsenter",
    "chroot",
    "systemd-run",
    "direnv",
    "mise",
    "nix",
    "xvfb-run",
];

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
    /// Nothing.
    Nothing,
    /// The next word.
    One,
    /// The next word, unless that is a flag.
    Optional,
    /// All words up to the next flag.
    Many,
}

/// A piece of a command line: a flag with its words, or words by themselves.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// A flag.
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
    /// Writes it again.
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

/// Takes the agent's words apart. Everything behind `--` is prompt.
fn pieces(words: &[OsString], kind: Kind) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        let text = word.to_string_lossy();
        if text == "--" {
            out.push(Piece::End);
            out.extend(rest.iter().cloned().map(Piece::Word));
            break;
        }
        if !text.starts_with('-') || text.len() < 2 {
            out.push(Piece::Word(word.clone()));
            continue;
        }
        if let Some((name, value)) = text.split_once('=').filter(|_| text.starts_with("--")) {
            out.push(Piece::Flag { name: name.to_owned(), words: vec![value.into()], is_joined: true });
            continue;
        }
        let name = match kind.joins_letters() && !text.starts_with("--") {
            true => letters(&text, &mut out),
            false => Some(text.into_owned()),
        };
        let Some(name) = name else { continue };
        let values = match kind.takes(&name) {
            Takes::Nothing => 0,
            Takes::One => rest.len().min(1),
            Takes::Optional => rest.iter().take(1).take_while(|word| !is_flag(word)).count(),
            Takes::Many => rest.iter().take_while(|word| !is_flag(word)).count(),
        };
        let (values, behind) = rest.split_at(values);
        out.push(Piece::Flag { name, words: values.to_vec(), is_joined: false });
        rest = behind;
    }
    out
}

/// Takes a word with flags of one letter apart, as yargs does: a value stands behind `=`, is a number, or begins with what is no letter.
/// Returns the last flag, where its value is not in the word.
fn letters(word: &str, out: &mut Vec<Piece>) -> Option<String> {
    let mut rest = word.trim_start_matches('-').chars();
    while let Some(letter) = rest.next() {
        let (name, behind) = (format!("-{letter}"), rest.as_str());
        let Some(next) = behind.chars().next() else { return Some(name) };
        let value = match next {
            '=' => Some(&behind[1..]),
            _ if letter.is_ascii_alphabetic() && behind.parse::<f64>().is_ok_and(f64::is_finite) => Some(behind),
            next if !next.is_ascii_alphanumeric() && next != '_' => Some(behind),
            _ => None,
        };
        let words: Vec<OsString> = value.into_iter().map(OsString::from).collect();
        let is_joined = value.is_some();
        out.push(Piece::Flag { name, words, is_joined });
        if is_joined {
            return None;
        }
    }
    None
}

fn is_flag(word: &OsString) -> bool {
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

    /// The first word, if no flag stands before it.
    pub fn command(&self) -> Option<&OsString> {
        match self.0.first() {
            Some(Piece::Word(word)) => Some(word),
            _ => None,
        }
    }
}

/// A command line of an agent, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    kind: Kind,
    program: Vec<OsString>,
    words: Words,
    at_terminal: bool,
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
    /// Arguments that bring hooks.
    pub hooks: Vec<OsString>,
    /// True if the agent answers that prompt and ends ([`Agent::resume_argv`] sees to it).
    pub is_headless: bool,
}

fn name_of(word: &OsStr) -> String {
    Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The kind of agent that a word of a command line starts.
fn kind_of(word: &OsStr) -> Option<Kind> {
    KINDS.into_iter().find(|kind| kind.is_program(word))
}

impl Agent {
    /// Understands a command line: an agent's program by its name, directly or behind `env`, `npx` and the like. `None` for any other
    /// program, and for an agent's own management commands.
    pub fn of(argv: &[OsString]) -> Option<Self> {
        let (at, kind) = argv.iter().take(LAUNCHERS_MAX).enumerate().find_map(|(at, word)| Some((at, kind_of(word)?)))?;
        // A limit or a priority stands between these and what they start.
        let takes_more = argv.first().is_some_and(|word| matches!(&*name_of(word), "timeout" | "nice" | "ionice" | "stdbuf"));
        let is_launcher = |word: &OsString| {
            let name = name_of(word);
            takes_more && name.starts_with(|c: char| c == '-' || c.is_ascii_digit())
                || matches!(&*name, "timeout" | "ionice" | "stdbuf" | "setsid" | "env" | "npx" | "nice" | "bunx" | "pnpm" | "dlx")
                || matches!(&*name, "exec" | "node" | "nohup" | "-y" | "--yes")
                || name.contains('=')
        };
        if !argv[..at].iter().all(is_launcher) {
            return None;
        }
        let words = Words(pieces(&argv[at + 1..], kind));
        kind.is_conversing(&words).then(|| Agent { kind, program: argv[..=at].to_vec(), words, at_terminal: true })
    }

    /// The same agent, its input and output a terminal or not. A command line by itself is taken for one at a terminal.
    #[must_use]
    pub fn at_terminal(self, at_terminal: bool) -> Self {
        Agent { at_terminal, ..self }
    }

    /// True unless it was said to be at no terminal.
    pub fn is_at_terminal(&self) -> bool {
        self.at_terminal
    }

    /// True if a command line that starts no agent itself may start one, as `bash -c claude` does: the conversation is not known by it. Of a
    /// program that is not known to start others, the value of a flag starts nothing.
    pub fn is_wrapped(argv: &[OsString]) -> bool {
        let Some(program) = argv.first().filter(|_| Agent::of(argv).is_none()) else { return false };
        if STARTERS.contains(&&*name_of(program)) {
            let starts = |word: &OsString| word.to_string_lossy().split_whitespace().any(|part| kind_of(part.as_ref()).is_some());
            return argv.iter().any(starts);
        }
        let is_value = |before: &OsString| is_flag(before) && before != "--";
        argv.windows(2).any(|pair| !is_value(&pair[0]) && kind_of(&pair[1]).is_some())
    }

    /// The kind of the agent.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// True if it answers one prompt, printing to standard output.
    pub fn is_headless(&self) -> bool {
        self.kind.is_headless(&self.words, self.at_terminal)
    }

    /// True if the conversation is kept on disk.
    pub fn is_persistent(&self) -> bool {
        self.kind.is_persistent(&self.words)
    }

    /// The flag by which it is told to work in another folder than that in which it is started; none where it is not.
    pub fn works_elsewhere(&self) -> Option<&'static str> {
        self.kind.works_elsewhere(&self.words)
    }

    /// True if it runs hooks.
    pub fn has_hooks(&self) -> bool {
        self.kind.has_hooks(&self.words)
    }

    /// The permission mode that the command line asks for.
    pub fn permission_mode(&self) -> Option<String> {
        self.kind.permission_mode(&self.words)
    }

    /// The way around permission checks that the command line takes.
    pub fn bypass(&self) -> Option<Bypass> {
        self.kind.bypass(&self.words)
    }

    /// The conversation that the command line pins.
    pub fn conversation(&self) -> Option<String> {
        self.kind.conversation(&self.words)
    }

    /// True if the command line leaves the choice of the conversation to the agent.
    pub fn chooses_itself(&self) -> bool {
        self.kind.chooses_itself(&self.words)
    }

    /// The id of a new conversation, where the command line names none and can be given one.
    pub fn new_conversation(&self) -> Option<String> {
        let is_free = self.conversation().is_none() && !self.chooses_itself();
        (is_free && self.kind.abilities().pins_conversation).then(new_conversation_id)
    }

    /// The agent's own program; none where a launcher is given a package.
    pub fn program(&self) -> Option<&OsString> {
        self.program.last().filter(|word| !word.as_encoded_bytes().starts_with(b"@"))
    }

    /// Files with MCP servers that the command line adds. Servers that stand in the command line itself are in no file.
    pub fn mcp_config(&self) -> Vec<PathBuf> {
        self.kind.mcp_config(&self.words)
    }

    /// Arguments that bring our hooks for one start, beside what the command line says of hooks itself.
    pub fn hook_arguments(&self, command: &HookCommand) -> Result<Vec<OsString>> {
        self.kind.hook_arguments(&self.words, command)
    }

    /// The command line with the conversation pinned where it can be, and with the arguments of [`Agent::hook_arguments`].
    pub fn launch_argv(&self, conversation: Option<&str>, hooks: &[OsString]) -> Vec<OsString> {
        [self.program.clone(), self.kind.launch(&self.words, conversation, hooks)].concat()
    }

    /// The command line that resumes what this one began.
    pub fn resume_argv(&self, resume: &Resume) -> Vec<OsString> {
        let resume = Resume { is_headless: self.is_headless(), ..resume.clone() };
        [self.program.clone(), self.kind.resume(&self.words, &resume)].concat()
    }
}

/// A new conversation's id.
pub fn new_conversation_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// True if a text can be a conversation's id.
pub(crate) fn is_conversation_id(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
}

#[cfg(test)]
mod tests;
