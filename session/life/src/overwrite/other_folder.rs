//! Refusals of a restore in place.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_store::{Store, name, record::Checkpoint, restore::Plan};

use super::{SessionFolder, display, origins, overwritten};
use parhelia_host::{Refusal, Result};

/// The part of a session's folder that a restore in place overwrites.
#[derive(Clone, Debug)]
pub(crate) struct Overwritten {
    pub folder: SessionFolder,
    /// The paths in it; none where nothing is overwritten there.
    pub paths: Vec<PathBuf>,
}

impl Overwritten {
    /// The session that gets the safety checkpoint.
    pub fn session(&self, restored: &Checkpoint) -> &str {
        self.folder.keeper(restored).map(|session| session.id.as_str()).unwrap_or_default()
    }
}

/// Fails where something would be overwritten by what is neither of a checkpoint of the folder that it is in, nor was captured at the very
/// place that it goes to; and where another folder has taken the place of the session's. In a session's folder, a selector that does not name
/// the session (`is_relative`) is refused also where nothing is overwritten.
pub(crate) fn refuse_another(
    store: &Store,
    reached: &[Overwritten],
    plan: &Plan,
    (restored, subpath): (&Checkpoint, &[u8]),
    is_relative: bool,
) -> Result<()> {
    let target = plan.target();
    let refused = |why: String| Err(Refusal::OtherFolder { why, checkpoint: restored.id() }.into());
    for found in reached.iter().filter(|found| !found.paths.is_empty()) {
        if let Some((text, true)) = found.folder.standing(restored) {
            let entries = entries(found.paths.len());
            return refused(format!("{text}. There, {entries} would be overwritten or removed"));
        }
    }
    if origins(&store.view(), restored, subpath)?.contains(&target) {
        return Ok(());
    }
    let record = &restored.record;
    let is_another = |found: &&Overwritten| (is_relative || !found.paths.is_empty()) && !found.folder.is_of(restored);
    let Some(found) = reached.iter().find(is_another) else {
        // Outside of sessions' folders no safety checkpoint holds what is there.
        return match unsecured(plan, reached, false)?.text(&target) {
            None => Ok(()),
            Some(text) => refused(format!(
                "checkpoint {} is of {} (session {}), and {text}",
                restored.id(),
                record.workspace.path,
                record.session
            )),
        };
    };
    let own = found.session(restored);
    let own_target = found.folder.own_path(&target);
    let inside = own_target.strip_prefix(&found.folder.path).unwrap_or(Path::new("")).as_os_str().as_bytes();
    let place = match inside.is_empty() {
        true => format!("{} is", found.folder.shown()),
        false => format!("{} is in", display(&target)),
    };
    let colon: &[u8] = if inside.is_empty() { b"" } else { b":" };
    let newest = name::shell(&[own.as_bytes(), b"@latest", colon, inside].concat());
    let folder = if inside.is_empty() { String::new() } else { format!(", {}", found.folder.shown()) };
    refused(format!(
        "checkpoint {} is of {} (session {}), and {place} the folder of session {own}{folder}, where {} would be overwritten or removed: \
         {newest} is the newest checkpoint of that",
        restored.id(),
        record.workspace.path,
        record.session,
        entries(found.paths.len()),
    ))
}

fn entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

/// Entries that a restore overwrites or removes and that no safety checkpoint holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnsecuredEntries {
    /// Their number; a folder that goes as a whole is one.
    pub entries: usize,
    is_all: bool,
}

/// Entries that a plan overwrites outside of the folders that sessions work in, or everywhere where no safety checkpoint is wanted.
pub(crate) fn unsecured(plan: &Plan, reached: &[Overwritten], no_safety: bool) -> Result<UnsecuredEntries> {
    let paths = overwritten(plan)?;
    let is_secured = |path: &&PathBuf| !no_safety && reached.iter().any(|found| path.starts_with(&found.folder.path));
    let secured = paths.iter().filter(is_secured).count();
    Ok(UnsecuredEntries { entries: paths.len() - secured, is_all: secured == 0 })
}

impl UnsecuredEntries {
    /// A sentence about them, where there are any.
    pub fn text(&self, target: &Path) -> Option<String> {
        let (entries, target) = (entries(self.entries), display(target));
        let are = if self.entries == 1 { "is" } else { "are" };
        match (self.entries, self.is_all) {
            (0, _) => None,
            (_, true) => Some(format!(
                "no session works in {target}: no safety checkpoint is made of {entries} that {are} overwritten or removed"
            )),
            (_, false) => Some(format!(
                "outside of the sessions' folders in {target}, no safety checkpoint is made of {entries} that {are} overwritten or removed"
            )),
        }
    }
}
