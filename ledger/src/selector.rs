//! Selectors: how a user names a checkpoint.
//!
//! `latest`, `latest~2` (two commits before), `SESSION@latest~1` (within one session), an id, or a unique beginning or end of one.
//! SESSION is a session's id, or a name that one session alone has, or alone of those that have not ended or that are wanted running. `latest`
//! passes over fenced and safety checkpoints. `tag:TAG` and `SESSION@tag:TAG` are the newest checkpoint that bears a tag. Behind a colon may stand a path inside the
//! checkpoint: `latest:src/main.rs`, `tag:release/1.2:src/main.rs`. No tag contains a colon.
//!
//! Without a session, `latest` is that of the sessions which work in the caller's folder ([`sessions_at`]). Where none does, it is the
//! newest of the store for whoever only reads ([`find_here`]).

use std::{
    cmp::Reverse,
    path::{Path, PathBuf},
};

use parhelia_store::{Error, Result, place::Place, record::Checkpoint, view::View};
use ulid::Ulid;

use crate::{
    known,
    run::Run,
    session::{Session, Status},
    view::LedgerView as _,
};

/// The beginning of a selector that names a tag.
const TAG: &str = "tag:";
/// The same, behind a session.
const OF_SESSION_TAG: &str = "@tag:";
/// Tags that an error names.
const NEAR_MAX: usize = 5;

