//! `config show`: every option's value in force, and where it came from.

use parhelia_store::name::NameExt as _;
use std::path::PathBuf;

use parhelia_host::config::Origin;
use parhelia_wire::{Line, Summary};
use serde_json::Value;

use crate::{
    context::Context,
    exit::{Code, Result},
    output::Style,
    told_settings,
    workspace::workspace,
};

/// Flags of `config show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workspace whose project file counts
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
}

/// Prints them.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let folder = workspace(&args.workspace)?;
    told_settings::tell_all();
    let loaded = context.loaded_config(&folder)?;
    let width = loaded.effective.iter().map(|option| option.key.len()).max().unwrap_or(0);
    for option in &loaded.effective {
        context.out.object(Line::Option(option.into()))?;
        let value = if option.value == Value::Null { "(none)".to_owned() } else { option.value.to_string() };
        let origin = match &option.origin {
            Origin::Default => String::new(),
            Origin::File { path, line } => format!("  {}:{line}", path.shown()),
            Origin::Environment { name } => format!("  ${name}"),
        };
        let key = context.out.styled(Style::Bold, format!("{:<width$}", option.key));
        let origin = context.out.styled(Style::Dim, origin);
        context.out.line(format!("{key}  {value}{origin}"))?;
    }
    let files = loaded.files.iter().map(|file| file.shown()).collect();
    context.out.summary(Summary::ConfigShow { files })?;
    Ok(Code::Done)
}
