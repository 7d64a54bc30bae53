//! Records of safeties that somebody switched off, and of folders that a restore has overwritten, for the audit.

use std::path::Path;

use parhelia_ledger::{Run, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    id::Ulid,
    name,
};
use serde_json::json;

use parhelia_host::{
    Host, Observer,
    person::Via,
    run::{belongs_to, own_run},
};

/// Notes the safeties that somebody switched off for an act on a checkpoint, by the names of the flags. An act does not fail because this cannot
/// be recorded.
pub fn overridden(
    store: &Store,
    host: &dyn Host,
    (checkpoint, session): (Ulid, &str),
    safeties: &[(&str, bool)],
    observer: &dyn Observer,
) {
    let off = safeties.iter().filter(|(_, is_off)| *is_off).map(|(safety, _)| {
        let event = NewEvent::new(kind::SAFETY_OVERRIDDEN, checkpoint.to_string(), host.actor());
        event.with("session", session).with("safety", *safety)
    });
    append(store, &off.collect::<Vec<_>>(), observer);
}

/// Notes an act on a session, or on all, of whoever looks after it in a container, where an agent may have asked for it unseen.
pub(crate) fn let_through(
    store: &Store,
    host: &dyn Host,
    (words, session, why): (&str, Option<&str>, &str),
    observer: &dyn Observer,
) {
    let event = NewEvent::new(kind::SAFETY_OVERRIDDEN, session.unwrap_or("store"), host.actor()).with("safety", "unseen-caller");
    let event = session.into_iter().fold(event, |event, session| event.with("session", session));
    append(store, &[event.with("why", format!("{words}: {why}"))], observer);
}

/// Notes that a restore is about to replace what is in a folder of some session. Without safety checkpoints, what was there is gone.
pub fn overwritten(
    store: &Store,
    host: &dyn Host,
    (checkpoint, session): (Ulid, &str),
    folder: &Path,
    safeties: &[String],
    observer: &dyn Observer,
) {
    let event = NewEvent::new(kind::WORKSPACE_OVERWRITTEN, checkpoint.to_string(), host.actor());
    let event = event
        .with("session", session)
        .with("folder", name::display(folder.as_os_str().as_encoded_bytes()))
        .with("safeties", json!(safeties));
    append(store, &[event], observer);
}

/// Notes settings that did not count, each once for a run: that of the caller, or that whose marker it bears, as what a hook has started does. Of an
/// agent without a run, each is noted once.
pub fn ignored(store: &Store, host: &dyn Host, settings: &[String]) {
    let run = belongs_to(store, host).ok().flatten().or_else(|| own_run(store, host).ok().flatten());
    if run.is_none() && !host.call().is_agents {
        return;
    }
    let via = if host.call().is_agents { Via::Agent.name().into() } else { host.actor().via };
    let actor = Actor { via, ..host.actor() };
    let (subject, key) = run.as_ref().map_or(("store", ""), |run| (run.session.as_str(), run.id.as_str()));
    let events = settings.iter().map(|text| {
        let event = NewEvent::new(kind::SETTING_IGNORED, subject, actor.clone()).with("why", text.as_str());
        let of_run = |event: NewEvent, run: &Run| event.with("session", run.session.as_str()).with("run", run.id.as_str());
        let event = run.iter().fold(event, of_run);
        NewEvent { idempotency_key: Some(format!("ignored {key} {text}")), ..event }
    });
    append(store, &events.collect::<Vec<_>>(), &());
}

fn append(store: &Store, events: &[NewEvent], observer: &dyn Observer) {
    if events.is_empty() {
        return;
    }
    if let Err(e) = store.append_events(events, observer) {
        observer.notice(&format!("the audit does not have this: {e}"));
    }
}
