//! `env show`: an environment.

use std::path::PathBuf;

use parhelia_screen::human;
use parhelia_wire::{Line, Summary};
use serde_json::{Value, json};

use crate::{
    context::Context,
    exit::{Code, Result},
    output::Style,
    workspace::workspace,
};

/// Flags of `env show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint whose environment it is [default: the environment as it is now]
    checkpoint: Option<String>,
    /// The workspace whose environment it is
    #[arg(short, long, value_name = "DIR", default_value = ".", conflicts_with = "checkpoint")]
    workspace: PathBuf,
}

/// Prints it. Exit code 3 where a part could not be looked at.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let environment = match &args.checkpoint {
        Some(selector) => {
            let store = context.open()?;
            context.find(&store, selector)?.record.environment
        }
        None => Some(json!(super::now(context, &workspace(&args.workspace)?, &[])?)),
    };
    let Some(Value::Object(parts)) = environment else {
        context.out.line("The checkpoint has no environment.")?;
        context.out.summary(Summary::EnvShow { captured: false, failed: 0 })?;
        return Ok(Code::Done);
    };
    context.out.object(Line::Environment(parts.clone()))?;
    let failed = parts.get("failed").and_then(Value::as_object).map_or(0, |failed| failed.len());
    for (part, value) in &parts {
        print(context, part, value)?;
    }
    context.out.summary(Summary::EnvShow { captured: true, failed: failed as u64 })?;
    Ok(if failed > 0 { Code::Partly } else { Code::Done })
}

/// A part by its name; what it consists of a line each.
fn print(context: &mut Context, part: &str, value: &Value) -> Result<()> {
    let heading = context.out.styled(Style::Bold, part);
    match value {
        Value::Object(things) if !things.is_empty() => {
            context.out.line(heading)?;
            for (name, thing) in things {
                context.out.line(format!("  {} {}", human::path(name.as_bytes()), told(thing)))?;
            }
            Ok(())
        }
        value => context.out.line(format!("{heading} {}", told(value))),
    }
}

fn told(value: &Value) -> String {
    match value {
        Value::Null => "(none)".into(),
        Value::String(text) => human::path(text.as_bytes()),
        Value::Object(fields) if fields.is_empty() => "(none)".into(),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            fields.map(|(name, value)| format!("{name}={}", told(value))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}
