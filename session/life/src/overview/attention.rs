//! The verdict on a session's agent: that it waits for a person, idles, was left alone, could not be resumed, or was. It is recorded as an event, so
//! that whoever is not looking hears of it.

use jiff::Timestamp;
use parhelia_ledger::{Session, kind};
use parhelia_store::{
    Store, clock,
    event::{Actor, NewEvent},
    record::Checkpoint,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{activity::has_written_since, observed::AgentState};
use parhelia_host::{Result, run};

/// The field of a session that has the verdict; null where there is none.
pub const ATTENTION: &str = "attention";

/// The kind of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The agent lives, and waits for an answer of a person.
    Waiting,
    /// The agent lives, and has had nothing to do for a while.
    Idle,
    /// The agent died, and is not resumed by itself.
    LeftAlone,
    /// The agent died, and resuming it failed.
    ResumeFailed,
    /// The agent died, and was resumed.
    Recovered,
    /// The agent died in a turn, was resumed, and waits to be told how to go on.
    CutOff,
}

impl State {
    /// Its name, as recorded.
    pub fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Idle => "idle",
            State::LeftAlone => "left_alone",
            State::ResumeFailed => "resume_failed",
            State::Recovered => "recovered",
            State::CutOff => "cut_off",
        }
    }

    /// True if it is one of a live agent.
    pub fn is_of_life(self) -> bool {
        !matches!(self, State::LeftAlone | State::ResumeFailed)
    }
}

/// A verdict, as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attention {
    /// Its kind.
    pub state: State,
    /// The reason, or what is waited for.
    #[serde(default)]
    pub why: Option<String>,
    /// The run that it is about.
    #[serde(default)]
    pub run: Option<String>,
    /// The time of recording.
    pub since: Timestamp,
    /// True if an event of the agent's hooks told it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub heard: bool,
}

/// The last verdict on a session, whether it still holds or not. One of a later release's kinds is none.
pub fn recorded(session: &Session) -> Option<Attention> {
    session.extra.get(ATTENTION).and_then(|value| serde_json::from_value(value.clone()).ok())
}

/// The verdict that holds for a session whose agent is observed so, and whose last checkpoint is `head`. Whoever recorded one may have stopped
/// looking since: what the agent does, and later events, take it back.
pub fn holding(session: &Session, observed: AgentState, head: Option<&Checkpoint>) -> Option<Attention> {
    let known = recorded(session)?;
    let is_of_newest = known.run == session.run;
    let has_gone_on = || has_captured_since(head, known.since);
    let holds = match known.state {
        State::Waiting | State::Idle => {
            let is_so = match observed {
                AgentState::Waiting => known.state == State::Waiting,
                AgentState::Idle => known.state == State::Idle,
                // What it does cannot be seen.
                AgentState::Elsewhere | AgentState::Unknown => !has_gone_on(),
                AgentState::None | AgentState::Starting | AgentState::Live | AgentState::Dead => false,
            };
            is_so && is_of_newest
        }
        State::Recovered => observed.is_alive() && is_of_newest,
        State::CutOff => {
            let is_told = has_gone_on_since(session, head, known.since) || observed == AgentState::Waiting;
            observed.is_alive() && is_of_newest && !is_told
        }
        State::LeftAlone => observed == AgentState::Dead && is_of_newest,
        // Each try to resume it is a run more. One that has worked since was no such try.
        State::ResumeFailed => observed == AgentState::Dead && (is_of_newest || !has_gone_on()),
    };
    holds.then_some(known)
}

/// The verdict that an event of a run has told, and none has taken back: that its agent waits, or idles.
pub fn heard(session: &Session, run: &str) -> Option<Attention> {
    let is_its = |known: &Attention| known.heard && known.run.as_deref() == Some(run);
    recorded(session).filter(|known| is_its(known) && matches!(known.state, State::Waiting | State::Idle))
}

