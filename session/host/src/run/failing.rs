//! Checkpoints that fail behind an agent's back: nobody reads what is said of them, so that the session keeps it.

use jiff::Timestamp;
use parhelia_ledger::{LedgerView as _, Session, kind};
use parhelia_store::{
    Store, clock,
    event::{Actor, NewEvent},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Result;

/// The field of a session that tells of them; null where the last one was made.
pub const FAILING: &str = "failing";

/// Checkpoints that failed, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureStreak {
    /// The time of the first failure.
    pub since: Timestamp,
    /// The number of failures.
    pub count: u64,
    /// The reason of the last failure.
    pub reason: String,
    /// Id of the session's head at the first failure, as clocks may be put back; none where there was none, or an earlier release noted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// The checkpoints of a session that have failed since one was made.
pub fn failing(session: &Session) -> Option<FailureStreak> {
    session.extra.get(FAILING).and_then(|value| serde_json::from_value(value.clone()).ok())
}

/// Records that a checkpoint of a session could not be made, and why; or, with no reason, that one could be again.
pub fn note_checkpoint(store: &Store, session: &str, failed: Option<&str>, actor: Actor) -> Result<()> {
    let Some(known) = store.refresh()?.session(session)? else { return Ok(()) };
    let before = failing(&known);
    let head = store.view().head(session)?.map(|head| head.id());
    let now = match (failed, before) {
        (None, None) => return Ok(()),
        (None, Some(_)) => Value::Null,
        (Some(reason), before) => json!(FailureStreak {
            since: before.as_ref().map_or_else(clock::timestamp, |before| before.since),
            count: before.as_ref().map_or(0, |before| before.count) + 1,
            reason: reason.to_owned(),
            head: before.map_or_else(|| head.clone(), |before| before.head),
        }),
    };
    store.append_events(&[NewEvent::new(kind::SESSION_CHANGED, session, actor).with(FAILING, now)], &())?;
    Ok(())
}
