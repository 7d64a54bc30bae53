//! Gemini CLI's arguments. `-p` answers one prompt, and so does any start without a terminal; anything else is a conversation at a terminal,
//! which a prompt may begin.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use crate::{
    id::is_session_id,
    words::{Bypass, Piece, Resume, Takes, Words},
};

/// Flags that take one word, each.
const TAKE_ONE: &[&str] = &[
    "-m",
    "--model",
    "-p",
    "--prompt",
    "-i",
    "--prompt-interactive",
    "--approval-mode",
    "--policy",
    "--admin-policy",
    "--allowed-mcp-server-names",
    "--allowed-tools",
    "-e",
    "--extensions",
    "--session-file",
    "--session-id",
    "--delete-session",
    "--include-directories",
    "-o",
    "--output-format",
];
/// Flags that choose a conversation, hold a prompt or belong to one start only; never given again.
const OF_ONE_START: &[&str] =
    &["-p", "--prompt", "-i", "--prompt-interactive", "-r", "--resume", "--session-id", "--session-file", "-w", "--worktree"];
/// Its own management commands.
const COMMANDS: [&str; 8] = ["mcp", "extensions", "extension", "skills", "skill", "hooks", "hook", "gemma"];
/// Flags that list or remove something, or make it the server of an editor.
const NO_CONVERSATION: &[&str] = &[
    "-h",
    "--help",
    "-v",
    "--version",
    "-l",
    "--list-extensions",
    "--list-sessions",
    "--delete-session",
    "--acp",
    "--experimental-acp",
];
const PROMPT: [&str; 2] = ["-p", "--prompt"];
const RESUME: [&str; 2] = ["-r", "--resume"];
/// The conversation that changed last, in place of an id.
const LATEST: &str = "latest";

pub(super) fn is_program(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let text = word.to_string_lossy();
    matches!(&*name, "gemini" | "gemini.js") && !text.starts_with('@')
        || text == "@google/gemini-cli"
        || text.starts_with("@google/gemini-cli@")
}

pub(super) fn takes(flag: &str) -> Takes {
    match flag {
        "-r" | "--resume" | "-w" | "--worktree" => Takes::Optional,
        flag if TAKE_ONE.contains(&flag) => Takes::One,
        _ => Takes::Nothing,
    }
}

pub(super) fn is_conversing(words: &Words) -> bool {
    let is_managing = words.plain().next().is_some_and(|word| COMMANDS.iter().any(|command| word == command));
    !is_managing && !words.has(NO_CONVERSATION)
}

/// Without a terminal a prompt is answered as one of `-p` is.
pub(super) fn is_headless(words: &Words, at_terminal: bool) -> bool {
    words.has(&PROMPT) || !at_terminal
}

pub(super) fn bypass(words: &Words) -> Option<Bypass> {
    let is_on = words.has(&["-y", "--yolo"]) || words.value(&["--approval-mode"]).is_some_and(|mode| mode == "yolo");
    is_on.then_some(Bypass::On)
}

/// The conversation that is begun or resumed by its id. `--resume` takes the number of a conversation in a list as well.
pub(super) fn conversation(words: &Words) -> Option<String> {
    let is_number = |id: &String| id.bytes().all(|byte| byte.is_ascii_digit());
    let resumed = || words.value(&RESUME).filter(|id| id != LATEST && !is_number(id));
    words.value(&["--session-id"]).or_else(resumed).filter(|id| is_session_id(id))
}

pub(super) fn chooses_itself(words: &Words) -> bool {
    conversation(words).is_none() && (words.has(&RESUME) || words.has(&["--session-file"]))
}

pub(super) fn works_elsewhere(words: &Words) -> Option<&'static str> {
    ["-w", "--worktree"].into_iter().find(|flag| words.has(&[flag]))
}

pub(super) fn launch(words: &Words, id: Option<&str>) -> Vec<OsString> {
    let mut argv = Vec::new();
    if let Some(id) = id.filter(|_| conversation(words).is_none() && !chooses_itself(words)) {
        argv.extend(["--session-id".into(), id.into()]);
    }
    words.0.iter().for_each(|piece| piece.write(&mut argv));
    argv
}

pub(super) fn resume(words: &Words, resume: &Resume) -> Vec<OsString> {
    let mut argv: Vec<OsString> = Vec::new();
    match (&resume.conversation, &resume.new_conversation) {
        (Some(id), _) => argv.extend(["--resume".into(), id.into()]),
        (None, Some(id)) => argv.extend(["--session-id".into(), id.into()]),
        (None, None) => {}
    }
    for piece in &words.0 {
        match piece {
            Piece::Flag { name, .. } if OF_ONE_START.contains(&name.as_str()) => {}
            Piece::Flag { .. } => piece.write(&mut argv),
            Piece::Word(_) | Piece::End => {}
        }
    }
    if let Some(prompt) = &resume.prompt {
        argv.extend(prompt_words(prompt, resume.is_headless));
    }
    argv
}

pub(super) fn prompt_words(prompt: &str, is_headless: bool) -> Vec<OsString> {
    let flag = if is_headless { "--prompt" } else { "--prompt-interactive" };
    // As a word of its own, a prompt that begins with a dash would be a flag.
    vec![format!("{flag}={prompt}").into()]
}
