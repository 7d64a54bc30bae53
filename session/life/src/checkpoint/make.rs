//! The steps of a checkpoint, in their order.

use parhelia_ledger::Scan;
use parhelia_store::{Store, check::VerifyReport, create::Outcome, record::Part};

use crate::{capture, retention, verification};
use parhelia_host::{
    Host, Observer, Result,
    draft::{CheckpointRequest, Draft},
};
use parhelia_knowledge::summary;
use parhelia_oversight::{approval::automatic, scan};

/// Makes a checkpoint, and verifies it. What could not be captured beside the workspace is a failed part of it.
///
/// A folder that has taken the place of the session's is captured, which is said; the session's recorded folder stays, so that resuming and rolling
/// back go on to refuse it.
pub fn make(
    store: &Store,
    host: &dyn Host,
    request: &CheckpointRequest<'_>,
    observer: &dyn Observer,
) -> Result<CheckpointReport> {
    let (mut draft, book) = capture::take(store, host, request, observer)?;
    if draft.outcome.skipped {
        return Ok(CheckpointReport::of(draft, None));
    }
    verification::verify_new(&mut draft);
    capture::warn_if_large(&draft);
    capture::warn_if_shorter(&draft);
    scan::scan_new(&mut draft, book);
    automatic::decide(&mut draft);
    verification::record_findings(&draft);
    summary::renew(&draft);
    let thinned = retention::thin_after(&draft);
    Ok(CheckpointReport::of(draft, thinned))
}

/// A checkpoint that was made, and whether it is whole.
#[derive(Debug)]
pub struct CheckpointReport {
    /// The checkpoint, or where nothing had changed the last one.
    pub outcome: Outcome,
    /// The finding of its verification, or why it could not be verified; it is committed all the same. None where nothing had changed, and
    /// nothing was made.
    pub verified: Option<Result<VerifyReport>>,
    /// The scan of its new content for secrets. None where nothing was new, nothing was to be scanned, or that failed, of which the observer
    /// has been told.
    pub scan: Option<Scan>,
    /// A sentence about the captured folder, where it is not the session's own; the observer has been told.
    pub notice: Option<String>,
    /// The older checkpoints that retention has removed.
    pub thinned: Option<retention::RetentionReport>,
}

impl CheckpointReport {
    fn of(draft: Draft<'_>, thinned: Option<retention::RetentionReport>) -> Self {
        let Draft { outcome, verified, scan, notice, .. } = draft;
        CheckpointReport { outcome, verified, scan, notice, thinned }
    }

    /// The parts that could not be captured, each with why.
    pub fn failed(&self) -> impl Iterator<Item = String> {
        let parts = (!self.outcome.skipped).then_some(&self.outcome.checkpoint.record.parts);
        let parts = parts.into_iter().flatten().filter_map(|(name, part)| match part {
            Part::Failed { error } => Some(format!("{name} could not be captured: {error}")),
            _ => None,
        });
        parts.chain(self.unverified().map(|e| format!("it could not be verified: {e}")))
    }

    /// The report of its verification.
    pub fn report(&self) -> Option<&VerifyReport> {
        self.verified.as_ref()?.as_ref().ok()
    }

    /// The reason why it could not be verified.
    pub fn unverified(&self) -> Option<&parhelia_host::Error> {
        self.verified.as_ref()?.as_ref().err()
    }

    /// True if something was made that is damaged.
    pub fn is_damaged(&self) -> bool {
        self.report().is_some_and(|report| !report.is_ok())
    }

    /// True if everything is there that belongs to it, and was verified.
    pub fn is_complete(&self) -> bool {
        let is_complete = self.outcome.checkpoint.is_complete() && self.unverified().is_none();
        is_complete && self.report().is_none_or(VerifyReport::is_complete)
    }
}
