//! What the agent of a session is seen to do: as the kernel tells, as it says of itself, and as its last event told.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parhelia_agent::{
    open::{live, said_by},
    process::Identity,
    said::AgentProcess,
    tmux::Server,
    trouble::Trouble,
};
use parhelia_ledger::{Conversation, Goal, LedgerView as _, Run, Session};
use parhelia_store::Store;

use super::AgentState;
use crate::overview::attention;
use parhelia_host::{
    Result,
    run::{self, Life},
};

/// What the newest agent of a session is seen to do, and why, as far as it can be told.
pub fn activity(store: &Store, session: &Session) -> Result<(AgentState, Option<String>)> {
    let Activity { observed, why, .. } = observed(store, session, store.view().newest_run(session)?.as_ref())?;
    Ok((observed, why))
}

/// The activity of an agent, as it is seen.
pub(super) struct Activity {
    pub(super) observed: AgentState,
    pub(super) why: Option<String>,
    pub(super) agent: Option<Identity>,
}

pub(super) fn observed(store: &Store, session: &Session, run: Option<&Run>) -> Result<Activity> {
    let without = |observed, why| Activity { observed, why, agent: None };
    if !session.is_ours() {
        let host = run.and_then(|run| run.host.as_deref()).unwrap_or("another machine");
        return Ok(without(AgentState::Elsewhere, Some(format!("on {host}, as its remote told last"))));
    }
    let Some(run) = run else { return Ok(without(AgentState::None, None)) };
    // One whose session was ended while it lived is still there to be seen.
    let life = run::left_alive(run).map_or_else(|| run::life(run), Life::Agent);
    let why_ended = || {
        let is_set_aside = run.is_open() && session.goal() == Goal::Paused;
        if is_set_aside { Some(SET_ASIDE.to_owned()) } else { session.status_reason.clone().filter(|_| !run.is_open()) }
    };
    Ok(match life {
        Life::Starting(_) => without(AgentState::Starting, None),
        Life::Elsewhere { host, until } => match run::why_unknown(run) {
            Some(why) => without(AgentState::Unknown, Some(format!("{why}; it counts as alive until {until}"))),
            None => without(AgentState::Elsewhere, Some(format!("on {host}, until {until}"))),
        },
        Life::Over => match run::why_unknown(run) {
            Some(why) => without(AgentState::Unknown, Some(why)),
            None => without(AgentState::Dead, why_dead(session, run)),
        },
        Life::Agent(process) => {
            let said = said(store, session, run, &process)?;
            let heard = attention::heard(session, &run.id);
            let (status, what) = said.map_or((None, None), |said| (said.status, said.waits_for));
            // One that never began to work may stand at a question of its start.
            if status.is_none()
                && heard.is_none()
                && let Some(asked) = asks_at_start(store, session, run)
            {
                return Ok(Activity { observed: AgentState::Waiting, why: Some(asked.text().to_owned()), agent: Some(process) });
            }
            let (observed, why) = match (status.as_deref(), heard) {
                (Some("idle"), _) => (AgentState::Idle, why_ended()),
                // An event tells what it waits for, and the agent only the kind of that.
                (Some("waiting"), heard) => {
                    let told = heard.filter(|heard| heard.state == attention::State::Waiting).and_then(|heard| heard.why);
                    (AgentState::Waiting, told.or(what).or_else(why_ended))
                }
                // One that says nothing of itself is as its last event told.
                (None, Some(heard)) if !has_written_since(session, heard.since) => match heard.state {
                    attention::State::Waiting => (AgentState::Waiting, heard.why.or_else(why_ended)),
                    _ => (AgentState::Idle, why_ended()),
                },
                _ => (AgentState::Live, why_ended()),
            };
            Activity { observed, why, agent: Some(process) }
        }
    })
}

/// The word that the live agent of a session's run has left of itself.
fn said(store: &Store, session: &Session, run: &Run, process: &Identity) -> Result<Option<AgentProcess>> {
    let Some(config) = run::config_of_session(store, session)? else { return Ok(None) };
    let its = || live(&config.path, &run::conversation_of(session, &run.id)?).into_iter().next();
    Ok(said_by(&config.path, process.process).filter(|said| said.process.is_same(process)).or_else(its))
}

/// No call of tmux takes longer.
const TMUX_LIMIT: Duration = Duration::from_millis(500);

/// The question at which the agent of a run stands in its pane, such as whether it may trust the folder; none once an event of its hooks was heard, and of
/// one outside of tmux.
fn asks_at_start(store: &Store, session: &Session, run: &Run) -> Option<Trouble> {
    let pane = run.tmux.as_ref().filter(|_| run::heard_hooks(run).is_none())?;
    let kind = run::kind_of(store, session).ok()?;
    let screen = Server::new(Some((&*pane.socket).into()), TMUX_LIMIT).screen(&pane.pane).ok()?;
    kind.trouble(&screen).filter(|trouble| trouble.waits_for_someone())
}

/// The activity of a session's newest agent in its own word; none where it is not seen to live, or says nothing of itself.
pub(crate) fn own_word(store: &Store, session: &Session) -> Result<Option<String>> {
    let Some(run) = store.view().newest_run(session)? else { return Ok(None) };
    let Life::Agent(process) = run::life(&run) else { return Ok(None) };
    Ok(said(store, session, &run, &process)?.and_then(|said| said.status))
}

/// An agent writes down what led to a question while it puts that.
const WRITING: SignedDuration = SignedDuration::from_secs(3);

/// True if the newest conversation of a session was written to since an event, so that its agent goes on.
pub(super) fn has_written_since(session: &Session, since: Timestamp) -> bool {
    let transcript = session.conversations.last().and_then(Conversation::seen_at);
    let written =
        transcript.and_then(|path| path.metadata().ok()?.modified().ok()).and_then(|time| Timestamp::try_from(time).ok());
    written.is_some_and(|written| written > since + WRITING)
}

fn why_dead(session: &Session, run: &Run) -> Option<String> {
    match run.is_open() {
        true => Some(run::why_dead(run)),
        false => session.status_reason.clone().or_else(|| run.exit_reason.clone()),
    }
}

/// The reason why a live session is not resumed when its agent dies.
const SET_ASIDE: &str = "paused: it is not resumed if it dies";
