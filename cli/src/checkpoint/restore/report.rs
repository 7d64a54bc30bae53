//! The plan and the outcome of `checkpoint restore`, as they are printed.

use parhelia_life::restore::{Restore, RestoreOutcome};
use parhelia_screen::human;
use parhelia_store::name::NameExt as _;
use parhelia_store::{
    progress::Progress,
    record::Checkpoint,
    restore::{Counts, Plan, RestoreChange, SkippedEntry},
};
use parhelia_wire::{self as wire, Line, Summary, tree::Action};

use super::{Args, shown};
use crate::{
    context::Context,
    exit::{Code, Result},
    progress::Bar,
    rollback::report::{mark, print_left},
    words,
};

/// Prints what would be done.
pub fn dry_run(context: &mut Context, checkpoint: &Checkpoint, planned: &Restore<'_>) -> Result<Code> {
    let plan = planned.plan();
    print_changes(context, plan)?;
    let skipped: Vec<SkippedEntry> = plan.blocked().collect();
    print_left(context, &skipped)?;
    planned.ensure_of_use()?;
    let counts = counts_text(&plan.summary.counts, "to write", skipped.len());
    context.out.remark(format!("Would restore {} to {}: {counts}.", checkpoint.id(), shown(&plan.target())))?;
    for (folder, session) in planned.secured() {
        context.out.remark(format!("Would first make a safety checkpoint of {} (session {session}).", shown(folder)))?;
    }
    context.out.summary(Summary::CheckpointRestore(Box::new(wire::summary::RestoreOutcome {
        id: checkpoint.id(),
        dry_run: true,
        target: plan.summary.target.clone(),
        in_place: plan.summary.in_place,
        counts: plan.summary.counts.clone(),
        skipped: skipped.len() as u64,
        verified: None,
        safety: None,
        safeties: Vec::new(),
        live_agents: planned.live().to_vec(),
        unsecured: planned.unsecured().entries as u64,
        foreign_owners: 0,
        parted: Vec::new(),
        links_outside: Vec::new(),
    })))?;
    Ok(if skipped.is_empty() { Code::Done } else { Code::Partly })
}

/// So many hard-linked files are named that were restored without some of their names, and so many names of each.
const PARTED_MAX: usize = 10;

const NAMES_MAX: usize = 3;

/// The first of some paths.
fn named(paths: &[String]) -> String {
    let more = paths.len().saturating_sub(NAMES_MAX);
    let first = paths[..paths.len() - more].join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

/// Says what was done.
pub fn print(
    context: &mut Context,
    args: &Args,
    checkpoint: &Checkpoint,
    restored: &RestoreOutcome,
    progress: Bar,
) -> Result<()> {
    let RestoreOutcome { target, report, safeties, live, unsecured } = restored;
    for parted in report.parted.iter().take(PARTED_MAX) {
        let others = if parted.outside.len() == 1 {
            "its other name in the checkpoint lies"
        } else {
            "its other names in the checkpoint lie"
        };
        progress.notice(&format!(
            "{}: {others} outside of what was restored ({}), and what is there is not linked to it",
            named(&parted.names),
            named(&parted.outside)
        ));
    }
    if let Some(more) = report.parted.len().checked_sub(PARTED_MAX).filter(|more| *more > 0) {
        progress.notice(&format!("{more} more hard-linked files have names outside of what was restored"));
    }
    if report.foreign_owners > 0 {
        let entries = human::count(report.foreign_owners, "entry");
        progress.notice(&format!("{entries} belong to you instead of their owner; only root can give files away"));
    }
    drop(progress);
    print_left(context, &report.skipped)?;
    for safety in safeties {
        context.out.remark(words::safety_remark(safety))?;
    }
    restored.ensure_of_use(checkpoint)?;
    let counts = counts_text(&report.counts, "written", report.skipped.len());
    context.out.remark(format!("Restored {} to {}: {counts}.", checkpoint.id(), shown(target)))?;
    context.out.summary(Summary::CheckpointRestore(Box::new(wire::summary::RestoreOutcome {
        id: checkpoint.id(),
        dry_run: false,
        target: target.shown(),
        in_place: args.in_place,
        counts: report.counts.clone(),
        skipped: report.skipped.len() as u64,
        verified: Some(args.verify),
        safety: safeties.first().map(|safety| safety.id.clone()),
        safeties: safeties.to_vec(),
        live_agents: live.to_vec(),
        unsecured: unsecured.entries as u64,
        foreign_owners: report.foreign_owners,
        parted: report.parted.clone(),
        links_outside: report.links_outside.clone(),
    })))
}

/// Every path that something happens to, deletions first: they cannot be undone by restoring again.
pub fn print_changes(context: &mut Context, plan: &Plan) -> Result<()> {
    let mut changes: Vec<(bool, Vec<u8>, RestoreChange)> = Vec::new();
    let is_kept = |change| !matches!(change, RestoreChange::Delete | RestoreChange::Empty);
    plan.each_change(&mut |change, path| changes.push((is_kept(change), path.to_vec(), change)))?;
    changes.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    for (_, path, change) in changes {
        let (mark, _, style) = mark(change);
        let action = Action::of(&path, change);
        let mark = context.out.styled(style, mark);
        let rest = if change == RestoreChange::Empty { " (emptied, but for what stays)" } else { "" };
        context.out.line(format!("{mark} {}{rest}", action.path))?;
        context.out.object(Line::Action(action))?;
    }
    Ok(())
}

fn counts_text(counts: &Counts, written: &str, skipped: usize) -> String {
    let parts = [
        (counts.linked, "made a hard link"),
        (counts.metadata_changed, "given other metadata"),
        (counts.deleted, "removed"),
        (counts.kept, "kept that the checkpoint does not have"),
        (counts.spared, "spared that its capture left out"),
        (counts.mounted, "left alone as mounts"),
        (counts.unchanged, "unchanged"),
        (skipped as u64, "not restored"),
    ];
    let files = format!("{}, {} {written}", human::count(counts.files, "file"), human::size(counts.bytes));
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", human::number(*n))).collect();
    if parts.is_empty() { files } else { format!("{files}; {}", parts.join(", ")) }
}
