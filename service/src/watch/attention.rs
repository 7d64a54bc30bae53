//! Agents that wait for a person, or have had nothing to do for a while: what they say of themselves becomes an event, and so a message.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parhelia_host::Result;
use parhelia_ledger::{LedgerView as _, Session};
use parhelia_life::overview::{
    self,
    attention::{self, State},
    observed::AgentState,
};
use parhelia_store::{Store, event::Actor};

use crate::app::App;

/// So often agents are asked what they do: each has a small file that says so.
const LOOK: Duration = Duration::from_secs(1);
/// A question that is answered within this time is nobody's business.
const WAITING_HOLDS: Duration = Duration::from_millis(1500);
/// An agent that has had nothing to do for so long idles.
const IDLE_HOLDS: Duration = Duration::from_secs(60);

/// Statements of live agents about themselves.
#[derive(Default)]
pub struct Attentions {
    /// The last statement of each, and since when it is so.
    said: HashMap<String, ((AgentState, Option<String>), Instant)>,
    /// The time at which they are asked next.
    next: Option<Instant>,
}

impl Attentions {
    /// Asks the live agents of these sessions, and records what has held for long enough. False before their next turn.
    pub fn go_on(&mut self, app: &App, alive: &[String]) -> Result<bool> {
        let store = &app.store;
        let now = Instant::now();
        if self.next.is_some_and(|next| next > now) {
            return Ok(false);
        }
        self.next = Some(now + LOOK);
        self.said.retain(|id, _| alive.contains(id));
        let view = store.view();
        for id in alive {
            let Some(session) = view.session(id)? else { continue };
            let (observed, what) = overview::activity(store, &session)?;
            app.listing.heard(id, observed, what.as_ref());
            let what = what.filter(|_| observed == AgentState::Waiting);
            let since = match self.said.get(id) {
                Some((said, since)) if *said == (observed, what.clone()) => *since,
                _ => now,
            };
            self.said.insert(id.clone(), ((observed, what.clone()), since));
            judge(store, &session, observed, what.as_deref(), now - since)?;
        }
        Ok(true)
    }
}

/// Records the verdict on a live agent that has been observed so for some time, where it is new.
fn judge(store: &Store, session: &Session, observed: AgentState, what: Option<&str>, held: Duration) -> Result<()> {
    let known = attention::recorded(session);
    // That its turn was cut off is said until somebody has told it how to go on.
    if known.as_ref().is_some_and(|known| known.state == State::CutOff) && observed.is_alive() {
        let head = store.view().head(&session.id)?;
        if attention::holding(session, observed, head.as_ref()).is_some() {
            return Ok(());
        }
    }
    let verdict = match observed {
        AgentState::Waiting if held >= WAITING_HOLDS => Some((State::Waiting, what)),
        AgentState::Idle if held >= IDLE_HOLDS => Some((State::Idle, None)),
        // Not yet; what was recorded of another state is over all the same.
        AgentState::Waiting | AgentState::Idle | AgentState::Live => {
            let is_same = |state: State| match state {
                State::Waiting => observed == AgentState::Waiting,
                State::Idle => observed == AgentState::Idle,
                State::Recovered => true,
                State::LeftAlone | State::ResumeFailed | State::CutOff => false,
            };
            if known.as_ref().is_none_or(|known| is_same(known.state) && known.run == session.run) {
                return Ok(());
            }
            None
        }
        _ => return Ok(()),
    };
    attention::note(store, session, verdict, Actor::program("service"))?;
    Ok(())
}
