//! Selectors: how a user names a checkpoint.
//!
//! `latest`, `latest~2` (two commits before), `SESSION@latest~1` (within one session), an id, or a unique beginning or end of one.
//! SESSION is a session's id, or a name that one session alone has. `latest` passes over fenced checkpoints. Behind a colon may stand a
//! path inside the checkpoint: `latest:src/main.rs`.

use crate::{
    error::{Error, Result},
    id::Ulid,
    record::Checkpoint,
    view::View,
};

/// Splits `ID:path` at the first colon.
pub fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((id, path)) => (id, Some(path)),
        None => (text, None),
    }
}

/// The checkpoint that `selector` names in a store. Of `latest` and whole ids no other checkpoints are read than they ask for.
pub fn find(view: &View, selector: &str) -> Result<Checkpoint> {
    let (session, rest) = session_of(selector);
    let none = || Error::NoCheckpoint { selector: selector.to_owned() };
    let session = session.map(|name| view.session_id(name)).transpose()?;
    let belongs = |c: &Checkpoint| session.as_ref().is_none_or(|id| c.record.session == *id);
    if let Some(back) = steps_back(rest) {
        let mut candidates = view.newest_first()?.filter(|c| c.as_ref().map_or(true, |c| belongs(c) && !c.record.fenced));
        return candidates.nth(back.ok_or_else(none)?).ok_or_else(none)?;
    }
    match rest.parse::<Ulid>() {
        Ok(id) => view.checkpoint(id)?.filter(belongs).ok_or_else(none),
        Err(_) => abbreviated(view.checkpoints()?.iter().filter(|c| belongs(c)), selector, rest).cloned(),
    }
}

fn session_of(selector: &str) -> (Option<&str>, &str) {
    match selector.rsplit_once('@') {
        Some((session, rest)) => (Some(session), rest),
        None => (None, selector),
    }
}

/// N of `latest~N`. Inside, `None` where that is no number.
fn steps_back(rest: &str) -> Option<Option<usize>> {
    let back = rest.strip_prefix("latest")?;
    Some(match back.strip_prefix('~') {
        Some(number) => number.parse().ok(),
        None => back.is_empty().then_some(0),
    })
}

/// The checkpoint whose id begins or ends with `rest`, among `candidates`.
fn abbreviated<'a>(candidates: impl Iterator<Item = &'a Checkpoint>, selector: &str, rest: &str) -> Result<&'a Checkpoint> {
    let wanted = rest.to_ascii_uppercase();
    if wanted.len() < 4 {
        return Err(Error::Invalid(format!("'{selector}' is too short for an id; give at least 4 characters, or `latest`")));
    }
    let mut found = candidates.filter(|c| {
        let id = c.id();
        id.starts_with(&wanted) || id.ends_with(&wanted)
    });
    let first = found.next().ok_or_else(|| Error::NoCheckpoint { selector: selector.to_owned() })?;
    let others: Vec<String> = found.map(Checkpoint::id).collect();
    if others.is_empty() {
        return Ok(first);
    }
    let candidates = std::iter::once(first.id()).chain(others).collect();
    Err(Error::Ambiguous { selector: selector.to_owned(), candidates })
}
