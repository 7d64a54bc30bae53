//! Failures of a restore that are known before it begins.

#![expect(clippy::disallowed_methods, reason = "reads what is in the place of a restore")]

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use parhelia_store::{
    name,
    record::Checkpoint,
    restore::{Counts, SkippedEntry, Why},
};
use rustix::fs::OFlags;

use crate::overwrite::display;
use parhelia_host::{Error, Refusal, Result};

/// Fails where nothing is done, nothing is as it should be, and something could not be restored.
pub(super) fn ensure_of_use(checkpoint: &Checkpoint, target: &Path, counts: &Counts, skipped: &[SkippedEntry]) -> Result<()> {
    let mut failed = skipped.iter().filter(|skipped| matches!(skipped.why, Why::Failed | Why::Held | Why::Taken));
    match failed.next().filter(|_| counts.is_nothing()) {
        None => Ok(()),
        Some(first) => Err(Error::NothingRestored {
            checkpoint: checkpoint.record.id,
            target: target.to_owned(),
            path: if first.path.is_empty() { ".".into() } else { name::display(&first.path) },
            reason: first.error.clone(),
            more: failed.count(),
        }),
    }
}

/// Refuses where one of these paths, or something in it, cannot be read, so that no safety checkpoint could hold it.
pub(super) fn ensure_readable(paths: &[PathBuf], target: &Path) -> Result<()> {
    let mut left = paths.to_vec();
    while let Some(path) = left.pop() {
        match readable(&path) {
            Ok(inside) => left.extend(inside),
            Err(e) => {
                let path = display(path.strip_prefix(target).unwrap_or(&path));
                return Err(Refusal::CannotKeep { path, why: e.to_string() }.into());
            }
        }
    }
    Ok(())
}

/// Opens what a checkpoint would read, and returns what is in it, if it is a folder. What is gone needs no copy.
fn readable(path: &Path) -> io::Result<Vec<PathBuf>> {
    let read = || -> io::Result<Vec<PathBuf>> {
        let found = path.symlink_metadata()?;
        if found.is_dir() {
            return fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect();
        }
        if found.is_file() {
            // It may have become a pipe, for whose writer nobody waits.
            let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
            fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        }
        Ok(Vec::new())
    };
    match read() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}
