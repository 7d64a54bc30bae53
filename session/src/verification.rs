//! Verifying a checkpoint that was just made, and noting what a verification found.

use parhelia_store::{
    Error, Store,
    check::{self, VerifyReport},
    event::{Actor, NewEvent, kind},
    fold::VerifyLevel,
    progress::Progress,
    record::Checkpoint,
};
use serde_json::json;

use crate::Result;

/// Verifies what was made, and notes what was found. What it shares with its parent, if that was found whole, is not looked at again
/// unless `deep`.
pub fn of_new(store: &Store, made: &Checkpoint, deep: bool, actor: &Actor, progress: &dyn Progress) -> Result<VerifyReport> {
    let view = store.refresh()?;
    let report = match deep {
        true => check::verify(store, made, true, progress)?,
        false => {
            let parent = made.record.parent.map(|id| view.checkpoint(id)).transpose()?.flatten();
            let was_whole = |id| view.marks(id).map(|marks| marks.verification.is_some_and(|v| v.ok));
            let parent = parent.filter(|parent| was_whole(parent.record.id).unwrap_or(false));
            check::verify_new(store, made, parent.as_ref(), progress)?
        }
    };
    note(store, &report, actor, progress)?;
    Ok(report)
}

/// Notes what a verification found, as far as the store can be written to.
pub fn note(store: &Store, report: &VerifyReport, actor: &Actor, progress: &dyn Progress) -> Result<()> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let level = if report.deep { VerifyLevel::Deep } else { VerifyLevel::Index };
    let event = NewEvent::new(kind::CHECKPOINT_VERIFIED, report.checkpoint.to_string(), actor.clone())
        .with("level", json!(level))
        .with("ok", report.is_ok())
        .with("problems", report.problems.len() as u64 + report.problems_more);
    match store.append_events(&[event], progress) {
        // It may have been deleted meanwhile; and what was found is true on a medium that cannot be written to, as well.
        Ok(_) | Err(Error::NoCheckpoint { .. }) => Ok(()),
        Err(Error::Io { source, .. }) if matches!(source.kind(), ReadOnlyFilesystem | PermissionDenied) => Ok(()),
        // What was found is found, whether it can be noted or not.
        Err(e @ Error::Locked { .. }) => {
            progress.notice(&format!("what was verified is not recorded: {e}"));
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}
