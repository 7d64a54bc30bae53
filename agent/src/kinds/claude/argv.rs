//! Claude Code's arguments: a pinned conversation at launch, and the same again with `--resume`.
//!
//! The agent forgets most of its flags when a conversation is resumed. All are given again, except those that choose a conversation, and the
//! prompt, which has been answered already.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::{
    id::is_conversation_id,
    words::{Bypass, Piece, Resume, Words},
};

/// Flags that choose a conversation, or belong to one start only; never given again.
const OF_ONE_START: &[&str] = &[
    "--session-id",
    "--resume",
    "-r",
    "--continue",
    "-c",
    "--fork-session",
    "--from-pr",
    "--resume-session-at",
    "--resume-drops-turn",
    "--teleport",
    "--worktree",
    "-w",
    "--tmux",
    "--background",
    "--bg",
    "--file",
];

/// Flags of an agent whose prompts are messages on its standard input.
const OF_STREAMED_PROMPTS: [&str; 2] = ["--input-format", "--replay-user-messages"];

/// Its own management commands.
const COMMANDS: [&str; 24] = [
    "agents",
    "attach",
    "auth",
    "auto-mode",
    "doctor",
    "gateway",
    "help",
    "import",
    "install",
    "kill",
    "logs",
    "mcp",
    "plugin",
    "plugins",
    "project",
    "purge",
    "remote-control",
    "respawn",
    "rm",
    "setup-token",
    "stop",
    "ultrareview",
    "update",
    "upgrade",
];

pub(super) fn is_program(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    matches!(name.as_str(), "claude" | "claude.exe" | "claude-code")
        || (name == "cli.js" && word.to_string_lossy().contains("claude-code"))
        || (word.to_string_lossy().starts_with("@anthropic-ai/claude-code"))
}

/// Flags with which it prints something, and ends.
const PRINTING: [&str; 4] = ["-h", "--help", "-v", "--version"];

/// Flags with which it works where no session can follow.
const UNSEEN: [&str; 5] = ["--bg", "--background", "--cloud", "--environment", "--desktop"];

pub(super) fn is_conversing(words: &Words) -> bool {
    !words.command().is_some_and(|word| COMMANDS.iter().any(|command| word == command)) && !words.has(&PRINTING)
}

pub(super) fn works_unseen(words: &Words) -> Option<&'static str> {
    UNSEEN.into_iter().find(|flag| words.has(&[flag]))
}

/// True if it prints records: all of them as they come, or the last one at the end.
pub(super) fn printed(words: &Words) -> bool {
    words.value(&["--output-format"]).is_some_and(|format| matches!(format.as_str(), "stream-json" | "json"))
}

pub(super) fn permission_mode(words: &Words) -> Option<String> {
    match bypass(words) {
        Some(Bypass::On) => Some("bypassPermissions".into()),
        _ => words.value(&["--permission-mode"]),
    }
}

pub(super) fn bypass(words: &Words) -> Option<Bypass> {
    let asked = words.value(&["--permission-mode"]).is_some_and(|mode| mode == "bypassPermissions");
    if asked || words.has(&["--dangerously-skip-permissions"]) {
        return Some(Bypass::On);
    }
    words.has(&["--allow-dangerously-skip-permissions"]).then_some(Bypass::Offered)
}

pub(super) fn conversation(words: &Words) -> Option<String> {
    let is_forked = words.has(&["--fork-session"]);
    let pinned = words.value(&["--session-id"]);
    let resumed = words.value(&["--resume", "-r"]).filter(|_| !is_forked);
    pinned.or(resumed).filter(|id| is_conversation_id(id))
}

pub(super) fn chooses_itself(words: &Words) -> bool {
    conversation(words).is_none() && words.has(&["--resume", "-r", "--continue", "-c", "--from-pr", "--teleport"])
}

pub(super) fn mcp_config(words: &Words) -> Vec<PathBuf> {
    let values = words.0.iter().filter_map(|piece| match piece {
        Piece::Flag { name, words, .. } if name == "--mcp-config" => Some(words),
        _ => None,
    });
    let is_file = |word: &&OsString| !word.to_string_lossy().trim_start().starts_with('{');
    values.flatten().filter(is_file).map(PathBuf::from).collect()
}

pub(super) fn launch(words: &Words, id: Option<&str>, hooks: &[OsString]) -> Vec<OsString> {
    let mut argv = Vec::new();
    if let Some(id) = id.filter(|_| conversation(words).is_none() && !chooses_itself(words)) {
        argv.extend(["--session-id".into(), id.into()]);
    }
    argv.extend_from_slice(hooks);
    for piece in &words.0 {
        match piece {
            // The hooks' arguments have these settings in them.
            Piece::Flag { name, .. } if name == "--settings" && !hooks.is_empty() => {}
            piece => piece.write(&mut argv),
        }
    }
    argv
}

pub(super) fn resume(words: &Words, resume: &Resume) -> Vec<OsString> {
    let mut argv: Vec<OsString> = Vec::new();
    match (&resume.conversation, &resume.new_conversation) {
        (Some(id), _) => argv.extend(["--resume".into(), id.into()]),
        (None, Some(id)) => argv.extend(["--session-id".into(), id.into()]),
        (None, None) => {}
    }
    argv.extend_from_slice(&resume.hooks);
    let mode = resume.permission_mode.as_ref().filter(|mode| !mode.is_empty() && Some(*mode) != permission_mode(words).as_ref());
    for piece in &words.0 {
        match piece {
            Piece::Flag { name, .. } if OF_ONE_START.contains(&name.as_str()) => {}
            Piece::Flag { name, .. } if name == "--settings" && !resume.hooks.is_empty() => {}
            // An agent that takes its prompts from a stream does not take one from its arguments.
            Piece::Flag { name, .. } if resume.prompt.is_some() && OF_STREAMED_PROMPTS.contains(&name.as_str()) => {}
            Piece::Flag { name, .. }
                if mode.is_some() && (name == "--permission-mode" || name == "--dangerously-skip-permissions") =>
            {
                // Leaving a bypass must be possible again.
                if name == "--dangerously-skip-permissions" {
                    argv.push("--allow-dangerously-skip-permissions".into());
                }
            }
            Piece::Flag { .. } => piece.write(&mut argv),
            Piece::Word(_) | Piece::End => {}
        }
    }
    if let Some(mode) = mode {
        argv.extend(["--permission-mode".into(), mode.into()]);
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
