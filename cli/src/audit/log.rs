//! `audit log`: the acts, oldest first.

use parhelia_oversight::review::audit::{self, Entry};
use parhelia_screen::human;
use parhelia_wire::{Line, Summary};

use super::FilterArgs;
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `audit log`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    chosen: FilterArgs,
    /// Only the last N
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Also what policies approved by themselves
    #[arg(short, long)]
    all: bool,
}

/// Prints them.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let shown = audit::entries(&store, &args.chosen.filter(&store, !args.all)?, args.limit)?;
    context.out.page()?;
    for entry in &shown {
        match context.out.json {
            true => context.out.object(Line::Audit(Box::new(entry.into())))?,
            false => context.out.line(text(entry))?,
        }
    }
    if shown.is_empty() {
        context.out.remark("Nothing was decided, deleted, rolled back or overridden yet.")?;
    }
    context.out.summary(Summary::AuditLog { entries: shown.len() as u64 })?;
    Ok(Code::Done)
}

/// An entry as a line: time, person, act, subject, and why.
fn text(entry: &Entry) -> String {
    let shown = |text: &str| human::path(text.lines().next().unwrap_or_default().as_bytes());
    let who = match (&entry.actor.user, entry.actor.via.as_str()) {
        (Some(user), "cli") => shown(user),
        (Some(user), via) => format!("{} ({})", shown(user), shown(via)),
        (None, via) => shown(via),
    };
    let login = entry.actor.login.as_ref().map(|login| format!(" [login {}]", shown(login))).unwrap_or_default();
    let more = [("policy", &entry.policy), ("because", &entry.rule), ("reason", &entry.reason)].into_iter();
    let more: String = more.filter_map(|(name, value)| Some(format!("  {name}: {}", shown(value.as_ref()?)))).collect();
    format!("{}  {who}{login}  {}  {}{more}", human::local(entry.at), entry.action, shown(&entry.subject))
}
