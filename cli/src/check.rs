//! `check`: is everything in the store, and is it what was written?

mod hurt;
mod salvage;

use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use parhelia_life::checked;
use parhelia_screen::human;
use parhelia_store::check::{self, AffectedPath, CheckOptions, CheckReport, Finding, FindingKind, Mend, RepairPlan, Strays};
use parhelia_wire::{Line, Summary, repository::Note, summary::Check};

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Places of one finding that are shown without `--verbose`.
const TOUCHES_SHOWN: usize = 5;

/// Flags of `check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read and hash the stored data, too, or so many percent of it
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "100", value_parser = percent)]
    read_data: Option<u8>,
    /// Make the index anew from packs and journal before checking
    #[arg(long)]
    rebuild_index: bool,
    /// Repair what can be repaired, and then check: what is whole is moved away from what is damaged, and the index made anew
    #[arg(long, conflicts_with = "rebuild_index")]
    repair: bool,
    /// With --repair: look here for what is lost. A store, or a folder that holds what was captured; may be repeated
    #[arg(long, value_name = "DIR", requires = "repair")]
    from: Vec<PathBuf>,
    /// With --repair: only say what would be done
    #[arg(short = 'n', long, requires = "repair")]
    dry_run: bool,
    /// Make a new store of what the packs hold, where journal or settings are lost, damaged or older than the packs. Changes nothing here
    #[arg(long, conflicts_with_all = ["rebuild_index", "repair", "read_data"])]
    salvage: bool,
    /// With --salvage: the folder of the new store [STORE.salvaged]. It must not exist yet
    #[arg(long, value_name = "STORE", requires = "salvage")]
    to: Option<PathBuf>,
}

/// A share of the data, with or without a percent sign.
fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|percent| (1..=100).contains(percent));
    number.ok_or_else(|| "give a whole number from 1 to 100".into())
}

/// Checks, and names what is wrong.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let layout = parhelia_ledger::layout(context.store_path()?);
    let lock_timeout = context.lock_timeout()?;
    let progress = context.progress();
    if args.salvage {
        return salvage::run(context, &layout, args.to.as_deref(), &progress);
    }
    let mut is_short = false;
    if args.repair {
        let mend = check::plan_mend(&layout, &args.from, &progress)?;
        print_mend(context, &mend, args)?;
        if !args.dry_run && !mend.is_nothing() {
            let mended = check::mend(&layout, &args.from, lock_timeout, &progress)?;
            is_short = mended.is_short();
            context.out.did("the journal and the settings were mended");
            print_strays(context, &mended.strays, false)?;
        }
        let plan = check::plan_repair(&layout, &args.from, &progress)?;
        print_sources(&plan);
        print_plan(context, &plan, args)?;
        if args.dry_run {
            let (ok, repair) = (plan.lost.is_empty(), Some((&plan).into()));
            let salvage = None;
            context.out.summary(Summary::Check(Check { dry_run: true, ok, findings: None, repair, salvage, checked: None }))?;
            let is_sound = mend.is_nothing() && !mend.loses_records() && !plan.is_needed();
            return Ok(if is_sound { Code::Done } else { Code::Corrupt });
        }
        check::repair(&layout, &plan, lock_timeout, &progress)?;
        context.out.did("the store was repaired");
    }
    if args.rebuild_index {
        check::rebuild_index(&layout, lock_timeout, &progress)?;
        context.out.did("the index was made anew");
    }
    let mut named = hurt::HurtPrinter::new(context);
    let options = CheckOptions { read_data_percent: args.read_data };
    let checked = check::run_naming(&layout, &options, &mut |hurt| named.name(hurt), &progress);
    drop(progress);
    named.finish()?;
    if checked.is_err() && (args.repair || args.rebuild_index) {
        let done = if args.repair { "the store was repaired" } else { "the index was made anew" };
        tell!("parhelia: {done}, but could not be checked since");
    }
    let mut report = checked?;
    if let Some(store) = context.open_untold(&layout.root) {
        if let Some(younger) = store.younger() {
            report.add_older(younger);
        }
        let read_all = args.read_data == Some(100);
        checked::note_checkpoints(&store, &report, read_all, &context.actor(), &context.progress());
    }
    if args.rebuild_index {
        context.out.remark("The index was made anew.")?;
    }
    for finding in &report.findings {
        context.out.object(Line::Finding(finding.clone()))?;
        print(context, finding);
    }
    hurt::print(context, &report);
    for note in &report.notes {
        context.out.object(Line::Note(Note { text: note.clone() }))?;
        context.out.remark(format!("note: {note}"))?;
    }
    conclude(context, &report, args)?;
    Ok(if report.is_clean() && !is_short { Code::Done } else { Code::Corrupt })
}

