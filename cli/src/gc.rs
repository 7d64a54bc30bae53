//! `gc`: frees what no checkpoint needs.

use parhelia_life::collect::{GcOutcome, collect};
use parhelia_screen::human;
use parhelia_store::gc::{self, GcOptions, GcPlan, GcReport};
use parhelia_wire::{Summary, summary::Collection};

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `gc`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only say what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Collects, or plans to.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    context.warns_of_older = false;
    let store = context.open()?;
    let progress = context.progress();
    if args.dry_run {
        let plan = gc::plan(&store, &GcOptions::default(), &progress)?;
        drop(progress);
        print_plan(context, &plan)?;
        context.out.summary(Summary::Gc(Box::new(Collection { dry_run: true, plan, done: None })))?;
    } else {
        let GcOutcome { freed, forgotten } = collect(&store, &context.host()?, &progress);
        let report = freed?;
        forgotten?;
        drop(progress);
        context.out.did(format!("gc has freed {}", human::size(report.freed_bytes)));
        print_report(context, &report)?;
        context.out.summary(Summary::Gc(Box::new(Collection {
            dry_run: false,
            plan: report.plan.clone(),
            done: Some(report),
        })))?;
    }
    Ok(Code::Done)
}

fn print_plan(context: &mut Context, plan: &GcPlan) -> Result<()> {
    let packs = |count: usize, bytes: u64| format!("{}, {}", human::count(count as u64, "pack"), human::size(bytes));
    context.out.line(format!("In use   {} of {}", human::size(plan.live_bytes), human::size(plan.total_bytes)))?;
    context.out.line(format!("Delete   {}", packs(plan.delete.len(), plan.delete_bytes)))?;
    let copied = human::size(plan.copy_bytes);
    context.out.line(format!("Repack   {}, of which {copied} are copied", packs(plan.repack.len(), plan.repack_bytes)))?;
    context.out.line(format!("Left by interrupted runs   {}", packs(plan.orphans as usize, plan.orphan_bytes)))?;
    let later = match plan.waits_for.len() as u64 {
        0 => String::new(),
        writers => format!(", some of it when {} are over", human::count(writers, "running operation")),
    };
    context.out.line(format!("Would free {}{later}.", human::size(plan.freed_bytes)))
}

fn print_report(context: &mut Context, report: &GcReport) -> Result<()> {
    let freed = human::size(report.freed_bytes);
    let dropped = human::count(report.dropped_packs + report.orphans, "pack");
    context.out.remark(format!("Freed {freed}: {dropped} removed, {} written.", report.added_packs))?;
    if report.waiting_packs > 0 {
        let (packs, bytes) = (human::count(report.waiting_packs, "pack"), human::size(report.waiting_bytes));
        let writers = human::count(report.waits_for.len() as u64, "running operation");
        context.out.remark(format!("{packs} more, {bytes}, wait for {writers}; a later gc removes them."))?;
    }
    if report.left_packs > 0 {
        let packs = human::count(report.left_packs, "pack");
        context.out.remark(format!(
            "The disk has too little room to copy what is needed of {packs}; run gc again once there is more."
        ))?;
    }
    Ok(())
}
