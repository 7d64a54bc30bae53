//! The agent's words: which of its flags takes how many of them.

use std::ffi::OsString;

/// What an argument of the agent's takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Nothing.
    Nothing,
    /// The next word.
    One,
    /// The next word, unless that is a flag.
    Optional,
    /// All words up to the next flag.
    Many,
}

/// Flags that take something, by name. Whatever is in neither table takes nothing if it stands last or before a flag, else one word.
const TAKE: &[(&str, Takes)] = &[
    ("--add-dir", Takes::Many),
    ("--agent", Takes::One),
    ("--agents", Takes::One),
    ("--allowedTools", Takes::Many),
    ("--allowed-tools", Takes::Many),
    ("--append-system-prompt", Takes::One),
    ("--append-system-prompt-file", Takes::One),
    ("--betas", Takes::Many),
    ("--debug", Takes::Optional),
    ("-d", Takes::Optional),
    ("--debug-file", Takes::One),
    ("--disallowedTools", Takes::Many),
    ("--disallowed-tools", Takes::Many),
    ("--effort", Takes::One),
    ("--environment", Takes::One),
    ("--fallback-model", Takes::One),
    ("--file", Takes::Many),
    ("--from-pr", Takes::Optional),
    ("--input-format", Takes::One),
    ("--json-schema", Takes::One),
    ("--max-budget-usd", Takes::One),
    ("--max-turns", Takes::One),
    ("--mcp-config", Takes::Many),
    ("--model", Takes::One),
    ("--name", Takes::One),
    ("-n", Takes::One),
    ("--output-format", Takes::One),
    ("--permission-mode", Takes::One),
    ("--permission-prompt-tool", Takes::One),
    ("--plugin-dir", Takes::One),
    ("--plugin-url", Takes::One),
    ("--prompt-suggestions", Takes::Optional),
    ("--remote-control", Takes::Optional),
    ("--remote-control-session-name-prefix", Takes::One),
    ("--resume", Takes::Optional),
    ("-r", Takes::Optional),
    ("--resume-session-at", Takes::One),
    ("--session-id", Takes::One),
    ("--setting-sources", Takes::One),
    ("--settings", Takes::One),
    ("--system-prompt", Takes::One),
    ("--system-prompt-file", Takes::One),
    ("--tools", Takes::Many),
    ("--worktree", Takes::Optional),
    ("-w", Takes::Optional),
];

/// Flags that take nothing.
const TAKE_NOTHING: &[&str] = &[
    "--allow-dangerously-skip-permissions",
    "--ax-screen-reader",
    "--background",
    "--bare",
    "--bg",
    "--brief",
    "--chrome",
    "--continue",
    "-c",
    "--dangerously-skip-permissions",
    "--disable-slash-commands",
    "--exclude-dynamic-system-prompt-sections",
    "--fork-session",
    "--ide",
    "--include-hook-events",
    "--include-partial-messages",
    "--no-chrome",
    "--no-session-persistence",
    "--print",
    "-p",
    "--replay-user-messages",
    "--resume-drops-turn",
    "--safe-mode",
    "--strict-mcp-config",
    "--tmux",
    "--verbose",
];

/// A piece of a command line: a flag with its words, or words by themselves.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// A flag.
    Flag {
        /// As it is written.
        name: String,
        /// What it takes.
        words: Vec<OsString>,
    },
    /// A prompt.
    Word(OsString),
}

impl Piece {
    /// Writes it again.
    pub(super) fn write(&self, argv: &mut Vec<OsString>) {
        match self {
            Piece::Flag { name, words } => {
                argv.push(name.into());
                argv.extend(words.iter().cloned());
            }
            Piece::Word(word) => argv.push(word.clone()),
        }
    }
}

/// Takes the agent's words apart. Everything behind `--` is prompt.
pub(super) fn pieces(words: &[OsString]) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        let text = word.to_string_lossy();
        if text == "--" {
            out.extend(rest.iter().cloned().map(Piece::Word));
            break;
        }
        if !text.starts_with('-') || text.len() < 2 {
            out.push(Piece::Word(word.clone()));
            continue;
        }
        if let Some((name, value)) = text.split_once('=').filter(|_| text.starts_with("--")) {
            out.push(Piece::Flag { name: name.to_owned(), words: vec![value.into()] });
            continue;
        }
        let values = match takes(&text) {
            Takes::Nothing => 0,
            Takes::One => rest.len().min(1),
            Takes::Optional => rest.iter().take(1).take_while(|word| !is_flag(word)).count(),
            Takes::Many => rest.iter().take_while(|word| !is_flag(word)).count(),
        };
        let (values, behind) = rest.split_at(values);
        out.push(Piece::Flag { name: text.into_owned(), words: values.to_vec() });
        rest = behind;
    }
    out
}

fn takes(name: &str) -> Takes {
    match TAKE.iter().find(|(known, _)| *known == name) {
        Some((_, takes)) => *takes,
        None if TAKE_NOTHING.contains(&name) => Takes::Nothing,
        None => Takes::Optional,
    }
}

fn is_flag(word: &OsString) -> bool {
    word.to_string_lossy().starts_with('-')
}
