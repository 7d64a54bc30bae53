//! Verifying a checkpoint that was just made, and noting what a verification found.

use std::collections::BTreeMap;

use parhelia_ledger::{LedgerView as _, kind};
use parhelia_store::{
    Error, Store,
    check::{self, Lack, VerifyReport},
    create::{self, FullWalk},
    event::{Actor, NewEvent},
    progress::Progress,
    record::{Checkpoint, Part},
};
use serde::Deserialize;
use serde_json::json;

use parhelia_agent::transcript::files::TRANSCRIPT;
use parhelia_host::{
    Result,
    draft::Draft,
    notice::Notice,
    state::{CONVERSATION, files_below, state_bytes, state_file},
};

/// Verifies a checkpoint: its trees, so many bytes of its content, and whether what it says it has of the session is there.
pub fn verify(store: &Store, checkpoint: &Checkpoint, content_bytes_max: u64, progress: &dyn Progress) -> Result<VerifyReport> {
    Ok(with_conversation(store, checkpoint, check::verify_up_to(store, checkpoint, content_bytes_max, progress)?))
}

/// Verifies a new checkpoint. Where it was read back and is damaged, another one is captured that stores anew what the store has of it.
pub(crate) fn verify_new(draft: &mut Draft<'_>) {
    draft.verified = Some(of_new(draft));
    if let Some(report) = draft.report().filter(|report| draft.request.deep && !report.is_ok()) {
        // It is known by now what is damaged.
        note(draft.store, report, draft.actor(), draft.observer);
        draft.observer.notice(&Notice::ReusesDamage { checkpoint: draft.checkpoint().record.id }.to_string());
        match create::run_with(draft.store, &draft.options, &FullWalk, &mut *draft.state, draft.observer) {
            Ok(again) if again.skipped => {}
            Ok(again) => {
                draft.outcome = again;
                draft.verified = Some(of_new(draft));
            }
            Err(e) => draft.observer.notice(&Notice::NotStoredAgain { why: e.to_string() }.to_string()),
        }
    }
    let found = draft.report().map(|report| event(report, draft.actor()));
    draft.findings.extend(found);
}

/// Records what the steps of a checkpoint have found, in one append for all.
pub(crate) fn record_findings(draft: &Draft<'_>) {
    if !draft.findings.is_empty() {
        record(draft.store, &draft.findings, draft.observer);
    }
}

/// Verifies what was made. What it shares with its parent, if that was found whole, is not looked at again unless it is read back; the level says so.
fn of_new(draft: &Draft<'_>) -> Result<VerifyReport> {
    let (store, made, progress) = (draft.store, draft.checkpoint(), draft.observer);
    let view = store.refresh()?;
    match draft.request.deep {
        true => verify(store, made, u64::MAX, progress),
        false => {
            let parent = made.record.parent.map(|id| view.checkpoint(id)).transpose()?.flatten();
            let was_whole = |id| view.marks(id).map(|marks| marks.verification.is_some_and(|v| v.ok));
            let parent = parent.filter(|parent| was_whole(parent.record.id).unwrap_or(false));
            Ok(with_conversation(store, made, check::verify_new(store, made, parent.as_ref(), progress)?))
        }
    }
}

/// Adds what is missing of a conversation whose part is there.
fn with_conversation(store: &Store, checkpoint: &Checkpoint, mut report: VerifyReport) -> VerifyReport {
    let is_captured = checkpoint.record.parts.get(CONVERSATION) == Some(&Part::Captured);
    if is_captured && !report.lacks.iter().any(|lack| lack.part == CONVERSATION) {
        // What cannot be read is damage, and was found as such.
        let missing = missing_of_conversation(store, checkpoint).ok().flatten();
        report.lacks.extend(missing.map(|error| Lack { part: CONVERSATION.to_owned(), error }));
    }
    report
}

/// The list of raw files in `conversation.json`.
#[derive(Deserialize)]
struct FileList {
    files: Vec<ListedFile>,
}

#[derive(Deserialize)]
struct ListedFile {
    path: String,
    bytes: Option<u64>,
}

fn missing_of_conversation(store: &Store, checkpoint: &Checkpoint) -> Result<Option<String>> {
    let folder = state_file(store, checkpoint, CONVERSATION)?.and_then(|node| node.as_folder().map(|(tree, _)| tree));
    let files = folder.map(|tree| files_below(store, tree)).transpose()?.unwrap_or_default();
    let sizes: BTreeMap<String, u64> =
        files.into_iter().map(|(path, node)| (format!("{CONVERSATION}/{path}"), node.size())).collect();
    let transcript = format!("{CONVERSATION}/{TRANSCRIPT}");
    if !sizes.contains_key(&transcript) {
        return Ok(Some(format!("{transcript} is missing")));
    }
    let index = format!("{CONVERSATION}.json");
    let Some(bytes) = state_bytes(store, checkpoint, &index)? else { return Ok(Some(format!("{index} is missing"))) };
    let Ok(listed) = serde_json::from_slice::<FileList>(&bytes) else { return Ok(Some(format!("{index} does not decode"))) };
    // Of a file whose length was not known beforehand, none is listed.
    let wrong =
        listed.files.into_iter().find(|file| sizes.get(&file.path).is_none_or(|size| file.bytes.unwrap_or(*size) != *size));
    Ok(wrong.map(|file| format!("{} is not there as {index} lists it", file.path)))
}

/// Notes what a verification found.
pub fn note(store: &Store, report: &VerifyReport, actor: &Actor, progress: &dyn Progress) {
    record(store, &[event(report, actor)], progress);
}

/// The event that tells what a verification found.
fn event(report: &VerifyReport, actor: &Actor) -> NewEvent {
    let event = NewEvent::new(kind::CHECKPOINT_VERIFIED, report.checkpoint.to_string(), actor.clone())
        .with("level", json!(report.level))
        .with("ok", report.is_ok())
        .with("problems", report.problems.len() as u64 + report.problems_more)
        .with("read_bytes", report.read_bytes)
        .with("unread_bytes", report.unread_bytes);
    match report.is_complete() {
        true => event,
        false => event.with("incomplete", json!(report.lacks.iter().map(|lack| &lack.part).collect::<Vec<_>>())),
    }
}

/// Appends findings about a checkpoint, as far as the store can be written to. What was found is found, whether it can be noted or not.
pub fn record(store: &Store, findings: &[NewEvent], progress: &dyn Progress) {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match store.append_events(findings, progress) {
        // It may have been deleted meanwhile, or lie on a medium that cannot be written to.
        Ok(_) | Err(Error::NoCheckpoint { .. }) => {}
        Err(Error::Io { source, .. }) if matches!(source.kind(), ReadOnlyFilesystem | PermissionDenied) => {}
        Err(e) => progress.notice(&format!("what was found about the checkpoint is not recorded: {e}")),
    }
}
