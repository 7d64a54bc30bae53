//! The command line of a declared kind.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use crate::{
    declaration::{Declaration, ID, PROMPT},
    id::is_session_id,
    words::{Piece, Resume, Takes, Words},
};

/// Flags of every program that begin no conversation.
const NO_CONVERSATION: [&str; 3] = ["-h", "--help", "--version"];

fn is_in(list: &[String], flag: &str) -> bool {
    list.iter().any(|known| known == flag)
}

/// True if one of some flags stands there.
pub(super) fn has(words: &Words, flags: &[String]) -> bool {
    flags.iter().any(|flag| words.has(&[flag.as_str()]))
}

/// A program by its name, or a package as `npx` is given it, with its version.
pub(super) fn is_program(declared: &Declaration, word: &OsStr) -> bool {
    let name = Path::new(word).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let text = word.to_string_lossy();
    let is_package =
        |program: &String| text == *program || text.strip_prefix(program.as_str()).is_some_and(|v| v.starts_with('@'));
    declared.programs.iter().any(|program| *name == **program || is_package(program))
}

pub(super) fn takes(declared: &Declaration, flag: &str) -> Takes {
    let lists = [&declared.choosing, &declared.once, &declared.unchecked, &declared.elsewhere, &declared.headless];
    match flag {
        flag if is_in(&declared.takes, flag) => Takes::One,
        flag if lists.into_iter().any(|list| is_in(list, flag)) => Takes::Nothing,
        flag if NO_CONVERSATION.contains(&flag) || is_in(&declared.commands, flag) => Takes::Nothing,
        _ => Takes::Unknown,
    }
}

pub(super) fn is_conversing(declared: &Declaration, words: &Words) -> bool {
    let is_managing = words.command().is_some_and(|word| is_in(&declared.commands, &word.to_string_lossy()));
    !is_managing && !words.has(&NO_CONVERSATION) && !has(words, &declared.commands)
}

/// The first of its words for that tells it: a flag, or the first word that belongs to none.
pub(super) fn is_headless(declared: &Declaration, words: &Words) -> bool {
    declared.headless.first().is_some_and(|sign| match sign.starts_with('-') {
        true => words.has(&[sign.as_str()]),
        false => words.command().is_some_and(|word| *word == **sign),
    })
}

pub(super) fn conversation(declared: &Declaration, words: &Words) -> Option<String> {
    let flags = declared.choosing.iter().filter(|flag| is_in(&declared.takes, flag));
    let mut ids = flags.filter_map(|flag| words.value(&[flag.as_str()]));
    ids.find(|id| is_session_id(id))
}

/// The words that make it answer one prompt, those that go on with the conversation, the flags that were recorded, and the prompt.
pub(super) fn resume(declared: &Declaration, words: &Words, resume: &Resume) -> Vec<OsString> {
    let mut argv: Vec<OsString> = Vec::new();
    if resume.is_headless {
        argv.extend(declared.headless.iter().map(OsString::from));
    }
    if let Some(id) = &resume.conversation {
        argv.extend(declared.resume.iter().map(|word| OsString::from(word.replace(ID, id))));
    }
    let of_one_start = [&declared.choosing, &declared.once, &declared.headless];
    for piece in &words.0 {
        match piece {
            Piece::Flag { name, .. } if of_one_start.into_iter().any(|list| is_in(list, name)) => {}
            Piece::Flag { .. } => piece.write(&mut argv),
            Piece::Word(_) | Piece::End => {}
        }
    }
    if let Some(prompt) = &resume.prompt {
        argv.extend(prompt_words(declared, prompt, resume.is_headless));
    }
    argv
}

pub(super) fn prompt_words(declared: &Declaration, prompt: &str, is_headless: bool) -> Vec<OsString> {
    let template = if is_headless { &declared.headless_prompt } else { &declared.prompt };
    // As a word of its own, a prompt that begins with a dash would be a flag.
    let written = |word: &String| match word == PROMPT && prompt.starts_with('-') {
        true => OsString::from(format!(" {prompt}")),
        false => OsString::from(word.replace(PROMPT, prompt)),
    };
    template.iter().map(written).collect()
}
