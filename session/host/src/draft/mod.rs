//! A checkpoint in the making: the value that its steps read, and add their findings to. Each step lies in the room that knows how it is done.

mod request;

use parhelia_ledger::{Scan, Session};
use parhelia_store::{
    Store,
    check::VerifyReport,
    create::{Options, Outcome, State},
    event::{Actor, NewEvent},
    record::Checkpoint,
};

pub use self::request::{CheckpointRequest, Conversation};
use crate::{Host, Observer, Result};

/// A checkpoint that was captured, and what its steps have found so far.
pub struct Draft<'a> {
    /// The store that has the checkpoint by now.
    pub store: &'a Store,
    /// The caller.
    pub host: &'a dyn Host,
    /// The request, as the caller made it.
    pub request: &'a CheckpointRequest<'a>,
    /// The observer, who is told of whatever concerns people.
    pub observer: &'a dyn Observer,
    /// The session, as it was known before.
    pub session: Option<Session>,
    /// The options of the capture, should it be repeated.
    pub options: Options,
    /// The capture of what lies beside the workspace.
    pub state: Box<dyn State>,
    /// The checkpoint, or where nothing had changed the last one.
    pub outcome: Outcome,
    /// A sentence about the captured folder, where it is not the session's own.
    pub notice: Option<String>,
    /// The finding of its verification, or why it could not be verified.
    pub verified: Option<Result<VerifyReport>>,
    /// The scan of its new content for secrets.
    pub scan: Option<Scan>,
    /// Events about it that are not recorded yet. They are appended together: each append waits for the disk.
    pub findings: Vec<NewEvent>,
}

impl Draft<'_> {
    /// The captured checkpoint; the last one where nothing had changed.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.outcome.checkpoint
    }

    /// The person or program that events of this checkpoint name.
    pub fn actor(&self) -> &Actor {
        &self.options.actor
    }

    /// True if an agent works in the session.
    pub fn is_agents(&self) -> bool {
        self.request.is_agents(self.session.as_ref())
    }

    /// The report of its verification.
    pub fn report(&self) -> Option<&VerifyReport> {
        self.verified.as_ref()?.as_ref().ok()
    }
}
