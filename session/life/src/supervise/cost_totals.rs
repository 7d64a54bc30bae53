//! The cost that a headless agent prints. It is that of one process, or, where the agent keeps the cost in its conversation, of all until then.

use std::path::Path;

use parhelia_ledger::{LedgerView as _, Session, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    name::is_session,
};

use crate::checkpoint::Conversation;
use parhelia_host::{
    Result,
    conversation::{Source, summary_now},
    run::{Current, conversation_of},
};

/// The costs of a session's conversations before a run of it, to which that run adds.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    before: Vec<(String, f64)>,
    /// The conversation whose cost was added to last, and its cost before; none where its agent adds up itself.
    found: Option<(String, Option<f64>)>,
}

impl Costs {
    /// The costs as they are known now.
    pub fn known(store: &Store, session: &str) -> Self {
        let session = store.refresh().and_then(|view| view.session(session)).ok().flatten();
        let conversations = session.map(|session| session.conversations).unwrap_or_default();
        let before = conversations.into_iter().filter_map(|one| Some((one.id, one.cost_usd?))).collect();
        Costs { before, found: None }
    }

    /// Records what an agent has printed of its cost, in a conversation that is known, or that it has `named`.
    pub fn note(
        &mut self,
        store: &Store,
        current: &Current,
        (usd, named): (f64, Option<String>),
        config: Option<&Path>,
        actor: Actor,
    ) -> Result<()> {
        let Some(session) = store.refresh()?.session(&current.session)? else { return Ok(()) };
        let Some(id) = conversation_of(&session, &current.run).or(named.filter(|id| is_session(id))) else { return Ok(()) };
        let cost = self.base(store, &session, &id, config).map_or(usd, |before| before + usd);
        let event = NewEvent::new(kind::CONVERSATION_SEEN, id, actor)
            .with("session", &*current.session)
            .with("run", &*current.run)
            .with("printed_cost_usd", cost)
            .in_epoch(current.epoch);
        match store.append_events(&[event], &()) {
            Ok(_) | Err(parhelia_store::Error::Fenced { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// The cost of a conversation before the run, where the run's own comes on top.
    fn base(&mut self, store: &Store, session: &Session, id: &str, config: Option<&Path>) -> Option<f64> {
        if let Some((_, base)) = self.found.as_ref().filter(|(found, _)| found == id) {
            return *base;
        }
        let before = self.before.iter().find(|(known, _)| known == id).map(|(_, cost)| *cost);
        // An agent that finds an earlier cost in its conversation begins with that.
        let base = before.filter(|_| !keeps_cost(store, session, id, config));
        self.found = Some((id.to_owned(), base));
        base
    }
}

/// True if the agent has written down in a conversation what that has cost.
fn keeps_cost(store: &Store, session: &Session, id: &str, config: Option<&Path>) -> bool {
    let conversation = Conversation::of(Some(session), Some(id), config.map(Path::to_owned));
    let Some(Ok(Source::Transcript(located))) = conversation.source(Some(session)) else { return false };
    summary_now(located, &store.layout().cache()).is_ok_and(|summary| summary.cost_estimate_usd.is_some())
}
