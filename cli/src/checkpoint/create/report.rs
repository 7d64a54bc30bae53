//! The outcome of `checkpoint create`, as it is printed.

use std::time::Instant;

use parhelia_host::state::CONVERSATION;
use parhelia_life::checkpoint::{CheckpointReport, SavedWork};
use parhelia_screen::human;
use parhelia_store::{
    Store,
    check::VerifyReport,
    omitted::{Omission, Reason},
    record::{Checkpoint, Part},
};
use parhelia_wire::{
    Line, Summary,
    checkpoint::PartState,
    summary::{self, CreateOutcome},
};

use crate::{
    changed,
    checkpoint::show,
    context::Context,
    exit::{Code, Result},
    output::Style,
    progress::Bar,
    thinned,
};

/// The next step where the conversation was not found.
const NAME_IT: &str = "; name it with --transcript or --stream-json, or give --no-conversation";
/// At most this many damaged paths of a new checkpoint are named.
const PROBLEMS_SHOWN: usize = 20;

/// Prints the outcome. Returns the exit code that says whether the checkpoint is whole, and has everything that was listed: `missing` is what
/// was listed and is not in it.
pub fn print(
    context: &mut Context,
    store: &Store,
    made: &CheckpointReport,
    missing: &[Omission],
    began: Instant,
) -> Result<Code> {
    let outcome = &made.outcome;
    let id = outcome.checkpoint.id();
    if let Some(e) = made.unverified() {
        tell!("parhelia: checkpoint {id} is made, but could not be verified: {e}");
    }
    context.out.did(format!("checkpoint {id} {}", if outcome.skipped { "is as the workspace" } else { "is made" }));
    if let Some(removed) = made.thinned.as_ref().and_then(thinned::removed_text) {
        context.out.did(removed);
    }
    let left_out = LeftOut::count(outcome.omissions.iter().chain(missing));
    omissions(context, &outcome.omissions)?;
    omissions(context, missing)?;
    result(context, store, made, &left_out, began)?;
    if let Some(report) = made.report() {
        problems(report, &id);
    }
    shortfalls(made, &left_out);
    if let Some(pruned) = &made.thinned {
        thinned::announce(&mut context.out, pruned)?;
    }
    let created = created(made, &left_out, began);
    context.out.summary(Summary::CheckpointCreate(Box::new(created)))?;
    Ok(match (made.is_damaged(), made.is_complete() && missing.is_empty()) {
        (true, _) => Code::Corrupt,
        (_, false) => Code::Partly,
        _ => Code::Done,
    })
}

/// The numbers of entries that are not in a checkpoint, by reason.
#[derive(Default)]
struct LeftOut {
    excluded: u64,
    unreadable: u64,
    changing: u64,
    attributes: u64,
}

impl LeftOut {
    fn count<'o>(omissions: impl Iterator<Item = &'o Omission>) -> Self {
        let mut counts = LeftOut::default();
        for omission in omissions {
            match omission.reason {
                Reason::Excluded(_) => counts.excluded += 1,
                Reason::Unreadable(_) => counts.unreadable += 1,
                Reason::Changing => counts.changing += 1,
                Reason::Attributes(_) => counts.attributes += 1,
            }
        }
        counts
    }
}

fn omissions(context: &mut Context, omissions: &[Omission]) -> Result<()> {
    for omission in omissions {
        context.out.object(Line::Omission(omission.into()))?;
        if !matches!(omission.reason, Reason::Excluded(_)) {
            tell!("parhelia: {}", changed::omission_text(omission));
        } else if context.global.verbose {
            context.out.line(changed::omission_text(omission))?;
        }
    }
    Ok(())
}

/// The checkpoint in two or three lines; with `--quiet` its id alone.
fn result(context: &mut Context, store: &Store, made: &CheckpointReport, left_out: &LeftOut, began: Instant) -> Result<()> {
    let outcome = &made.outcome;
    let checkpoint = &outcome.checkpoint;
    let record = &checkpoint.record;
    let id = context.out.styled(Style::Bold, checkpoint.id());
    if context.global.quiet {
        context.out.line(checkpoint.id())?;
    }
    if outcome.skipped {
        return context
            .out
            .remark(format!("Nothing has changed in {} since checkpoint {id}; none was made.", record.workspace.path));
    }
    let (files, size) = (human::count(record.workspace.files, "file"), human::size(record.workspace.bytes));
    let (new, stored) = (human::size(outcome.new_bytes), human::size(outcome.stored_bytes));
    let seconds = began.elapsed().as_secs_f64();
    steps(&context.progress(), checkpoint, made.report());
    context.out.remark(format!("Checkpoint {id} of {} created (session {}).", record.workspace.path, record.session))?;
    context.out.remark(format!("{files}, {size}; {new} new, {stored} stored, in {seconds:.2} s."))?;
    // What cannot be read of it is told by the verbs that read it.
    if let Some(work) = SavedWork::of(store, checkpoint).ok().flatten() {
        context.out.remark(format!("Of the conversation it has {}.", work.text()))?;
    }
    if left_out.excluded > 0 {
        let verbose = if outcome.omissions.len() > show::OMISSIONS_SHOWN { " -v" } else { "" };
        context
            .out
            .remark(format!("Left out {} (`checkpoint show{verbose}` names them).", human::count(left_out.excluded, "entry")))?;
    }
    Ok(())
}

