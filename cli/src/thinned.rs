//! Removals by retention, as they are said behind another verb's own work.

use std::collections::BTreeMap;

use parhelia_life::retention::{RemovalReason, RetentionReport};
use parhelia_screen::human;
use parhelia_store::id::Ulid;
use parhelia_wire::{Line, checkpoint::Retention};

use crate::{exit::Result, output::Output};

/// The most removed checkpoints that are named.
const NAMED_MAX: usize = 10;

/// The checkpoints that retention removed, in one line; `None` where it removed none.
pub fn removed_text(report: &RetentionReport) -> Option<String> {
    removed_list(&report.reasons())
}

/// The same of these checkpoints, each with the reason.
pub fn removed_list(removed: &[(Ulid, &str)]) -> Option<String> {
    let named: Vec<String> = removed.iter().take(NAMED_MAX).map(|(checkpoint, why)| format!("{checkpoint} ({why})")).collect();
    let more = removed.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more, which `parhelia log` names") } else { String::new() };
    let number = human::count(removed.len() as u64, "checkpoint");
    (!named.is_empty()).then(|| format!("retention removed {number}: {}{more}", named.join(", ")))
}

/// Says which checkpoints retention removed after another verb's own work.
pub fn announce(out: &mut Output, report: &RetentionReport) -> Result<()> {
    for (checkpoint, why) in &report.removed {
        out.object(Line::Retention(Retention::goes("removed", checkpoint, *why)))?;
    }
    if !report.removed.is_empty() {
        let number = human::count(report.removed.len() as u64, "older checkpoint");
        out.remark(format!("Retention removed {number} (`retention.*` in `config show`):"))?;
    }
    for (checkpoint, why) in report.removed.iter().take(NAMED_MAX) {
        let created = human::local(checkpoint.record.created_at);
        let session = human::path(checkpoint.record.session.as_bytes());
        out.remark(format!("  {}  {session}  {created}  {}", checkpoint.id(), why.text()))?;
    }
    if report.removed.len() > NAMED_MAX {
        let more = report.removed.len() - NAMED_MAX;
        out.remark(format!("  and {more} more (`log --kind checkpoint.deleted`)"))?;
    }
    remark(out, report)
}

/// Says if retention removed checkpoints because of the store's size, or if the store is still too large.
pub fn remark(out: &mut Output, report: &RetentionReport) -> Result<()> {
    let too_large = report.removed.iter().filter(|(_, why)| *why == RemovalReason::StoreTooLarge).count() as u64;
    if too_large > 0 {
        let (gone, freed) = (human::count(too_large, "checkpoint"), human::size(report.freed_bytes));
        out.remark(format!("The store was larger than it may be: {gone} removed, {freed} freed."))?;
    }
    if report.excess_bytes() > 0 {
        let (excess, limit) = (human::size(report.excess_bytes()), human::size(report.max_store_bytes));
        let (by, idle) = (reasons(&report.protected), idle(report.kept, &report.protected));
        tell!("parhelia: the store is {excess} over its limit of {limit}; kept against it: {by}{idle}");
    }
    Ok(())
}

/// The number of checkpoints that nothing protects and that stay because removing them would free next to nothing, in words.
pub fn idle(kept: u64, protected: &BTreeMap<&'static str, u64>) -> String {
    match kept.saturating_sub(protected.values().sum()) {
        0 => String::new(),
        number => format!("; removing {number} more would free next to nothing"),
    }
}

/// The numbers of protected checkpoints by reason, in words.
pub fn reasons(protected: &BTreeMap<&'static str, u64>) -> String {
    let by: Vec<String> = protected.iter().map(|(why, number)| format!("{number} {why}")).collect();
    if by.is_empty() { "none".into() } else { by.join(", ") }
}
