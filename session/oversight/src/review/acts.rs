//! Acts on sessions: an agent acts on its own session, and on those that it has begun. Its attempt at another one is refused and recorded.
//!
//! Whoever says where a session's workspace is, what it goes on from or whether it lives decides what a person finds there later, so that an
//! agent's word does not count for the work of others.

use std::path::Path;

use parhelia_agent::process::canonical;
use parhelia_ledger::{LedgerView as _, Session, kind, selector::sessions_at};
use parhelia_store::{Store, event::NewEvent, id::Ulid};

use crate::{
    overrides,
    who::{Who, who},
};
use parhelia_host::{
    Host, Observer, Result,
    notice::Notice,
    refusal::{Attempt, DecisionRefusal},
    run,
};

/// The field of a session that an agent has begun: the session of that agent, or `STRANGER`.
pub const BEGUN_BY: &str = "begun_by";
/// An agent of which the store has no run.
const STRANGER: &str = "-";
/// Sessions that began each other are followed so far.
const DEPTH_MAX: usize = 32;

/// An act on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act<'a> {
    /// The act in words, such as `session end`.
    pub words: &'a str,
    /// True if whoever looks after sessions in a container does it as well, where nothing shows that no agent has started it.
    pub is_upkeep: bool,
}

impl<'a> Act<'a> {
    /// An act that is a person's, or the session's own agent's.
    pub fn new(words: &'a str) -> Self {
        Act { words, is_upkeep: false }
    }

    /// An act of whoever looks after sessions.
    pub fn of_upkeep(words: &'a str) -> Self {
        Act { words, is_upkeep: true }
    }
}

/// Fails where an agent would act on a session that is neither its own nor one that it has begun; without a session, on any. The attempt is
/// recorded. A session that does not exist is nobody's.
pub fn ensure_may_act(
    store: &Store,
    host: &dyn Host,
    act: Act<'_>,
    session: Option<&str>,
    observer: &dyn Observer,
) -> Result<()> {
    store.refresh()?;
    let named = session.map(str::to_owned);
    let who = who(store, host, named.as_slice())?;
    let known = session.map(|id| store.view().session(id)).transpose()?.flatten();
    let why = match &known {
        None if session.is_some() => return Ok(()),
        Some(session) if !is_end_unseen(&who, act) && is_own(store, &who, session)? => return Ok(()),
        _ => who.why_not_person(),
    };
    let is_seen = || {
        Ok::<_, parhelia_host::Error>(known.as_ref().map(|session| is_in_sight(store, session)).transpose()?.unwrap_or_default())
    };
    match why {
        None => Ok(()),
        // The service sees more than whoever calls it, and looks after nothing for somebody whom it cannot see.
        Some(_) if matches!(who, Who::Unseen { .. }) && !is_nobody_by_api(host) && is_seen()? => Ok(()),
        Some(why) if matches!(who, Who::Unseen { .. }) && !is_nobody_by_api(host) && act.is_upkeep => {
            overrides::let_through(store, host, (act.words, session, &why), observer);
            Ok(())
        }
        Some(why) => {
            let of = session.map_or_else(|| "all sessions".to_owned(), |session| format!("session {session}"));
            refused(store, host, &who, (act.words, session, &why), of, observer)
        }
    }
}

fn is_nobody_by_api(host: &dyn Host) -> bool {
    host.is_by_api() && host.call().is_unseen
}

/// Fails where an agent, or whoever may have been started by one, would do what is a person's alone, also for its own session. The attempt is recorded.
pub fn ensure_person(store: &Store, host: &dyn Host, words: &str, session: Option<&str>, observer: &dyn Observer) -> Result<()> {
    store.refresh()?;
    let named = session.map(str::to_owned);
    let who = who(store, host, named.as_slice())?;
    match who.why_not_person() {
        None => Ok(()),
        Some(why) => {
            let of = session.map_or_else(|| "the store".to_owned(), |session| format!("session {session}"));
            refused(store, host, &who, (words, session, &why), of, observer)
        }
    }
}

/// Fails where an agent would make a checkpoint in the name of another session. `names_conversation`: whether it says which conversation is the
/// session's. What is no agent's work, and is captured where it is, may be captured by an agent of which nothing is known.
pub fn ensure_may_capture(
    store: &Store,
    host: &dyn Host,
    (session, workspace): (&Session, &Path),
    names_conversation: bool,
    observer: &dyn Observer,
) -> Result<()> {
    let is_there = session.workspace.as_ref().is_some_and(|place| canonical(&place.folder()) == canonical(workspace));
    let is_faithful = is_there && !names_conversation;
    if is_faithful && !run::has_agent(session) && matches!(who(store, host, std::slice::from_ref(&session.id))?, Who::Stranger(_))
    {
        return Ok(());
    }
    let act = Act { words: "checkpoint create", is_upkeep: is_faithful };
    ensure_may_act(store, host, act, Some(&session.id), observer)
}

/// Fails where an agent would say something about a checkpoint of a session that is not its own, as [`ensure_may_act`] does.
pub(super) fn ensure_may_mark(
    store: &Store,
    host: &dyn Host,
    words: &str,
    checkpoint: Ulid,
    observer: &dyn Observer,
) -> Result<Who> {
    let found = store.refresh()?.checkpoint(checkpoint)?;
    // One that does not exist is refused where its marks are read.
    let session = found.map(|found| found.record.session);
    let who = who(store, host, session.as_slice())?;
    let Some(session) = &session else { return Ok(who) };
    let known = store.view().session(session)?;
    let is_plain = known.is_none_or(|session| !run::has_agent(&session));
    // What is no agent's work may be marked by an agent of which nothing is known.
    if !(matches!(who, Who::Person) || is_plain && matches!(who, Who::Stranger(_))) {
        ensure_may_act(store, host, Act::new(words), Some(session), observer)?;
    }
    Ok(who)
}

