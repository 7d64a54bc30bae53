//! The words for work outside of a session's workspace.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_ledger::Session;
use parhelia_life::workspace::beside;
use parhelia_screen::human;
use parhelia_store::{clock, view::View};

use crate::exit::Result;

/// No more folders are named in a sentence.
const NAMED_MAX: usize = 3;

/// The rest of a sentence about a working tree, with the checkpoint that has it; none where none does.
pub fn kept_text(view: &View, tree: &Path) -> Result<Option<String>> {
    let Some(kept) = beside::kept(view, tree)? else { return Ok(None) };
    let ago = human::ago(kept.record.created_at, clock::timestamp());
    let id = kept.id();
    let session = human::path(kept.record.session.as_bytes());
    Ok(Some(format!("and is in checkpoint {id} of session {session}, {ago}: `parhelia restore {id} --to DIR`")))
}

/// Sentences about folders that agents of these sessions were seen in, but for some: those that are in checkpoints of their own, also where they are gone,
/// and the others.
pub fn worked_in_texts<'a>(view: &View, sessions: impl Iterator<Item = &'a Session>, but: &[PathBuf]) -> Result<Vec<String>> {
    let mut found: Vec<PathBuf> = sessions.flat_map(beside::worked_in).filter(|folder| !but.contains(folder)).collect();
    found.sort();
    found.dedup();
    let mut texts = Vec::new();
    let mut left = Vec::new();
    for folder in found {
        match kept_text(view, &folder)? {
            Some(kept) => {
                let gone = if folder.is_dir() { "" } else { ", which is gone" };
                texts.push(format!("The agent was also seen in {}{gone}, {kept}.", human::path(folder.as_os_str().as_bytes())));
            }
            None => left.push(folder),
        }
    }
    let found = left;
    let named: Vec<String> = found.iter().take(NAMED_MAX).map(|folder| human::path(folder.as_os_str().as_bytes())).collect();
    let more = found.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {}", human::count(more as u64, "more folder")) } else { String::new() };
    if !found.is_empty() {
        texts.push(format!(
            "The agent was also seen in {}{more}: no checkpoint of this folder has what it did there.",
            named.join(", ")
        ));
    }
    Ok(texts)
}
