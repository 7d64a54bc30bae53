//! `completions`: a script by which a shell asks this program for completions.

use clap_complete::{Shell, env::Shells};
use parhelia_wire::{Line, Summary, tool::Script};

use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let (mut script, shell) = (Vec::new(), args.shell.to_string());
    let shells = Shells::builtins();
    let known = shells.completer(&shell).ok_or_else(|| Failure::Usage(format!("there are no completions for {shell}")))?;
    known.write_registration(complete::VARIABLE, "parhelia", "parhelia", "parhelia", &mut script).map_err(Failure::Output)?;
    if context.out.json {
        let text = String::from_utf8_lossy(&script).into_owned();
        context.out.object(Line::Script(Script { shell: shell.clone(), text }))?;
        context.out.summary(Summary::Completions { shell })?;
    } else {
        context.out.bytes(&script)?;
    }
    Ok(Code::Done)
}