/// Fails where an agent would overwrite a folder in which sessions work, none of which is its own, as [`ensure_may_act`] does. Folders below its own are
/// its own, and what no agent works in may be overwritten by one of which nothing is known.
pub fn ensure_may_overwrite(
    store: &Store,
    host: &dyn Host,
    words: &str,
    (folder, sessions): (&Path, &[Session]),
    observer: &dyn Observer,
) -> Result<()> {
    let ids: Vec<String> = sessions.iter().map(|session| session.id.clone()).collect();
    let who = who(store, host, &ids)?;
    if let Who::Agent(run) = &who {
        let own = run::Current::of(run, store.view().session(&run.session)?.as_ref()).workspace;
        if canonical(folder).starts_with(canonical(&own)) {
            return Ok(());
        }
    }
    let is_free = matches!(who, Who::Stranger(_)) && !sessions.iter().any(run::has_agent);
    for session in sessions {
        if is_free || is_own(store, &who, session)? {
            return Ok(());
        }
    }
    sessions.first().map_or(Ok(()), |session| ensure_may_act(store, host, Act::new(words), Some(&session.id), observer))
}

/// Fails where an agent would begin a session by a checkpoint of a folder in which sessions work, none of which is its own, as [`ensure_may_act`] does.
pub fn ensure_may_begin(store: &Store, host: &dyn Host, workspace: &Path, observer: &dyn Observer) -> Result<()> {
    let sessions = sessions_at(&store.view(), workspace)?;
    ensure_may_overwrite(store, host, "checkpoint create", (workspace, &sessions), observer)
}

/// Records that an agent has begun a session, which is its own from then on.
pub fn note_begun(store: &Store, host: &dyn Host, session: &str) -> Result<()> {
    let who = who(store, host, &[])?;
    let by = match &who {
        Who::Agent(run) if run.session != session => run.session.as_str(),
        Who::Stranger(_) => STRANGER,
        _ => return Ok(()),
    };
    let changed = NewEvent::new(kind::SESSION_CHANGED, session, who.actor(host)).with(BEGUN_BY, by);
    store.append_events(&[changed], &())?;
    Ok(())
}

/// True if the caller is the session's agent, or that of one which has begun it.
fn is_own(store: &Store, who: &Who, session: &Session) -> Result<bool> {
    let (own, mut next) = match who {
        Who::Agent(run) => (run.session.as_str(), Some(session.id.clone())),
        // It has none of its own.
        Who::Stranger(_) => (STRANGER, begun_by(session)),
        // It may be the session's agent, and no other one.
        Who::Unseen { near, .. } => return Ok(!near.is_empty() && near.iter().all(|near| *near == session.id)),
        Who::Person => return Ok(false),
    };
    for _ in 0..DEPTH_MAX {
        match next {
            Some(id) if id == own => return Ok(true),
            Some(id) => next = store.view().session(&id)?.as_ref().and_then(begun_by),
            None => break,
        }
    }
    Ok(false)
}

/// True if a caller of which nothing is seen would end a session: with that, nothing would show any more that it may be the session's agent.
fn is_end_unseen(who: &Who, act: Act<'_>) -> bool {
    matches!(who, Who::Unseen { .. }) && ["session end", "session stop", "session pause"].contains(&act.words)
}

fn begun_by(session: &Session) -> Option<String> {
    session.extra.get(BEGUN_BY).and_then(|by| by.as_str()).map(str::to_owned)
}

/// True if a session's agent is at work where the caller can see it: whoever has started the caller is not hidden together with that one.
fn is_in_sight(store: &Store, session: &Session) -> Result<bool> {
    let newest = store.view().newest_run(session)?.filter(|run| run.is_open());
    Ok(newest.is_some_and(|run| run::roots_of(&run).all().any(|root| root.is_visible() && root.is_alive())))
}

/// Fails where an agent, or somebody who may be one, would take away what a person has said of a project. The attempt is recorded.
pub fn ensure_may_unsay(store: &Store, host: &dyn Host, (words, of): (&str, String), observer: &dyn Observer) -> Result<()> {
    store.refresh()?;
    let who = who(store, host, &[])?;
    match who.why_not_person() {
        None => Ok(()),
        Some(why) => refused(store, host, &who, (words, None, &why), of, observer),
    }
}

fn refused(
    store: &Store,
    host: &dyn Host,
    who: &Who,
    (act, session, why): (&str, Option<&str>, &str),
    of: String,
    observer: &dyn Observer,
) -> Result<()> {
    let event = NewEvent::new(kind::ACT_REFUSED, session.unwrap_or("store"), who.actor(host));
    let event = event.with("act", act).with("why", format!("{act}: {why}"));
    let event = who.session().into_iter().fold(event, |event, own| event.with("by", own));
    let event = session.into_iter().fold(event, |event, session| event.with("session", session));
    let attempt = match store.append_events(&[event], observer) {
        Ok(_) => Attempt::Recorded,
        Err(e) => {
            observer.warn(&Notice::NotRecorded { what: "the attempt was not recorded", why: e.to_string() });
            Attempt::Lost
        }
    };
    Err(DecisionRefusal::MayNotAct { act: act.to_owned(), of, why: why.to_owned(), attempt }.into())
}