/// True if a session's agent has gone on with its work since then, as its checkpoints or its transcript tell.
pub fn has_gone_on_since(session: &Session, head: Option<&Checkpoint>, since: Timestamp) -> bool {
    has_captured_since(head, since) || has_written_since(session, since)
}

fn has_captured_since(head: Option<&Checkpoint>, since: Timestamp) -> bool {
    head.is_some_and(|head| head.record.created_at > since && has_worked(head))
}

/// True of a checkpoint for which an agent gave cause that went on with its work.
fn has_worked(checkpoint: &Checkpoint) -> bool {
    checkpoint.record.cause().is_some_and(run::is_of_agent)
}

/// Records a verdict on a session, or, with none, that there is none any more. What is known already is not recorded again; then it is false.
pub fn note(store: &Store, session: &Session, verdict: Option<(State, Option<&str>)>, actor: Actor) -> Result<bool> {
    record(store, session, verdict, (actor, false))
}

/// As [`note`], of what an event of the agent's hooks tells.
pub(crate) fn note_heard(store: &Store, session: &Session, verdict: Option<(State, Option<&str>)>, actor: Actor) -> Result<bool> {
    record(store, session, verdict, (actor, true))
}

fn record(
    store: &Store,
    session: &Session,
    verdict: Option<(State, Option<&str>)>,
    (actor, heard): (Actor, bool),
) -> Result<bool> {
    let known = recorded(session);
    let is_known = match (&known, verdict) {
        (None, None) => true,
        (Some(known), Some((state, why))) => {
            let is_same = known.state == state && known.why.as_deref() == why;
            // Each death that a session is left alone after is one of its own.
            is_same && (state == State::ResumeFailed || known.run == session.run)
        }
        _ => false,
    };
    if is_known {
        return Ok(false);
    }
    let now = verdict.map_or(Value::Null, |(state, why)| {
        json!(Attention { state, why: why.map(str::to_owned), run: session.run.clone(), since: clock::timestamp(), heard })
    });
    store.append_events(&[NewEvent::new(kind::SESSION_ATTENTION, &session.id, actor).with(ATTENTION, now)], &())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(state: State, of: &str, observed: AgentState) -> bool {
        let attention = Attention { state, why: None, run: Some(of.into()), since: clock::timestamp(), heard: false };
        let session = json!({
            "id": "s", "name": "s", "workspace": null, "status": "active", "epoch": 2, "run": "new", "runs": ["old", "new"],
            "conversations": [], "totals": {}, "created_at": "2026-01-01T00:00:00Z", "changed_at": "2026-01-01T00:00:00Z", ATTENTION: attention,
        });
        holding(&serde_json::from_value(session).unwrap(), observed, None).is_some()
    }

    #[test]
    fn a_verdict_holds_while_the_agent_is_seen_to_be_so() {
        assert!(holds(State::Waiting, "new", AgentState::Waiting) && holds(State::Idle, "new", AgentState::Idle));
        for observed in [AgentState::Idle, AgentState::Live, AgentState::Starting, AgentState::Dead] {
            assert!(!holds(State::Waiting, "new", observed), "{observed:?}");
        }
        assert!(!holds(State::Idle, "new", AgentState::Waiting));
        assert!(holds(State::Waiting, "new", AgentState::Elsewhere), "nothing takes it back");
        assert!(holds(State::Recovered, "new", AgentState::Idle) && !holds(State::Recovered, "old", AgentState::Idle));
    }

    #[test]
    fn a_verdict_on_a_death_is_none_on_the_next_one() {
        assert!(holds(State::LeftAlone, "new", AgentState::Dead));
        assert!(!holds(State::LeftAlone, "old", AgentState::Dead) && !holds(State::LeftAlone, "new", AgentState::Live));
        assert!(holds(State::ResumeFailed, "old", AgentState::Dead), "each try is a run more");
        assert!(!holds(State::ResumeFailed, "new", AgentState::Unknown));
    }
}
