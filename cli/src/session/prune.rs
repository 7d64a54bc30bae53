//! `session prune`: removes the checkpoints that retention does not keep.

use std::{collections::BTreeMap, path::Path};

use jiff::Timestamp;
use parhelia_session::retention::{self, Forecast, Policy, Removed, Report};
use parhelia_store::{event::Actor, record::Checkpoint};
use serde_json::{Value, json};

use crate::{
    context::Context,
    exit::{Code, Result},
    human,
};

/// Flags of `session prune`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this session's checkpoints
    session: Option<String>,
    /// Keep so many newest ones of each session
    #[arg(long, value_name = "NUMBER")]
    keep_last: Option<u64>,
    /// Keep none that is older
    #[arg(long, value_name = "HOURS")]
    max_age_hours: Option<u64>,
    /// Let the store take at most so many bytes; 0 for any number
    #[arg(long, value_name = "BYTES")]
    max_store_bytes: Option<u64>,
    /// Only say what would be removed, and why the others stay
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Removes, or plans to.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let session = args.session.as_ref().map(|name| store.view().session_named(name)).transpose()?.map(|session| session.id);
    let policy = Policy::from(&context.config(Path::new("."))?.retention);
    let policy = Policy {
        keep_last: args.keep_last.unwrap_or(policy.keep_last),
        max_age_hours: args.max_age_hours.unwrap_or(policy.max_age_hours),
        max_store_bytes: args.max_store_bytes.unwrap_or(policy.max_store_bytes),
        ..policy
    };
    if args.dry_run {
        let progress = context.progress();
        let forecast = retention::forecast(&store, &policy, session.as_deref(), Timestamp::now(), &progress)?;
        drop(progress);
        foretell(context, &forecast, policy.max_store_bytes)?;
        return Ok(Code::Done);
    }
    let actor = Actor { via: "retention".into(), ..context.actor() };
    let progress = context.progress();
    let report = retention::prune(&store, &policy, session.as_deref(), &actor, Timestamp::now(), &progress)?;
    drop(progress);
    for (checkpoint, why) in &report.removed {
        told(context, "removed", checkpoint, json!(why), why.text())?;
    }
    if report.removed.is_empty() {
        context.out.remark("Nothing to remove.")?;
    } else if report.freed_bytes == 0 {
        context.out.remark("`parhelia gc` frees what nothing else needs.")?;
    }
    remark(context, &report)?;
    context.out.summary(json!({
        "dry_run": false,
        "removed": report.removed.len(),
        "kept": report.kept,
        "protected": report.protected.values().sum::<u64>(),
        "freed_bytes": report.freed_bytes,
        "store_bytes": report.store_bytes,
        "max_store_bytes": report.max_store_bytes,
        "excess_bytes": report.excess_bytes(),
        "failed": report.failed.as_ref().map(ToString::to_string),
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
        told(context, "remove", checkpoint, json!(why), why.text())?;
    }
    for (checkpoint, why) in &plan.keep {
        told(context, "keep", checkpoint, json!(why), why.text())?;
    }
    if limit > 0 && forecast.store_bytes > limit {
        let (store, limit) = (human::size(forecast.store_bytes), human::size(limit));
        let freed = human::size(forecast.estimated_freed_bytes);
        context
            .out
            .remark(format!("The store has {store}, its limit is {limit}; about {freed} would be freed (an estimate)."))?;
    }
    if forecast.excess_bytes > 0 {
        let (excess, by) = (human::size(forecast.excess_bytes), reasons(&plan.protected()));
        context.out.remark(format!("About {excess} over the limit would stay; kept against it: {by}."))?;
    }
    context.out.remark(format!("Would remove {}, keep {}.", plan.remove.len(), plan.keep.len()))?;
    context.out.summary(json!({
        "dry_run": true,
        "removed": plan.remove.len(),
        "kept": plan.keep.len(),
        "protected": plan.protected().values().sum::<u64>(),
        "estimated_freed_bytes": forecast.estimated_freed_bytes,
        "store_bytes": forecast.store_bytes,
        "max_store_bytes": limit,
        "excess_bytes": forecast.excess_bytes,
    }))
}

/// How many are protected, by the reason, in words.
fn reasons(protected: &BTreeMap<&'static str, u64>) -> String {
    let by: Vec<String> = protected.iter().map(|(why, number)| format!("{number} {why}")).collect();
    if by.is_empty() { "none".into() } else { by.join(", ") }
}

fn told(context: &mut Context, action: &str, checkpoint: &Checkpoint, reason: Value, text: &str) -> Result<()> {
    let (id, session) = (checkpoint.id(), &checkpoint.record.session);
    let object = json!({ "id": id, "session": session, "action": action, "reason": reason });
    context.out.object("checkpoint", object)?;
    let created = human::local(checkpoint.record.created_at);
    context.out.line(format!("{action:<7} {id}  {}  {created}  {text}", human::path(session.as_bytes())))
}

/// What a user should know of what retention did.
pub fn remark(context: &mut Context, report: &Report) -> Result<()> {
    let too_large = report.removed.iter().filter(|(_, why)| *why == Removed::StoreTooLarge).count() as u64;
    if too_large > 0 {
        let (gone, freed) = (human::count(too_large, "checkpoint"), human::size(report.freed_bytes));
        context.out.remark(format!("The store was larger than it may be: {gone} removed, {freed} freed."))?;
    }
    if report.excess_bytes() > 0 {
        let (excess, limit) = (human::size(report.excess_bytes()), human::size(report.max_store_bytes));
        tell!("parhelia: the store is {excess} over its limit of {limit}; kept against it: {}", reasons(&report.protected));
    }
    Ok(())
}
