//! Admission of events to the journal: none by a run that a newer one has taken over from, and none about what does not exist.

use parhelia_store::{
    Error, Result,
    event::NewEvent,
    fold::{Checkpoints, Projection},
};

use crate::{fold::Ledger, kind, session::Session};

/// Kinds of events that only the newest run of a session may record.
const FENCED: [&str; 6] = [
    kind::SESSION_HEAD,
    kind::SESSION_STATUS,
    kind::CONVERSATION_SEEN,
    kind::RUN_LEASE,
    kind::CHECKPOINT_DECIDED,
    kind::CHECKPOINT_DELETED,
];

impl Ledger {
    /// The epoch that an event is recorded with, if it may be recorded. Fails with [`Error::Fenced`] where an epoch that is out of date moves a head, changes a
    /// status or the conversation, renews a lease or decides, and where a run does not begin above the session's epoch.
    pub(crate) fn admitted_epoch(&self, kept: Projection<'_>, checkpoints: &dyn Checkpoints, new: &NewEvent) -> Result<u64> {
        let Some(id) = self.session_of(kept, checkpoints, new)? else { return Ok(new.epoch.unwrap_or(0)) };
        let session = self.session(kept, &id)?;
        let is_of_session = ["session.", "run."].iter().any(|begins| new.kind.starts_with(begins));
        if let Some(session) = session.as_ref().filter(|session| !session.is_ours() && is_of_session) {
            return Err(elsewhere(session));
        }
        let current = session.map_or(0, |session| session.epoch);
        let fenced = |epoch| Err(Error::Fenced { action: new.kind.clone(), session: id.clone(), epoch, current });
        let epoch = match new.epoch {
            None if new.kind == kind::RUN_STARTED => current + 1,
            None => current,
            Some(epoch) if new.kind == kind::RUN_STARTED && epoch <= current => return fenced(epoch),
            Some(epoch) if FENCED.contains(&new.kind.as_str()) && epoch < current => return fenced(epoch),
            Some(epoch) => epoch,
        };
        if new.kind == kind::SESSION_HEAD {
            check_head(checkpoints, new)?;
        }
        Ok(epoch)
    }

    /// The session that an event concerns. Fails where its subject does not exist.
    fn session_of(&self, kept: Projection<'_>, checkpoints: &dyn Checkpoints, new: &NewEvent) -> Result<Option<String>> {
        let told = || new.data.get("session").and_then(serde_json::Value::as_str).map(str::to_owned);
        match new.kind.split_once('.') {
            Some(("session", _)) => Ok(Some(new.subject.clone())),
            Some(("run", _)) if new.kind == kind::RUN_STARTED => Ok(told()),
            Some(("run", _)) => Ok(self.run(kept, &new.subject)?.map(|run| run.session)),
            Some(("checkpoint", _)) => {
                let found = new.subject.parse().map(|id| checkpoints.checkpoint(id));
                let none = || Error::NoCheckpoint { selector: new.subject.clone() };
                let found = found.map_err(|_| none())??;
                Ok(Some(found.ok_or_else(none)?.record.session))
            }
            _ => Ok(told()),
        }
    }
}

/// The refusal of a change to a session that is on another machine.
pub(crate) fn elsewhere(session: &Session) -> Error {
    Error::Refused(format!(
        "session {} is on another machine, of which a remote has told; what it has can be read and restored here, and nothing is changed in it",
        session.id
    ))
}

/// A session's head is one of its own checkpoints.
fn check_head(checkpoints: &dyn Checkpoints, new: &NewEvent) -> Result<()> {
    let told = new.data.get("checkpoint").and_then(serde_json::Value::as_str).unwrap_or_default();
    let found = told.parse().ok().map(|id| checkpoints.checkpoint(id)).transpose()?.flatten();
    match found {
        Some(checkpoint) if checkpoint.record.session == new.subject => Ok(()),
        _ => Err(Error::NoCheckpoint { selector: format!("{}@{told}", new.subject) }),
    }
}
