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
mod rules;
#[cfg(test)]
mod tests;

use parhelia_ledger::{PossibleSecret, Scan, kind};
use parhelia_store::{
    event::{Actor, NewEvent},
    id::Ulid,
};
use serde_json::Value;

pub use book::Book;
pub use detector::{Detector, Found};
pub use left_out::{LeftOut, is_left_out, judge, left_out_of};
pub use new::{Scanned, of_new};
pub use rules::{RULES, Rule};

use parhelia_host::notice::{Notice, Secrets};

/// Longer files are not scanned: they are data rather than something that a person or an agent writes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// The most findings that are recorded one by one.
pub const FINDINGS_MAX: usize = 50;
/// Findings that a message names.
const FINDINGS_NAMED: usize = 5;

/// The event that tells what a scan of a checkpoint found.
pub fn event(checkpoint: Ulid, scan: &Scan, actor: &Actor) -> NewEvent {
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
pub fn notices(checkpoint: Ulid, scanned: &Scanned) -> Vec<Notice> {
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
