//! Other processes that have a session's conversation open.

use std::path::Path;

use parhelia_ledger::{LedgerView as _, Session};
use parhelia_store::{Store, event::Actor, name};

use super::{
    current::Current,
    life::{agent_of, hooked_agent_of, life, roots_in},
};
use crate::Result;
use crate::conversation::seen;
use parhelia_agent::{
    kind::Kind,
    open::{Holder, holders, unseen},
    process::{Identity, Owner, canonical, found, writes_to},
};

/// A folder in which nothing works.
const NOWHERE: &str = "/dev/null";

/// Processes that have a conversation open, and are not proven by their descent to be a session's own: it must not be gone on with, nor be
/// rewritten, while they live.
pub fn strangers_in(store: &Store, session: &Session, config: &Path, conversation: &str) -> Result<Vec<Holder>> {
    let mut held = holders(config, conversation);
    let view = store.view();
    for id in &session.runs {
        let Some(run) = view.run(id)?.filter(|_| !held.is_empty()) else { continue };
        // A marker may be inherited: what works in the workspace is the run's to be ended, but an agent there may be a person's.
        let own = found(id, &roots_in(store, &run)?, NOWHERE.as_ref())?;
        let is_own = |holder: &Holder| own.iter().any(|one| one.owner == Owner::Run && one.identity.is_same(&holder.process));
        held.retain(|holder| !is_own(holder));
    }
    Ok(held)
}

/// A sentence about an agent that may have a conversation open and cannot be seen from in here, so that nothing tells whether it lives. What
/// is of a run that is over, or whose lease says the same, is not meant.
pub fn unseen_in(store: &Store, session: &Session, config: &Path, conversation: &str) -> Result<Option<String>> {
    let mut found = unseen(config, conversation);
    let view = store.view();
    for id in &session.runs {
        let Some(run) = view.run(id)?.filter(|_| !found.is_empty()) else { continue };
        let agents: Vec<_> = agent_of(&run).into_iter().chain(hooked_agent_of(&run)).collect();
        if !run.is_open() || run.lease.is_some() || agents.iter().all(Identity::is_visible) {
            found.retain(|one| !agents.iter().any(|agent| one.is(agent)));
        }
    }
    Ok(found.first().map(|one| {
        format!(
            "conversation {conversation} may be open in process {} outside of this container, which cannot be seen from here",
            one.process
        )
    }))
}

/// The conversation of a run whose agent's command line names none, and of which no hook has told: the one that began in the run's folder since
/// the run did, and that a process of the run writes to; where none is alive any more, the only one that no other process has open. It is recorded.
pub fn learn(store: &Store, current: &Current, kind: Kind, config: &Path, actor: Actor) -> Result<Option<String>> {
    let view = store.refresh()?;
    let Some(run) = view.run(&current.run)? else { return Ok(None) };
    let folder = run.cwd.as_ref().map(|path| name::as_path(&name::parse(path)).to_owned());
    let folder = folder.unwrap_or_else(|| current.workspace.clone());
    let mut begun = kind.begun_since(config, run.started_at.into(), &folder)?;
    if begun.is_empty() {
        return Ok(None);
    }
    let own = found(&current.run, &roots_in(store, &run)?, &current.workspace)?;
    let is_own = |process: &Identity| own.iter().any(|one| one.identity.is_same(process));
    if life(&run).is_alive() {
        begun.retain(|located| {
            let transcript = [canonical(&located.transcript)];
            own.iter().any(|one| writes_to(one.identity.process, &transcript))
        });
    } else {
        // The agent has ended: a conversation that another process has open is not its own.
        begun.retain(|located| holders(config, &located.agent_session).iter().all(|holder| is_own(&holder.process)));
    }
    let [located] = begun.as_slice() else { return Ok(None) };
    let (id, transcript) = (&located.agent_session, Some(located.transcript.as_path()));
    if !sessions_in(store, id, &current.session)?.is_empty() {
        return Ok(None);
    }
    let seen = seen(id, &current.session, Some(&current.run), transcript, actor).in_epoch(current.epoch);
    match store.append_events(&[seen], &()) {
        Ok(_) | Err(parhelia_store::Error::Fenced { .. }) => Ok(Some(id.clone())),
        Err(e) => Err(e.into()),
    }
}

/// Other sessions that were in a conversation, and whether each may still act.
pub fn sessions_in(store: &Store, conversation: &str, but: &str) -> Result<Vec<(Session, bool)>> {
    let view = store.view();
    let knows = |session: &Session| session.id != but && session.conversations.iter().any(|known| known.id == conversation);
    let mut found = Vec::new();
    for session in view.sessions()?.into_iter().filter(knows) {
        let run = view.newest_run(&session)?;
        let is_alive = run.is_some_and(|run| life(&run).is_alive());
        found.push((session, is_alive));
    }
    Ok(found)
}
