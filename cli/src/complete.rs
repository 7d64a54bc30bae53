//! Candidates for completions: the checkpoints, tags and sessions of the store that the command line names.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    time::Duration,
};

use clap_complete::{CompletionCandidate, engine::ArgValueCompleter};
use parhelia_ledger::LedgerView as _;
use parhelia_oversight::review::tag::{self, InUse};
use parhelia_screen::human;
use parhelia_store::{Store, clock};

use crate::{authority::Authority, context::Context, exit::Result, global::Global, interrupt::Cancel};

/// The variable by which a shell asks for completions, and that names the shell.
pub const VARIABLE: &str = "PARHELIA_COMPLETE";
/// So many checkpoints are offered, the newest.
const CHECKPOINTS_MAX: usize = 100;

/// Completes ids of the newest checkpoints.
pub fn checkpoints() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| fitting(current, found_checkpoints))
}

/// Completes a tag that is in use.
pub fn tags() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| fitting(current, found_tags))
}

/// Completes a session by its id or name.
pub fn sessions() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| fitting(current, found_sessions))
}

/// Completes what may be either.
pub fn checkpoints_and_sessions() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        fitting(current, found_checkpoints).into_iter().chain(fitting(current, found_sessions)).collect::<Vec<_>>()
    })
}

/// A candidate and what is known of it.
type Candidate = (String, String);

/// The candidates that begin with what is typed. A store that cannot be read has none.
fn fitting(current: &OsStr, found: fn(&Store) -> Result<Vec<Candidate>>) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy().to_lowercase();
    let all = open().and_then(|store| found(&store)).unwrap_or_default();
    let fits = all.into_iter().filter(|(value, _)| value.to_lowercase().starts_with(&typed));
    fits.map(|(value, help)| CompletionCandidate::new(value).help(Some(human::path(help.as_bytes()).into()))).collect()
}

fn open() -> Result<Store> {
    let store = store_of(std::env::args_os())
        .or_else(|| std::env::var_os("PARHELIA_STORE").filter(|value| !value.is_empty()).map(PathBuf::from));
    let lock_timeout = Some(Duration::ZERO);
    let global = Global { store, json: false, quiet: true, verbose: false, config: None, lock_timeout };
    Context::new(&global, Cancel::default(), Authority::default()).open()
}

/// The store that the words of a command line name.
fn store_of(words: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let words: Vec<OsString> = words.collect();
    words.iter().enumerate().find_map(|(i, word)| match word.to_str()? {
        "--store" => words.get(i + 1).map(PathBuf::from),
        word => word.strip_prefix("--store=").map(PathBuf::from),
    })
}

fn found_checkpoints(store: &Store) -> Result<Vec<Candidate>> {
    let (view, now) = (store.view(), clock::timestamp());
    let mut found = vec![("latest".to_owned(), "the newest checkpoint of this folder".to_owned())];
    for outline in view.outlines()?.into_iter().rev().take(CHECKPOINTS_MAX) {
        let message = outline.message.as_deref().and_then(|message| message.lines().next()).unwrap_or_default();
        let help = format!("{}, {} {message}", human::ago(outline.created_at, now), outline.session);
        found.push((outline.id.to_string(), help.trim_end().to_owned()));
    }
    found.extend(found_tags(store)?.into_iter().map(|(tag, help)| (format!("tag:{tag}"), help)));
    let sessions = view.all_sessions()?.into_iter().filter(|session| session.head.is_some());
    found.extend(sessions.map(|session| (format!("{}@latest", session.id), "the newest checkpoint of the session".to_owned())));
    Ok(found)
}

fn found_tags(store: &Store) -> Result<Vec<Candidate>> {
    let help = |tag: &InUse| match tag.checkpoints {
        1 => tag.newest.to_string(),
        more => format!("{}, and {} more", tag.newest, more - 1),
    };
    Ok(tag::in_use(&store.view(), &[])?.into_iter().map(|tag| (tag.tag.clone(), help(&tag))).collect())
}

fn found_sessions(store: &Store) -> Result<Vec<Candidate>> {
    let mut found = Vec::new();
    for session in store.view().all_sessions()? {
        let place = session.workspace.as_ref().map(|place| place.path.clone()).unwrap_or_default();
        found.push((session.id.clone(), format!("{}, {place}", session.status.name())));
        if session.name != session.id {
            found.push((session.name, format!("the name of {}", session.id)));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_that_of_the_command_line() {
        let of = |words: &[&str]| store_of(words.iter().map(OsString::from));
        assert_eq!(of(&["parhelia", "--store", "a", "ls", ""]), Some("a".into()));
        assert_eq!(of(&["parhelia", "ls", "--store=b"]), Some("b".into()));
        assert_eq!(of(&["parhelia", "ls", "--store"]), None);
    }
}
