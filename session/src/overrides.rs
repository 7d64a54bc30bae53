//! Records of safeties that somebody switched off, and of folders that a restore has overwritten, for the audit.

use std::path::Path;

use parhelia_store::{
    Store,
    event::{NewEvent, kind},
    id::Ulid,
};
use serde_json::json;

use crate::{
    host::{Host, Observer},
    overwrite::display,
    review::decide::belongs_to,
};

/// Notes the safeties that somebody switched off for an act on a checkpoint, by the names of the flags. An act does not fail because this cannot
/// be recorded.
pub(crate) fn overridden(
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

/// Notes that a restore is about to replace what is in a folder of some session. Without safety checkpoints, what was there is gone.
pub(crate) fn overwritten(
    store: &Store,
    host: &dyn Host,
    (checkpoint, session): (Ulid, &str),
    folder: &Path,
    safeties: &[String],
    observer: &dyn Observer,
) {
    let event = NewEvent::new(kind::WORKSPACE_OVERWRITTEN, checkpoint.to_string(), host.actor());
    let event = event.with("session", session).with("folder", display(folder)).with("safeties", json!(safeties));
    append(store, &[event], observer);
}

/// Notes settings that did not count, each once for a run, where the caller belongs to one.
pub fn ignored(store: &Store, host: &dyn Host, settings: &[String]) {
    let Ok(Some(run)) = belongs_to(store, host) else { return };
    let events = settings.iter().map(|text| {
        let event = NewEvent::new(kind::SETTING_IGNORED, run.session.clone(), host.actor());
        let event = event.with("session", run.session.as_str()).with("run", run.id.as_str()).with("why", text.as_str());
        NewEvent { idempotency_key: Some(format!("ignored {} {text}", run.id)), ..event }
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
