//! Whether somebody has asked for what a resume would start.

use std::{ffi::OsString, io::IsTerminal};

use parhelia_agent::briefing::GO_ON;
use parhelia_agent::command::Agent;
use parhelia_session::run;
use parhelia_store::fold::{Run, Session};

use super::Args;
use crate::{
    ask,
    context::Context,
    exit::{Failure, Result},
};

/// Whether what would be started may act: an agent that answers a single prompt acts at once, and a command that has done its work does it
/// again. A person at a terminal who resumes an agent means that.
pub(super) fn is_meant(context: &Context, args: &Args, session: &Session, last: Option<&Run>) -> Result<bool> {
    let Some(run) = last else { return Ok(true) };
    let argv: Vec<OsString> = run.command();
    let is_terminal = std::io::stdin().is_terminal();
    match Agent::of(&argv) {
        Some(agent) if agent.is_headless() && args.prompt.is_none() && args.new_conversation => {
            Err(Failure::Usage("an agent that answers a single prompt begins a new conversation with --prompt TEXT alone".into()))
        }
        Some(agent) if agent.is_headless() && args.prompt.is_none() && !is_terminal => Err(Failure::Usage(format!(
            "the agent of session {} answers a single prompt, would act at once, and nobody is at a terminal here; say what it is to do, \
             such as --prompt '{}'",
            session.id, GO_ON
        ))),
        None if run::has_finished(run) && !args.yes => {
            let what = format!("the command of session {} has come to its end", session.id);
            match is_terminal {
                true => ask::is_agreed(context, &format!("{what}. Run it again: {}?", run.argv.join(" "))),
                false => Err(Failure::Usage(format!("{what}; give --yes to run it again"))),
            }
        }
        _ => Ok(true),
    }
}
