//! `completions`: a completion script for a shell.

use clap_complete::Shell;
use serde_json::json;

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Flags of `completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::command(), "parhelia", &mut script);
    if context.out.json {
        context.out.object("script", json!({ "shell": args.shell.to_string(), "text": String::from_utf8_lossy(&script) }))?;
        context.out.summary(json!({ "shell": args.shell.to_string() }))?;
    } else {
        context.out.bytes(&script)?;
    }
    Ok(Code::Done)
}
