//! What an agent's event says of its need of a person: a verdict on its session, taken back by its next event of work.

use std::{thread, time::Duration};

use parhelia_agent::hooks::Event;
use parhelia_ledger::LedgerView as _;
use parhelia_store::Store;

use crate::overview::{
    self,
    attention::{self, State},
    observed::AgentState,
};
use parhelia_host::{
    Result,
    run::{Current, Says, hook_actor},
};

/// A question that is answered within this time is nobody's business, and one that another hook answers never comes before a person.
const HOLDS: Duration = Duration::from_secs(1);
/// The word of an agent that has put a question to a person, and waits.
const WAITING: &str = "waiting";

/// Records what an event says. What it says of a run that another one has taken over from is nothing.
pub(super) fn attend(store: &Store, current: &Current, event: &Event, says: Says) -> Result<()> {
    if says == Says::MayWait {
        // The agent runs hooks beside the question, or in its place. Only what it says itself tells that a person is asked; one that says nothing
        // sends a notification of it.
        thread::sleep(HOLDS);
    }
    let view = store.refresh()?;
    let Some(session) = view.session(&current.session)?.filter(|session| session.run.as_deref() == Some(&*current.run)) else {
        return Ok(());
    };
    let known = attention::recorded(&session).filter(|known| known.run == session.run);
    let waits = known.as_ref().filter(|known| known.state == State::Waiting);
    let asked = event.asked();
    let verdict = match says {
        Says::Works if known.as_ref().is_none_or(|known| !matches!(known.state, State::Waiting | State::Idle)) => return Ok(()),
        Says::Works => None,
        // That it has nothing to do is why it waits to be told how to go on.
        Says::Idles if known.as_ref().is_some_and(|known| known.state == State::CutOff) => return Ok(()),
        Says::Idles => Some((State::Idle, None)),
        Says::MayWait => {
            let is_asked = overview::own_word(store, &session)?.as_deref() == Some(WAITING);
            // One that somebody else has recorded is told already.
            if !is_asked || waits.is_some_and(|known| !known.heard) {
                return Ok(());
            }
            Some((State::Waiting, asked.as_deref()))
        }
        Says::Waits => {
            // The request before it said more.
            if waits.is_some() && overview::activity(store, &session)?.0 == AgentState::Waiting {
                return Ok(());
            }
            Some((State::Waiting, asked.as_deref()))
        }
    };
    attention::note_heard(store, &session, verdict, hook_actor())?;
    Ok(())
}
