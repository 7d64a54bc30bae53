//! `env diff`: what differs between two environments.

use std::path::PathBuf;

use parhelia_agent::environment::diff::{EnvironmentChange, diff};
use parhelia_life::environment::packages;
use parhelia_screen::human;
use parhelia_wire::{Line, Summary};
use serde_json::json;

use crate::{
    context::Context,
    exit::{Code, Result},
    output::Style,
    workspace::workspace,
};

/// Flags of `env diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The one checkpoint
    old: String,
    /// The other [default: the environment as it is now]
    new: Option<String>,
    /// The workspace whose environment it is now
    #[arg(short, long, value_name = "DIR", default_value = ".", conflicts_with = "new")]
    workspace: PathBuf,
}

/// Compares, and prints what differs.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let old = context.find(&store, &args.old)?;
    let new = args.new.as_deref().map(|selector| context.find(&store, selector)).transpose()?;
    let (after, freeze) = match &new {
        Some(new) => (new.record.environment.clone(), packages(&store, new)),
        None => {
            let argv = super::last_argv(&store, &old.record.session)?;
            let now = super::now(context, &workspace(&args.workspace)?, &argv)?;
            (Some(json!(now)), now.pip_freeze)
        }
    };
    let before = packages(&store, &old);
    let found = diff(old.record.environment.as_ref(), after.as_ref(), (before.as_deref(), freeze.as_deref()));
    let mut section = "";
    for change in &found.changes {
        context.out.object(Line::EnvironmentChange(change.clone()))?;
        if change.section != section {
            section = change.section;
            let heading = context.out.styled(Style::Bold, section);
            context.out.line(heading)?;
        }
        context.out.line(format!("  {}", line(change)))?;
    }
    if !found.unknown.is_empty() {
        context.out.line(format!("Not captured in both: {}", found.unknown.join(", ")))?;
    } else if found.changes.is_empty() {
        context.out.remark("No changes.")?;
    }
    let unknown = found.unknown.iter().map(|part| (*part).to_owned()).collect();
    let (old, new, changes) = (old.id(), new.map(|new| new.id()), found.changes.len() as u64);
    context.out.summary(Summary::EnvDiff { old, new, changes, unknown })?;
    Ok(Code::Done)
}

/// A difference for people, without the name of its section.
pub fn line(change: &EnvironmentChange) -> String {
    let shown = |text: &Option<String>| text.as_ref().map_or_else(|| "(none)".into(), |text| human::path(text.as_bytes()));
    let names: Vec<String> =
        [&change.name, &change.field].into_iter().flatten().map(|name| human::path(name.as_bytes())).collect();
    let names = if names.is_empty() { String::new() } else { format!("{}: ", names.join(" ")) };
    format!("{names}{} -> {}", shown(&change.before), shown(&change.after))
}
