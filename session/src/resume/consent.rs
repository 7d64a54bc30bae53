//! Consent to what a resume would start.

use parhelia_store::projection::{Run, Session};

use super::ResumeRequest;
use crate::{
    error::{Refusal, Result},
    run,
};

/// Something that a resume would do and that a person must have asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Nothing.
    None,
    /// A command that has done its work would do it again: the words of the command.
    RunAgain(String),
}

/// The consent that a resume needs. An agent that answers a single prompt acts at once, and a command that has done its work does it again.
/// A person at a terminal (`is_attended`) who resumes an agent means that.
pub fn consent(session: &Session, newest: Option<&Run>, request: &ResumeRequest, is_attended: bool) -> Result<Consent> {
    let Some(run) = newest else { return Ok(Consent::None) };
    match run::agent_in(run) {
        Some(agent) if agent.is_headless() && request.prompt.is_none() && request.new_conversation => {
            Err(Refusal::NewNeedsPrompt.into())
        }
        Some(agent) if agent.is_headless() && request.prompt.is_none() && !is_attended => {
            Err(Refusal::NobodyAsked { session: session.id.clone() }.into())
        }
        None if run::has_finished(run) => Ok(Consent::RunAgain(run.argv.join(" "))),
        _ => Ok(Consent::None),
    }
}

/// The reason for which a session is not resumed by somebody who does not look at it: its program would act without having been asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unasked {
    /// The program is no agent.
    #[error("its program is no agent, and would do everything again")]
    NoAgent,
    /// The agent answers one prompt.
    #[error("its agent answers one prompt, and none is given")]
    NoPrompt,
}

/// The reason for which a run's program is not started again unseen, where there is one.
pub fn unasked(newest: Option<&Run>, prompt: Option<&str>) -> Option<Unasked> {
    match newest.and_then(run::agent_in) {
        None => Some(Unasked::NoAgent),
        Some(agent) if agent.is_headless() && prompt.is_none() => Some(Unasked::NoPrompt),
        Some(_) => None,
    }
}