fn print(context: &Context, finding: &Finding) {
    tell!("parhelia: {}", finding.message);
    print_touched(context, &finding.touches, finding.touches_more);
}

fn print_touched(context: &Context, touches: &[AffectedPath], touches_more: u64) {
    let shown = if context.global.verbose { touches.len() } else { TOUCHES_SHOWN };
    for touched in touches.iter().take(shown) {
        tell!("  touches {}:{}", touched.checkpoint, touched.path);
    }
    let more = touches.len().saturating_sub(shown) as u64 + touches_more;
    if more > 0 {
        tell!("  and {}", human::count(more, "more place"));
    }
}

/// Says what is mended before packs are looked at.
fn print_mend(context: &mut Context, mend: &Mend, args: &Args) -> Result<()> {
    let will = if args.dry_run { "Would" } else { "Will" };
    if let Some(fault) = &mend.settings {
        tell!("parhelia: {}", fault.reason);
        context.out.remark(format!("{will} write {} anew from its other copy.", fault.path.display()))?;
    }
    if mend.is_half_done {
        context.out.remark(format!("{will} finish what an earlier repair began with the journal."))?;
    }
    for place in &mend.journal {
        context.out.object(Line::MendedRecords(place.clone()))?;
        tell!("parhelia: the journal: {}", place.damage);
    }
    for found in &mend.refilled {
        let (first, last, from) = (found.first, found.last, found.from.display());
        context.out.remark(format!("{will} take records {first} to {last} of the journal from {from}."))?;
    }
    if mend.missing > 0 {
        let missing = human::count(mend.missing, "record");
        tell!(
            "parhelia: the journal was cut short: {missing} at its end are lost; --from DIR looks in another copy of the store"
        );
    }
    if !mend.journal.is_empty() {
        let lost = match mend.loses_records() {
            true => "; what cannot be read of it is lost, and stays where it is",
            false => "; nothing of it is lost",
        };
        context.out.remark(format!("{will} mend the journal{lost}."))?;
    }
    if args.dry_run {
        print_strays(context, &mend.strays, true)?;
    }
    context.out.flush()
}

/// Says which packs and checkpoints come back of which the journal had lost what it told.
fn print_strays(context: &mut Context, strays: &Strays, is_planned: bool) -> Result<()> {
    if strays.is_nothing() {
        return Ok(());
    }
    let did = if is_planned { "Would take back" } else { "Took back" };
    let (packs, checkpoints) = (strays.packs.len() as u64, strays.checkpoints.len() as u64);
    let (packs, checkpoints) = (human::count(packs, "pack"), human::count(checkpoints, "checkpoint"));
    context.out.remark(format!("{did} {packs} and {checkpoints} of which the journal has lost what it told."))?;
    for id in &strays.checkpoints {
        context.out.remark(format!("  {id}"))?;
    }
    match strays.checkpoints.is_empty() {
        true => Ok(()),
        false => context.out.remark("Some of these may have been deleted; their tags and decisions are lost."),
    }
}

/// Names sources in which no store was found.
fn print_sources(plan: &RepairPlan) {
    for folder in &plan.folders {
        let shown = human::path(folder.path.as_os_str().as_bytes());
        let stores: Vec<String> = folder.stores.iter().map(|store| human::path(store.as_os_str().as_bytes())).collect();
        let hint = match stores.is_empty() {
            true => String::new(),
            false => format!("; to look in a store: --from {}", stores.join(" --from ")),
        };
        tell!("parhelia: {shown} is no store, and is searched as a folder of files{hint}");
    }
}