/// Names damaged paths of the new checkpoint.
fn problems(report: &VerifyReport, id: &str) {
    for problem in report.problems.iter().take(PROBLEMS_SHOWN) {
        tell!("parhelia: {}: {}", problem.path, problem.error);
    }
    let more = report.problems_more + report.problems.len().saturating_sub(PROBLEMS_SHOWN) as u64;
    if more > 0 {
        tell!("parhelia: and {more} more; `parhelia checkpoint verify {id}` lists them");
    }
}

/// Names what keeps the checkpoint from being the session's newest whole state.
fn shortfalls(made: &CheckpointReport, left_out: &LeftOut) {
    let record = &made.outcome.checkpoint.record;
    if record.fenced {
        tell!(
            "parhelia: a newer run has taken over session {}; the checkpoint is kept, fenced, and is not its head",
            record.session
        );
    }
    let shortfalls = [
        (left_out.unreadable, "not read"),
        (left_out.changing, "changing while read"),
        (left_out.attributes, "without some attributes"),
    ];
    let shortfalls = shortfalls.iter().filter(|(entries, _)| *entries > 0).map(|(entries, why)| format!("{entries} {why}"));
    let shortfalls = shortfalls.collect::<Vec<_>>().join(", ");
    if !shortfalls.is_empty() {
        tell!("parhelia: the checkpoint is partial: {shortfalls}");
    }
    for (part, state) in &record.parts {
        if let Part::Failed { error } = state {
            let next = if part == CONVERSATION { NAME_IT } else { "" };
            tell!("parhelia: the checkpoint is incomplete: {part}: {error}{next}");
        }
    }
    // Parts that failed were named already.
    let lacks = made.report().into_iter().flat_map(|report| &report.lacks);
    for lack in lacks.filter(|lack| record.parts.get(&lack.part) == Some(&Part::Captured)) {
        tell!("parhelia: the checkpoint is incomplete: {}: {}", lack.part, lack.error);
    }
}

fn created(made: &CheckpointReport, left_out: &LeftOut, began: Instant) -> CreateOutcome {
    let outcome = &made.outcome;
    let checkpoint = &outcome.checkpoint;
    let record = &checkpoint.record;
    CreateOutcome {
        id: Some(checkpoint.id()),
        dry_run: false,
        session: record.session.clone(),
        workspace: record.workspace.path.clone(),
        skipped: outcome.skipped,
        parent: record.parent.map(|id| id.to_string()),
        files: record.workspace.files,
        entries: record.workspace.entries,
        bytes: record.workspace.bytes,
        excluded: left_out.excluded,
        unreadable: left_out.unreadable,
        changing: left_out.changing,
        attributes: left_out.attributes,
        made: Some(summary::NewCheckpoint {
            depth: record.depth,
            epoch: record.epoch,
            fenced: record.fenced,
            root: record.root.to_string(),
            checksum: checkpoint.checksum(),
            files_read: outcome.files_read,
            bytes_read: outcome.bytes_read,
            new_bytes: outcome.new_bytes,
            stored_bytes: outcome.stored_bytes,
            parts: PartState::of_all(record),
            complete: made.is_complete(),
            verified: made.report().map(VerifyReport::is_ok),
            scan: made.scan.as_ref().map(Into::into),
            removed: made.thinned.as_ref().map_or(0, |report| report.removed.len() as u64),
            lock_held_ms: outcome.lock_held_ms,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        }),
        changes: None,
    }
}

/// Says what was done, step by step, to whoever looks on: standard output has the result alone.
fn steps(progress: &Bar, checkpoint: &Checkpoint, verified: Option<&VerifyReport>) {
    let record = &checkpoint.record;
    let outcome = |part: &str| match record.parts.get(part) {
        None | Some(Part::Absent | Part::Unknown) => None,
        Some(Part::Captured) => Some("done".to_owned()),
        Some(Part::NotAsked) => Some("not asked".to_owned()),
        Some(Part::Failed { .. }) => Some("failed".to_owned()),
    };
    let mut steps = Vec::new();
    steps.extend(outcome("conversation").map(|done| ("Capturing conversation state", done)));
    steps.push(("Snapshotting workspace", format!("done ({})", human::size(record.workspace.bytes))));
    let parts = [("environment", "Capturing environment"), ("git", "Recording git state"), ("tmux", "Saving tmux layout")];
    for (part, text) in parts {
        steps.extend(outcome(part).map(|done| (text, done)));
    }
    if let Some(report) = verified {
        steps.push(("Verifying checkpoint", if report.is_ok() { "done" } else { "failed" }.to_owned()));
    }
    progress.step(&format!("Creating {} checkpoint...", record.trigger.name()));
    let last = steps.len() - 1;
    for (i, (text, done)) in steps.iter().enumerate() {
        let branch = if i == last { "└──" } else { "├──" };
        progress.step(&format!("  {branch} {text}... {done}"));
    }
    progress.step("");
}
