//! Checks of the journal, of its events, and of what the view makes of it.

use parhelia_name::step::Step;
use std::path::Path;

use crate::{
    check::{AffectedPath, CheckReport, Finding, FindingKind},
    error::Result,
    journal::{Entry, Journal, Position, Tail},
    layout::Layout,
    record::Checkpoint,
    view::View,
};

/// The journal's chain, and whether the view shows what the journal tells.
pub(crate) fn check_journal(layout: &Layout, view: &View, checkpoints: &[Checkpoint], report: &mut CheckReport) -> Result<()> {
    let tail = match Journal::of(layout).read(&Position::start()) {
        Ok(tail) => tail,
        Err(e) => {
            report.add(FindingKind::Journal, e.to_string());
            return Ok(());
        }
    };
    let place = layout.journal();
    check_end(&tail, &place, report);
    check_events(layout, &tail, report);
    let schemas = tail.records.iter().filter(|logged| logged.event_hash.is_some() && matches!(logged.entry, Entry::Unknown(_)));
    for event in schemas {
        let message = format!(
            "event {} in {} has a schema that this release does not know; use a newer parhelia",
            event.sequence,
            place.display()
        );
        report.add(FindingKind::Record, message);
    }
    let grown = tail.end.sequence > view.end().sequence && view.is_stale()?;
    if !grown && tail.end != *view.end() {
        report.add(FindingKind::Index, rebuild("the index was derived from another place in the journal"));
    }
    let truth = match View::of_journal(layout, &tail) {
        Ok(truth) => truth,
        Err(e) => {
            report.add(FindingKind::Journal, e.to_string());
            return Ok(());
        }
    };
    for unreadable in truth.unreadable()? {
        let checkpoint = unreadable.id.map(|checkpoint| AffectedPath { checkpoint, path: String::new() });
        let finding = Finding::new(FindingKind::Record, unreadable.to_string());
        report.push(Finding { touches: checkpoint.into_iter().collect(), ..finding });
    }
    if grown {
        report.notes.push("the store was written to during the check; what is new was not looked at".into());
        return Ok(());
    }
    compare_views(&truth, view, checkpoints, report)
}

fn rebuild(fault: &str) -> String {
    format!("{fault}; run {}", Step::RebuildInCheck)
}

/// The end of the journal: no committed record may be missing behind it.
fn check_end(tail: &Tail, place: &Path, report: &mut CheckReport) {
    if tail.missing > 0 {
        let (last, synced) = (tail.end.sequence, tail.end.sequence + tail.missing);
        let message = format!(
            "the journal in {} ends with record {last}, but record {synced} was committed: {} records are missing, because the journal was cut \
             short, or copied while it was written to; gc keeps their packs, and {} makes a new store of what packs hold",
            place.display(),
            tail.missing,
            Step::Salvage
        );
        report.add(FindingKind::Journal, message);
    }
    for (first, last) in &tail.lost {
        let of = if first == last { format!("record {first} was") } else { format!("records {first} to {last} were") };
        report.notes.push(format!("the journal's {of} lost for good, as an earlier repair found"));
    }
    if tail.is_doubtful {
        let (after, bytes) = (tail.end.sequence, tail.torn_bytes);
        let message = format!(
            "the journal in {} has {bytes} bytes behind record {after} that do not decode, although none is missing: a committed record may be \
             damaged",
            place.display()
        );
        report.add(FindingKind::Journal, message);
    } else if tail.torn_bytes > 0 {
        report.notes.push(format!("the journal ends with {} bytes of an append that was cut off", tail.torn_bytes));
    }
}

/// Compares the view with `truth`, the one that the journal adds up to.
fn compare_views(truth: &View, view: &View, checkpoints: &[Checkpoint], report: &mut CheckReport) -> Result<()> {
    if truth.checkpoints()? != checkpoints || truth.unreadable()? != view.unreadable()? {
        report.add(FindingKind::Index, rebuild("the index and the journal tell of different checkpoints"));
    }
    if truth.last_event()? != view.last_event()? || !truth.has_same_fold(view)? {
        let message = "the index and the journal tell of different sessions, runs, tags or decisions";
        report.add(FindingKind::Index, rebuild(message));
    }
    if truth.packs()? != view.packs()? {
        report.add(FindingKind::Index, rebuild("the index and the journal tell of different packs"));
    }
    Ok(())
}

/// The chain of events: each names the hash of the one before it. Events that were written before there was a chain name none.
fn check_events(layout: &Layout, tail: &Tail, report: &mut CheckReport) {
    let mut last: Option<&String> = None;
    let mut begun = false;
    let mut lost = tail.lost.iter().map(|(_, last)| *last).peekable();
    let mut is_behind_gap = false;
    for logged in &tail.records {
        while lost.next_if(|lost| *lost < logged.sequence).is_some() {
            is_behind_gap = true;
        }
        let Some(hash) = &logged.event_hash else { continue };
        report.events += 1;
        let previous = match &logged.entry {
            Entry::Event(event) => event.previous.as_deref(),
            Entry::Unknown(value) => value.get("previous").and_then(|previous| previous.as_str()),
            _ => None,
        };
        begun |= previous.is_some();
        // The event that the first one behind a gap names may be among those that are lost.
        let is_loose = std::mem::take(&mut is_behind_gap);
        if begun && !is_loose && previous != last.map(String::as_str) {
            let place = layout.journal();
            let message = format!("event {} in {} does not continue the chain of events", logged.sequence, place.display());
            report.add(FindingKind::Journal, message);
        }
        last = Some(hash);
    }
}