/// Says what a repair does, before it is done.
fn print_plan(context: &mut Context, plan: &RepairPlan, args: &Args) -> Result<()> {
    let will = if args.dry_run { "Would" } else { "Will" };
    let packs = plan.damaged_packs.len() + plan.packs_with_broken_recipes.len();
    if !plan.healed_packs.is_empty() {
        let packs = human::count(plan.healed_packs.len() as u64, "damaged pack");
        context.out.remark(format!("{will} write {packs} anew as it was, by its parity. Nothing of it is lost."))?;
    }
    if packs == 0 {
        let others = if plan.healed_packs.is_empty() { "No pack" } else { "No other pack" };
        context.out.remark(format!("{others} is damaged. {will} make the index anew."))?;
    } else {
        let (packs, kept) = (human::count(packs as u64, "pack"), human::count(plan.kept_objects, "whole object"));
        context.out.remark(format!("{will} replace {packs}, with the {kept} in it, and make the index anew."))?;
    }
    for id in &plan.unread_packs {
        let file = parhelia_ledger::layout("").pack_aside(*id);
        context.out.remark(format!(
            "The disk cannot read all of pack {id}. {will} keep its file as {}: once all of it can be read, take `.unreadable` off that name, and \
             `parhelia check --repair` takes it in. Where only a part can be, `parhelia check --salvage` takes what is whole.",
            file.display()
        ))?;
    }
    if plan.recovered_objects > 0 {
        context.out.remark(format!("{will} take {} from elsewhere.", human::count(plan.recovered_objects, "lost object")))?;
    }
    for lost in &plan.lost {
        context.out.object(Line::Lost(lost.clone()))?;
        tell!("parhelia: {} {} is lost", lost.kind, lost.object);
        print_touched(context, &lost.touches, lost.touches_more);
    }
    if !plan.lost.is_empty() {
        let hint = "--from DIR looks in a folder or another store; a create that finds the same content stores it again";
        context.out.remark(format!("{} lost. {hint}.", human::count(plan.lost.len() as u64, "object")))?;
    }
    context.out.flush()
}

fn conclude(context: &mut Context, report: &CheckReport, args: &Args) -> Result<()> {
    let (packs, objects) = (human::count(report.packs, "pack"), human::count(report.objects, "object"));
    let checkpoints = human::count(report.checkpoints, "checkpoint");
    let read = match args.read_data {
        Some(_) => format!("{} of data were read", human::size(report.bytes_read)),
        None => "data were not read; --read-data does".to_owned(),
    };
    context.out.remark(format!("Checked {packs}, {objects}, {checkpoints}; {read}."))?;
    let findings = report.findings.len() as u64 + report.findings_more;
    let verdict =
        if findings == 0 { "Nothing is wrong.".to_owned() } else { format!("{} found.", human::count(findings, "problem")) };
    context.out.remark(verdict)?;
    if report.rebuild_index {
        context.out.remark("`parhelia check --rebuild-index` makes the index anew.")?;
    }
    let is_damage = |finding: &Finding| matches!(finding.kind, FindingKind::Pack | FindingKind::Damaged);
    let is_healed = |finding: &Finding| finding.kind == FindingKind::Healed;
    if report.findings.iter().any(is_healed) {
        context.out.remark("Nothing of these packs is lost. `parhelia check --repair` writes them anew; look at the disk.")?;
    }
    let is_lost = |finding: &Finding| finding.kind == FindingKind::Missing;
    let is_damaged = report.findings.iter().any(is_damage);
    if is_damaged || report.findings.iter().any(is_lost) {
        context.out.remark(
            "`parhelia check --repair --from SECOND` takes what is lost from a second copy of the store, or a folder; with --dry-run it only says what \
             it would do.",
        )?;
        if !args.repair && is_damaged {
            context
                .out
                .remark("Where there is none, `parhelia check --repair` moves what is whole away from what is damaged.")?;
        }
        context.out.remark("A `parhelia checkpoint create` that comes upon the same content stores it again.")?;
    }
    let (ok, checked) = (report.is_clean(), Some(report.clone()));
    context.out.summary(Summary::Check(Check {
        dry_run: false,
        ok,
        findings: Some(findings),
        repair: None,
        salvage: None,
        checked,
    }))
}
