//! `check --salvage`: a new store of what the packs of a broken one hold.

use std::path::Path;

use parhelia_screen::human;
use parhelia_store::{
    check::{self, SalvageReport},
    layout::Layout,
    name::NameExt as _,
    progress::Progress,
};
use parhelia_wire::{Line, Summary, summary::Check};

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Facts that only the journal has.
const UNKNOWN: &str = "which checkpoints were deleted (they are back), tags, annotations, links, decisions, the names of sessions, their runs \
                       and their status";

/// Salvages, and says what was found.
pub fn run(context: &mut Context, layout: &Layout, to: Option<&Path>, progress: &dyn Progress) -> Result<Code> {
    let report = check::salvage(layout, to, progress)?;
    context.out.did(format!("{} was made", report.to.shown()));
    for pack in &report.damaged_packs {
        tell!("parhelia: pack {}: {}", pack.pack, pack.reason);
    }
    if !report.damaged_packs.is_empty() {
        tell!("parhelia: what is whole in damaged packs was taken");
    }
    for checkpoint in &report.checkpoints {
        context.out.object(Line::Salvaged(checkpoint.clone()))?;
        let lost = human::count(checkpoint.hurt_paths, "path");
        let first = checkpoint.first_hurt.join(", ");
        match (checkpoint.kept, checkpoint.hurt_paths) {
            (true, 0) => {}
            (true, _) => tell!("parhelia: checkpoint {} of {} has lost {lost}: {first}", checkpoint.id, checkpoint.session),
            (false, _) => {
                tell!("parhelia: nothing of checkpoint {} of {} can be read; it was left out", checkpoint.id, checkpoint.session)
            }
        }
    }
    conclude(context, &report)?;
    let ok = report.is_complete();
    let (repair, salvage) = (None, Some(report));
    context.out.summary(Summary::Check(Check { dry_run: false, ok, findings: None, repair, salvage, checked: None }))?;
    Ok(if ok { Code::Done } else { Code::Partly })
}

fn conclude(context: &mut Context, report: &SalvageReport) -> Result<()> {
    let (kept, hurt) = (human::count(report.kept(), "checkpoint"), report.kept() - report.whole());
    let packs = human::count(report.packs, "pack");
    context.out.remark(format!(
        "Salvaged {kept} from {packs} ({}) into {}: {} whole, {hurt} with losses.",
        human::size(report.bytes),
        report.to.shown(),
        report.whole()
    ))?;
    if let Some(fault) = &report.settings_fault {
        context.out.remark(format!("The settings were made up from the packs: {fault}."))?;
    }
    match &report.journal_fault {
        None => {
            context.out.remark(format!("The journal's {} were taken over.", human::count(report.journal_records, "record")))?
        }
        Some(fault) => {
            let taken = match report.journal_records {
                0 => "Nothing was taken from the journal".to_owned(),
                records => format!("The journal's {} that can be read were taken over", human::count(records, "record")),
            };
            context.out.remark(format!("{taken}: {fault}."))?;
            context.out.remark(format!("Unknown, as only the journal had it: {UNKNOWN}."))?;
        }
    }
    if report.deleted > 0 {
        let deleted = human::count(report.deleted, "deleted checkpoint");
        context.out.remark(format!("{deleted} stayed deleted, as the journal says."))?;
    }
    if report.unreadable_records > 0 {
        let records = human::count(report.unreadable_records, "record");
        context.out.remark(format!("{records} of a newer release were left out; use a newer parhelia."))?;
    }
    context.out.remark(format!(
        "The old store was not changed. Look at the new one with `parhelia --store {} list`, then use it in its place.",
        report.to.shown()
    ))
}