/// Splits `ID:path` at the first colon, and `tag:TAG:path` at the second.
pub fn split(text: &str) -> (&str, Option<&str>) {
    match colon(text.as_bytes()) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// The place of the colon behind a selector, in front of a path of any bytes; none where there is no path.
pub fn colon(text: &[u8]) -> Option<usize> {
    let next = |from: usize| text[from..].iter().position(|&b| b == b':').map(|at| from + at);
    let first = next(0)?;
    let names_tag = text[..first] == *b"tag" || text[..first].ends_with(b"@tag");
    if names_tag { next(first + 1) } else { Some(first) }
}

/// The checkpoint that `selector` names in a store. Of `latest` and whole ids no other checkpoints are read than they ask for.
pub fn find(view: &View, selector: &str) -> Result<Checkpoint> {
    if let Some((session, tag)) = tag_of(selector) {
        return tagged(view, session, tag);
    }
    let (session, rest) = session_of(selector);
    let none = || Error::NoCheckpoint { selector: selector.to_owned() };
    let session = session.map(|name| view.session_id(name)).transpose()?;
    let belongs = |c: &Checkpoint| session.as_ref().is_none_or(|id| c.record.session == *id);
    if let Some(back) = steps_back(rest) {
        let back = back.ok_or_else(none)?;
        let found = match &session {
            Some(id) => newest(view.newest_first_of(id)?).nth(back),
            None => newest(view.newest_first()?).nth(back),
        };
        return found.transpose()?.ok_or_else(none);
    }
    match rest.parse::<Ulid>() {
        Ok(id) => view.checkpoint(id)?.filter(belongs).ok_or_else(none),
        Err(_) => abbreviated(view.checkpoints()?.iter().filter(|c| belongs(c)), selector, rest).cloned(),
    }
}

/// As [`find`], for somebody who is in `folder` and only reads.
pub fn find_here(view: &View, selector: &str, folder: &Path) -> Result<Checkpoint> {
    let here = if is_relative(selector) { sessions_at(view, folder)? } else { Vec::new() };
    match here.is_empty() {
        true => find(view, selector),
        false => find_among(view, selector, &here),
    }
}

/// As [`find`]; `latest` is the newest of these sessions' checkpoints, where the selector names no session.
pub fn find_among(view: &View, selector: &str, sessions: &[Session]) -> Result<Checkpoint> {
    let Some(back) = steps_back(selector) else { return find(view, selector) };
    let none = || Error::NoCheckpoint { selector: selector.to_owned() };
    let back = back.ok_or_else(none)?;
    let mut found = Vec::new();
    for session in sessions {
        found.extend(newest(view.newest_first_of(&session.id)?).take(back.saturating_add(1)).collect::<Result<Vec<_>>>()?);
    }
    found.sort_by_key(|checkpoint| Reverse(checkpoint.sequence));
    found.into_iter().nth(back).ok_or_else(none)
}

/// True if a selector counts back from the newest checkpoint without naming a session: what it means depends on where it is said.
pub fn is_relative(selector: &str) -> bool {
    steps_back(selector).is_some()
}

/// The sessions that work in a folder: those whose workspace it is, or else the nearest folder above it that is one. Ended ones as well.
pub fn sessions_at(view: &View, folder: &Path) -> Result<Vec<Session>> {
    Ok(workspace_at(view, folder)?.map(|(_, sessions)| sessions).unwrap_or_default())
}

/// The sessions that may have done something in their folders, by id: all but those that are over, of which nothing was captured, and no
/// program of which ever ran.
pub fn sessions_with_work(view: &View) -> Result<Vec<Session>> {
    let mut found = view.sessions()?;
    let mut void = Vec::new();
    for session in &found {
        let is_over = matches!(session.status, Status::Ended | Status::Error);
        if is_over && session.totals.checkpoints == 0 && session.head.is_none() && !session.runs.is_empty() {
            let runs = session.runs.iter().map(|id| view.run(id)).collect::<Result<Vec<_>>>()?;
            void.extend(runs.iter().flatten().all(Run::never_ran).then(|| session.id.clone()));
        }
    }
    found.retain(|session| !void.contains(&session.id));
    Ok(found)
}

/// The folder, at `folder` or nearest above it, that sessions work in, and those sessions. A workspace that was moved is known where it is by
/// now; its recorded path counts as well, whatever is there.
pub fn workspace_at(view: &View, folder: &Path) -> Result<Option<(PathBuf, Vec<Session>)>> {
    let sessions = sessions_with_work(view)?;
    let recorded = |session: &Session| session.workspace.as_ref().map(Place::folder).filter(|path| folder.starts_with(path));
    let by_path = sessions.iter().filter_map(|session| Some((recorded(session)?, session)));
    let by_folder = known::among(&sessions, folder.ancestors());
    let found: Vec<(PathBuf, &Session)> = by_path.chain(by_folder).collect();
    // Of two folders above another one, the longer path is nearer.
    let Some(nearest) = found.iter().map(|(path, _)| path).max_by_key(|path| path.as_os_str().len()).cloned() else {
        return Ok(None);
    };
    let is_there = |session: &Session| found.iter().any(|(path, other)| *path == nearest && other.id == session.id);
    let there = sessions.iter().filter(|session| is_there(session)).cloned().collect();
    Ok(Some((nearest, there)))
}

/// Of checkpoints, newest first, those that `latest` may name.
fn newest(all: impl Iterator<Item = Result<Checkpoint>>) -> impl Iterator<Item = Result<Checkpoint>> {
    all.filter(|c| c.as_ref().map_or(true, |c| c.record.may_be_latest()))
}

/// The session and the tag of a selector that names a tag.
fn tag_of(selector: &str) -> Option<(Option<&str>, &str)> {
    match selector.split_once(OF_SESSION_TAG) {
        Some((session, tag)) => Some((Some(session), tag)),
        None => selector.strip_prefix(TAG).map(|tag| (None, tag)),
    }
}

/// The newest checkpoint that bears a tag. Checkpoints that do not bear it are not read.
fn tagged(view: &View, session: Option<&str>, tag: &str) -> Result<Checkpoint> {
    let session = session.map(|name| view.session_id(name)).transpose()?;
    for found in view.newest_first_tagged(tag)? {
        let found = found?;
        if session.as_ref().is_none_or(|id| found.record.session == *id) {
            return Ok(found);
        }
    }
    let mut near = Vec::new();
    for (other, ids) in view.tags()? {
        let distance = strsim::damerau_levenshtein(&other.to_lowercase(), &tag.to_lowercase());
        let is_part = tag.len() > 2 && other.split('/').chain([&*other]).any(|part| part.starts_with(tag));
        if is_part || distance <= tag.chars().count() / 3 {
            let exists = ids.into_iter().map(|id| view.sequence(id)).collect::<Result<Vec<_>>>()?.iter().any(Option::is_some);
            near.extend((exists && other != tag).then_some((distance, other)));
        }
    }
    near.sort();
    let near = near.into_iter().map(|(_, other)| other).take(NEAR_MAX).collect();
    Err(Error::NoTag { tag: tag.to_owned(), session, near })
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
