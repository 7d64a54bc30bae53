//! `outbox list`: deliveries, oldest first.

use parhelia_screen::human;
use parhelia_wire::{Line, Summary, notification::Delivery};

use super::outbox;
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `outbox list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only what is not tried again by itself
    #[arg(long)]
    failed: bool,
}

/// Prints them.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let (store, host) = (context.open()?, context.host()?);
    let mut found = outbox(context, &store, &host)?.list()?;
    found.retain(|delivery| delivery.has_failed || !args.failed);
    for delivery in &found {
        match context.out.json {
            true => context.out.object(Line::Delivery(Box::new(delivery.clone())))?,
            false => context.out.line(line(delivery))?,
        }
    }
    if found.is_empty() {
        context.out.remark("Nothing waits to be delivered.")?;
    }
    let failed = found.iter().filter(|delivery| delivery.has_failed).count() as u64;
    context.out.summary(Summary::OutboxList { deliveries: found.len() as u64, failed })?;
    Ok(Code::Done)
}

fn line(delivery: &Delivery) -> String {
    let shown = |text: &str| human::path(text.as_bytes());
    let state = match (delivery.has_failed, delivery.attempts) {
        (true, _) => "failed".to_owned(),
        (false, 0) => "waits".to_owned(),
        (false, _) => format!("again at {}", human::local(delivery.not_before)),
    };
    let of = delivery.notification.session_name.as_ref().map(|name| format!("  {}", shown(name))).unwrap_or_default();
    let act = delivery.act.as_ref();
    let issue = act.map(|act| act.issue.as_ref().map_or_else(|| format!("new issue in {}", act.place), Clone::clone));
    let issue = issue.map(|issue| format!("  {}", shown(&issue))).unwrap_or_default();
    let why = delivery.error.as_ref().map(|why| format!("  ({})", shown(why))).unwrap_or_default();
    format!("{}  {}{of}{issue}  {state}{why}", shown(&delivery.id), human::local(delivery.since))
}
