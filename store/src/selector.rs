//! Selectors: how a user names a checkpoint.
//!
//! `latest`, `latest~2` (two commits before), `SESSION@latest~1` (within one session), an id, or a unique beginning or end of one.
//! Behind a colon may stand a path inside the checkpoint: `latest:src/main.rs`.

use crate::{
    error::{Error, Result},
    record::Checkpoint,
};

/// Splits `ID:path` at the first colon.
pub fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((id, path)) => (id, Some(path)),
        None => (text, None),
    }
}

/// The checkpoint that `selector` names, among all that exist in order of commit.
pub fn select<'a>(checkpoints: &'a [Checkpoint], selector: &str) -> Result<&'a Checkpoint> {
    let none = || Error::NoCheckpoint { selector: selector.to_owned() };
    let (session, rest) = match selector.rsplit_once('@') {
        Some((session, rest)) => (Some(session), rest),
        None => (None, selector),
    };
    let candidates = checkpoints.iter().filter(|c| session.is_none_or(|s| c.record.session == s));
    if let Some(back) = rest.strip_prefix("latest") {
        let back: usize = match back.strip_prefix('~') {
            Some(number) => number.parse().map_err(|_| none())?,
            None if back.is_empty() => 0,
            None => return Err(none()),
        };
        return candidates.rev().nth(back).ok_or_else(none);
    }
    let wanted = rest.to_ascii_uppercase();
    if wanted.len() < 4 {
        return Err(Error::Invalid(format!("'{selector}' is too short for an id; give at least 4 characters, or `latest`")));
    }
    let mut found = candidates.filter(|c| {
        let id = c.id();
        id.starts_with(&wanted) || id.ends_with(&wanted)
    });
    let first = found.next().ok_or_else(none)?;
    let others: Vec<String> = found.map(Checkpoint::id).collect();
    if others.is_empty() {
        return Ok(first);
    }
    let candidates = std::iter::once(first.id()).chain(others).collect();
    Err(Error::Ambiguous { selector: selector.to_owned(), candidates })
}
