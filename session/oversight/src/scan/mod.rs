//! The scan of a checkpoint's new content for secrets: passwords, keys and tokens that somebody has left in a file.
//!
//! What a capture reads is scanned then, while it is at hand, and entered in a [`Book`]. When the checkpoint is committed, files that were added
//! or changed since the parent are looked up there; content that was not read, because the store has it, is scanned now. A secret that the file
//! had in the parent as well is not news. Nothing is removed: the finding is an event, and whoever reviews decides. Where the user has asked for
//! that, files are left out instead, before anything of them is stored. Neither the event nor any message has the secret's text, nor a part of it.

mod book;
mod detector;
mod fingerprint;
mod known;
mod left_out;
mod likely;
mod literal;
mod new;
mod prefilter;
mod rule;
mod rules;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parhelia_ledger::{PossibleSecret, Scan, kind};
use parhelia_store::{
    Store,
    create::Judge,
    event::{Actor, NewEvent},
    id::Ulid,
};
use serde_json::Value;

pub use book::Book;
pub use detector::{Detector, Finding};
pub use left_out::{LeftOut, is_left_out, judge, left_out_of};
pub use new::{ScanReport, of_new};
pub use rule::Rule;
pub use rules::RULES;

use parhelia_host::{
    Result,
    config::{self, OnFinding},
    draft::Draft,
    notice::{Notice, Secrets},
};

/// Longer files are not scanned: they are data rather than something that a person or an agent writes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// The most findings that are recorded one by one.
pub const FINDINGS_MAX: usize = 50;
/// Findings that a message names.
const FINDINGS_NAMED: usize = 5;

/// The book of a capture: none where nothing is to be scanned, or the reason why it could not be opened.
pub type BookResult = Result<Option<Arc<Book>>>;

/// The judge of a capture, and the book in which it enters what it scans. Fails without a book only where files with secrets are to be left out:
/// none of these may be stored unseen.
pub fn open(store: &Store, settings: &config::Secrets) -> Result<(Option<Judge>, BookResult)> {
    let leaves_out = settings.on_finding == OnFinding::LeaveOut;
    match Book::new(store, settings) {
        Err(e) if leaves_out => Err(e),
        book => Ok((book.as_ref().ok().and_then(|book| Some(book.as_ref()?.judge(leaves_out))), book)),
    }
}

/// Scans a new checkpoint, by what its capture has entered in the book. It is committed by now: a scan that fails does it no harm.
pub fn scan_new(draft: &mut Draft<'_>, book: BookResult) {
    let Draft { store, request, observer, .. } = *draft;
    let made = draft.checkpoint();
    let scan = |book: Option<Arc<Book>>| match book {
        Some(book) => of_new(store, made, &book, request.config.secrets.on_finding, observer),
        None => Ok(None),
    };
    let scanned = book.and_then(scan).unwrap_or_else(|e| {
        observer.warn(&Notice::NotRecorded { what: "the checkpoint was not scanned for secrets", why: e.to_string() });
        None
    });
    let Some(scanned) = scanned else { return };
    let checkpoint = made.record.id;
    notices(checkpoint, &scanned).iter().for_each(|notice| observer.warn(notice));
    draft.findings.push(event(checkpoint, &scanned.scan, draft.actor()));
    draft.scan = Some(scanned.scan);
}

/// The event that tells what a scan of a checkpoint found.
fn event(checkpoint: Ulid, scan: &Scan, actor: &Actor) -> NewEvent {
    let mut event = NewEvent::new(kind::CHECKPOINT_SCANNED, checkpoint.to_string(), actor.clone());
    if let Ok(Value::Object(mut fields)) = serde_json::to_value(scan) {
        // The event has a time of its own.
        fields.remove("at");
        event.data = fields;
    }
    event
}

/// A possible secret as its place and rule.
pub fn named(finding: &PossibleSecret) -> String {
    format!("{}:{} ({})", finding.path, finding.line, finding.rule)
}

/// The things that whoever makes a checkpoint should hear of its scan.
fn notices(checkpoint: Ulid, scanned: &ScanReport) -> Vec<Notice> {
    let scan = &scanned.scan;
    let first = scan.findings.iter().take(FINDINGS_NAMED).map(named).collect();
    let found = (scan.found > 0).then_some(Secrets::Found { checkpoint, found: scan.found, first });
    let files = scanned.left_out.len() as u64;
    let first = scanned.left_out.iter().take(FINDINGS_NAMED).cloned().collect();
    let left_out = (files > 0).then_some(Secrets::LeftOut { checkpoint, files, first });
    let missed = scan.unscanned.not_reached;
    let missed = (missed > 0).then_some(Secrets::NotScanned { checkpoint, files: missed });
    [found, left_out, missed].into_iter().flatten().map(Notice::Secrets).collect()
}
