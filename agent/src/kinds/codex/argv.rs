//! Codex's arguments. `codex` begins a conversation at a terminal, `codex exec` answers one prompt; both have `resume ID`.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use serde_json::json;

use crate::{
    hooks::command::HookCommand,
    id::is_conversation_id,
    kind::Events,
    words::{Piece, Resume, Takes, Words},
};

/// Flags that take one word, each.
const TAKE_ONE: &[&str] = &[
    "-c",
    "--config",
    "--enable",
    "--disable",
    "--remote",
    "--remote-auth-token-env",
    "-m",
    "--model",
    "--local-provider",
    "-p",
    "--profile",
    "-s",
    "--sandbox",
    "-C",
    "--cd",
    "--add-dir",
    "-a",
    "--ask-for-approval",
    "--thread-source",
    "--cyber-access-program",
    "--output-schema",
    "--color",
    "-o",
    "--output-last-message",
];
/// Flags that belong to one start only.
const OF_ONE_START: &[&str] = &["-i", "--image", "--last", "--all", "--include-non-interactive", "--worktree", "--thread-source"];
/// Flags that stand before `exec` alone.
const OF_ROOT: &[&str] =
    &["-a", "--ask-for-approval", "--search", "--remote", "--remote-auth-token-env", "--no-alt-screen", "--no-daemon"];
/// Its own management commands.
const COMMANDS: &[&str] = &[
    "agents",
    "app-server",
    "apply",
    "a",
    "archive",
    "cloud",
    "completion",
    "debug",
    "delete",
    "doctor",
    "exec-server",
    "features",
    "help",
    "login",
    "logout",
    "mcp",
    "mcp-server",
    "migrate-nfs-db",
    "migrate-rollouts",
    "plugin",
    "queue",
    "remote-control",
    "review",
    "sandbox",
    "unarchive",
    "update",
];
/// The command that answers one prompt.
const EXEC: [&str; 2] = ["exec", "e"];
pub(super) const EVENTS: Events =
    &[("SessionStart", 20), ("UserPromptSubmit", 20), ("Stop", 20), ("PreCompact", 20), ("SessionEnd", 10)];

pub(super) fn is_program(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let text = word.to_string_lossy();
    matches!(&*name, "codex" | "codex.exe") && !text.starts_with('@')
        || name == "codex.js"
        || text == "@openai/codex"
        || text.starts_with("@openai/codex@")
}

pub(super) fn takes(flag: &str) -> Takes {
    match flag {
        "-i" | "--image" => Takes::Many,
        flag if TAKE_ONE.contains(&flag) => Takes::One,
        _ => Takes::Nothing,
    }
}

/// The words that choose what is done, `exec` apart: `resume`, an id, a prompt.
fn inner(words: &Words) -> impl Iterator<Item = &OsString> {
    words.plain().skip(usize::from(is_headless(words)))
}

pub(super) fn is_headless(words: &Words) -> bool {
    words.plain().next().is_some_and(|word| EXEC.iter().any(|exec| word == exec))
}

pub(super) fn is_conversing(words: &Words) -> bool {
    let is_managing = |word: &OsString| COMMANDS.iter().any(|command| word == command);
    !inner(words).next().is_some_and(is_managing) && !words.has(&["-h", "--help", "-V", "--version"])
}

pub(super) fn conversation(words: &Words) -> Option<String> {
    let mut inner = inner(words);
    inner.next().filter(|word| *word == "resume")?;
    inner.next().map(|id| id.to_string_lossy().into_owned()).filter(|id| is_conversation_id(id))
}

pub(super) fn chooses_itself(words: &Words) -> bool {
    conversation(words).is_none() && inner(words).next().is_some_and(|word| word == "resume" || word == "fork")
}

/// The flag by which it is told to work in another folder than that in which it is started.
pub(super) fn works_elsewhere(words: &Words) -> Option<&'static str> {
    ["-C", "--cd", "--worktree"].into_iter().find(|flag| words.has(&[flag]))
}

pub(super) fn has_hooks(words: &Words) -> bool {
    !words.0.iter().any(|piece| match piece {
        Piece::Flag { name, words, .. } => {
            let value = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
            name == "--disable" && value == "hooks"
                || matches!(name.as_str(), "-c" | "--config") && value.replace(' ', "") == "features.hooks=false"
        }
        _ => false,
    })
}

pub(super) fn launch(words: &Words, hooks: &[OsString]) -> Vec<OsString> {
    let mut argv = Vec::new();
    let mut is_first = true;
    // A subcommand has the flags behind it.
    let starts_with_command = words.plain().next().is_some_and(|word| EXEC.iter().chain(&["resume", "fork"]).any(|c| word == c));
    if !starts_with_command {
        argv.extend_from_slice(hooks);
    }
    for piece in &words.0 {
        piece.write(&mut argv);
        if matches!(piece, Piece::Word(_)) && std::mem::take(&mut is_first) && starts_with_command {
            argv.extend_from_slice(hooks);
        }
    }
    argv
}

pub(super) fn resume(words: &Words, resume: &Resume) -> Vec<OsString> {
    let mut argv: Vec<OsString> = Vec::new();
    let is_headless = is_headless(words);
    let is_of_root = |name: &str| is_headless && OF_ROOT.contains(&name);
    for piece in &words.0 {
        if matches!(piece, Piece::Flag { name, .. } if is_of_root(name)) {
            piece.write(&mut argv);
        }
    }
    if is_headless {
        argv.push("exec".into());
    } else if resume.conversation.is_some() {
        argv.push("resume".into());
    }
    argv.extend_from_slice(&resume.hooks);
    for piece in &words.0 {
        match piece {
            Piece::Flag { name, .. } if OF_ONE_START.contains(&name.as_str()) || is_of_root(name) => {}
            Piece::Flag { .. } => piece.write(&mut argv),
            Piece::Word(_) | Piece::End => {}
        }
    }
    if let Some(id) = &resume.conversation {
        argv.extend(is_headless.then(|| "resume".into()));
        argv.push(id.into());
    }
    if let Some(prompt) = &resume.prompt {
        argv.extend(prompt_words(prompt));
    }
    argv
}

pub(super) fn prompt_words(prompt: &str) -> Vec<OsString> {
    // The last flag before it may take many words.
    vec!["--".into(), prompt.into()]
}

/// A table of the agent's configuration for each event: `-c hooks.EVENT=[…]`. A JSON string is a string of TOML.
pub(super) fn hook_arguments(command: &HookCommand) -> Vec<OsString> {
    let command = json!(command.text()).to_string();
    let argument = |(event, seconds): &(&str, u64)| {
        format!("hooks.{event}=[{{hooks=[{{type=\"command\",command={command},timeout={seconds}}}]}}]")
    };
    EVENTS.iter().flat_map(|event| ["-c".to_owned(), argument(event)]).map(OsString::from).collect()
}
