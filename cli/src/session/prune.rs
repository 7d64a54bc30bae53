//! `session prune`: removes the checkpoints that retention does not keep.

use std::path::Path;

use parhelia_ledger::LedgerView as _;
use parhelia_life::retention::{self, Calendar, Forecast, Policy};
use parhelia_screen::human;
use parhelia_store::record::Checkpoint;
use parhelia_wire::{Line, Summary, checkpoint::Retention, summary::PruneOutcome};

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    thinned,
};

/// Flags of `session prune`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this session's checkpoints
    #[arg(add = complete::sessions())]
    session: Option<String>,
    /// Keep this many of each session, the newest; remove others that are older than an hour (`retention.all_hours`)
    #[arg(short = 'l', long, value_name = "NUMBER")]
    keep_last: Option<u64>,
    /// Keep the newest of each of this many hours that have any; remove others that are older than an hour
    #[arg(short = 'H', long, value_name = "NUMBER")]
    keep_hourly: Option<u64>,
    /// The same of days
    #[arg(short = 'd', long, value_name = "NUMBER")]
    keep_daily: Option<u64>,
    /// The same of weeks
    #[arg(short = 'w', long, value_name = "NUMBER")]
    keep_weekly: Option<u64>,
    /// The same of months
    #[arg(short = 'm', long, value_name = "NUMBER")]
    keep_monthly: Option<u64>,
    /// The same of years
    #[arg(short = 'y', long, value_name = "NUMBER")]
    keep_yearly: Option<u64>,
    /// Remove older checkpoints of agents' sessions, unless a number or the calendar keeps them; 0 for no limit
    #[arg(long, value_name = "HOURS")]
    max_age_hours: Option<u64>,
    /// The same for folders that no agent has worked in; 0 for no limit
    #[arg(long, value_name = "HOURS")]
    folder_max_age_hours: Option<u64>,
    /// Remove the oldest checkpoints while the store is larger; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    max_store_bytes: Option<u64>,
    /// Only say what would be removed, and why the others stay
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Args {
    /// The configuration's rules, and those of the flags in their place.
    fn policy(&self, set: Policy) -> Policy {
        let set = match self.keep_last {
            Some(last) => set.keeping(last),
            None => set,
        }
        .as_asked();
        Policy {
            calendar: Calendar {
                hourly: self.keep_hourly.unwrap_or(set.calendar.hourly),
                daily: self.keep_daily.unwrap_or(set.calendar.daily),
                weekly: self.keep_weekly.unwrap_or(set.calendar.weekly),
                monthly: self.keep_monthly.unwrap_or(set.calendar.monthly),
                yearly: self.keep_yearly.unwrap_or(set.calendar.yearly),
            },
            max_age_hours: self.max_age_hours.unwrap_or(set.max_age_hours),
            folder_max_age_hours: self.folder_max_age_hours.unwrap_or(set.folder_max_age_hours),
            max_store_bytes: self.max_store_bytes.unwrap_or(set.max_store_bytes),
            ..set
        }
    }
}

/// Removes, or plans to.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    context.warns_of_older = false;
    let store = context.open()?;
    let session = args.session.as_ref().map(|name| store.view().session_named(name)).transpose()?.map(|session| session.id);
    let policy = args.policy(Policy::from(&context.config(Path::new("."))?.retention));
    let (host, progress) = (context.host()?, context.progress());
    if args.dry_run {
        let forecast = retention::forecast_for(&store, &host, &policy, session.as_deref(), &progress)?;
        drop(progress);
        foretell(context, &forecast, policy.max_store_bytes)?;
        return Ok(Code::Done);
    }
    let report = retention::prune_for(&store, &host, &policy, session.as_deref(), &progress)?;
    drop(progress);
    if let Some(removed) = thinned::removed_text(&report) {
        context.out.did(removed);
    }
    for (checkpoint, why) in &report.removed {
        told(context, checkpoint, Retention::goes("removed", checkpoint, *why), why.text())?;
    }
    if report.removed.is_empty() {
        let young = report.young;
        let young = match young {
            0 => String::new(),
            1 => " 1 checkpoint is too young to be thinned.".to_owned(),
            more => format!(" {} are too young to be thinned.", human::count(more, "checkpoint")),
        };
        context.out.remark(format!("Nothing to remove.{young} --dry-run lists each checkpoint with what keeps it."))?;
    } else if report.freed_bytes == 0 {
        context.out.remark("`parhelia gc` frees what nothing else needs.")?;
    }
    thinned::remark(&mut context.out, &report)?;
    context.out.summary(Summary::SessionPrune(PruneOutcome {
        dry_run: false,
        removed: report.removed.len() as u64,
        overruled: report.overruled,
        kept: report.kept,
        protected: report.protected.values().sum(),
        freed_bytes: report.freed_bytes,
        store_bytes: report.store_bytes,
        max_store_bytes: report.max_store_bytes,
        excess_bytes: report.excess_bytes(),
        failed: report.failed.as_ref().map(ToString::to_string),
    }))?;
    if let Some(e) = &report.failed {
        tell!("parhelia: no more was removed: {e}");
        return Ok(Code::Partly);
    }
    Ok(Code::Done)
}

/// Says what would go, what would stay, and how large the store would be.
fn foretell(context: &mut Context, forecast: &Forecast, limit: u64) -> Result<()> {
    let plan = &forecast.plan;
    for (checkpoint, why) in &plan.remove {
        told(context, checkpoint, Retention::goes("remove", checkpoint, *why), why.text())?;
    }
    for (checkpoint, why) in &plan.keep {
        told(context, checkpoint, Retention::stays(checkpoint, *why), why.text())?;
    }
    if limit > 0 && forecast.store_bytes > limit {
        let (store, limit) = (human::size(forecast.store_bytes), human::size(limit));
        let freed = human::size(forecast.estimated_freed_bytes);
        context
            .out
            .remark(format!("The store has {store}, its limit is {limit}; about {freed} would be freed (an estimate)."))?;
    }
    if forecast.overruled > 0 {
        let number = human::count(forecast.overruled, "checkpoint");
        context.out.remark(format!("The limit alone removes {number}: all other rules keep them."))?;
    }
    if forecast.excess_bytes > 0 {
        let (excess, by) = (human::size(forecast.excess_bytes), thinned::reasons(&plan.protected()));
        let idle = thinned::idle(plan.keep.len() as u64, &plan.protected());
        context.out.remark(format!("About {excess} over the limit would stay; kept against it: {by}{idle}."))?;
    }
    context.out.remark(format!(
        "Would remove {}, keep {}.",
        human::number(plan.remove.len() as u64),
        human::number(plan.keep.len() as u64)
    ))?;
    context.out.summary(Summary::SessionPrune(PruneOutcome {
        dry_run: true,
        removed: plan.remove.len() as u64,
        overruled: forecast.overruled,
        kept: plan.keep.len() as u64,
        protected: plan.protected().values().sum(),
        freed_bytes: forecast.estimated_freed_bytes,
        store_bytes: forecast.store_bytes,
        max_store_bytes: limit,
        excess_bytes: forecast.excess_bytes,
        failed: None,
    }))
}

fn told(context: &mut Context, checkpoint: &Checkpoint, decision: Retention, text: &str) -> Result<()> {
    let (id, session, action) = (checkpoint.id(), &checkpoint.record.session, decision.action.clone());
    context.out.object(Line::Retention(decision))?;
    let created = human::local(checkpoint.record.created_at);
    context.out.line(format!("{action:<7} {id}  {}  {created}  {text}", human::path(session.as_bytes())))
}
