//! Consent to what a resume would start.

use std::path::Path;

use parhelia_ledger::{Goal, LedgerView as _, Place, Run, Session, Status, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    view::View,
};

use super::ResumeRequest;
use parhelia_host::{Host, Refusal, Result, run};

/// Something that a resume would do and that a person must have asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Nothing.
    None,
    /// A command that has done its work would do it again: the words of the command.
    RunAgain(String),
}

/// The consent that a resume needs, by the run whose command it would run. An agent that answers a single prompt acts at once, and a command that has done its work does it again.
/// A person at a terminal (`is_attended`) who resumes an agent means that.
pub fn consent(session: &Session, own: Option<&Run>, request: &ResumeRequest, is_attended: bool) -> Result<Consent> {
    let Some(run) = own else { return Ok(Consent::None) };
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    /// The command that started it is not known: an agent that somebody started by hand told of it, whose command line no known kind has.
    #[error("it is not known how its agent is started")]
    UnknownCommand,
    /// The program is no agent.
    #[error("its program is no agent, and would do everything again")]
    NoAgent,
    /// The agent answers one prompt.
    #[error("its agent answers one prompt, and none is given")]
    NoPrompt,
    /// Its policy has it wait for a person.
    #[error("policy {policy} has it wait for a person")]
    Policy {
        /// Name of the session's policy of approval.
        policy: String,
    },
    /// The agent of another session works in its folder, which never did so beside its own.
    #[error("session {session}, whose agent never ran beside its own, is alive in the same folder")]
    Beside {
        /// Id of the other session.
        session: String,
    },
    /// It dies again and again.
    #[error("its agent died {runs} times within ten minutes")]
    CrashLoop {
        /// Runs that ended so.
        runs: usize,
    },
}

/// The reason for which a session's program is not started again unseen, where there is one.
pub fn unasked(store: &Store, host: &dyn Host, session: &Session, prompt: Option<&str>) -> Result<Option<Objection>> {
    let own = run::commands_of(store, session)?.own;
    // What a supervisor has started is what the user named; else only an agent's own events have told of it.
    let is_launched = own.as_ref().is_some_and(|own| own.extra.contains_key(run::LAUNCHER) || run::is_elsewhere(own));
    match own.as_ref().and_then(run::agent_in) {
        None if !is_launched => return Ok(Some(Objection::UnknownCommand)),
        None => return Ok(Some(Objection::NoAgent)),
        Some(agent) if agent.is_headless() && prompt.is_none() => return Ok(Some(Objection::NoPrompt)),
        Some(_) => {}
    }
    let place = session.workspace.as_ref().map(Place::folder);
    if let Some(other) = place.as_deref().map(|place| stranger_in(store, session, place)).transpose()?.flatten() {
        return Ok(Some(Objection::Beside { session: other }));
    }
    let options = host.config(place.as_deref().unwrap_or(Path::new("/")))?.approval;
    let policy = session.policy.clone().unwrap_or_else(|| options.default_policy.clone());
    Ok((!options.resumes_by_itself(&policy)).then_some(Objection::Policy { policy }))
}

/// A session with a live agent in a folder that has never had one there while a session's own agent lived: who began the one did not mean both.
fn stranger_in(store: &Store, session: &Session, place: &Path) -> Result<Option<String>> {
    let live = run::live_in(store, place, &session.id)?;
    if live.is_empty() {
        return Ok(None);
    }
    let view = store.view();
    let own = runs(&view, session)?;
    for (other, _) in live {
        let has_met = |run: &Run| own.iter().any(|one| overlap(one, run));
        if !runs(&view, &other)?.iter().any(has_met) {
            return Ok(Some(other.id));
        }
    }
    Ok(None)
}

fn runs(view: &View, session: &Session) -> Result<Vec<Run>> {
    let runs = session.runs.iter().map(|id| view.run(id));
    Ok(runs.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// True if two runs lived at the same time; one that is open still does.
fn overlap(one: &Run, other: &Run) -> bool {
    let began_within =
        |late: &Run, early: &Run| early.started_at <= late.started_at && early.ended_at.is_none_or(|end| end > late.started_at);
    began_within(one, other) || began_within(other, one)
}

/// The field of a session that names the last run before it was set aside. A person has decided about what went before.
pub const SET_ASIDE_AFTER: &str = "set_aside_after";

/// The reason for which a policy has set a session aside, where nothing was decided since.
pub fn why_set_aside(session: &Session) -> Option<String> {
    let after = session.extra.get(SET_ASIDE_AFTER).and_then(|run| run.as_str());
    let is_so = session.goal() == Goal::Paused && after.is_some() && after == session.run.as_deref();
    session.status_reason.clone().filter(|_| is_so)
}

/// Records that a policy has set a session aside whose agent died: it is a person's from now on.
pub fn set_aside(store: &Store, session: &Session, why: &Objection) -> Result<()> {
    let of_policy = |kind| NewEvent::new(kind, &session.id, Actor::program("policy"));
    let status = of_policy(kind::SESSION_STATUS).with("status", Status::Paused.name()).with("wanted", Goal::Paused.name());
    let after = of_policy(kind::SESSION_CHANGED).with(SET_ASIDE_AFTER, session.run.clone());
    store.append_events(&[status.with("reason", why.to_string()), after], &())?;
    Ok(())
}
