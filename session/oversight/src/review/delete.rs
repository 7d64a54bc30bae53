//! Deleting checkpoints in somebody's name. What retention protects is deleted only where that is meant, and never by an agent: it would take
//! decisions about its own work back by that.

use std::{cell::RefCell, collections::HashSet};

use parhelia_ledger::{ApprovalStatus, LedgerView as _, Marks, kind};
use parhelia_store::{Store, delete::delete_chosen, event::NewEvent, id::Ulid, pin, view::View};

use super::marks_of;
use crate::{
    overrides::overridden,
    who::{Who, who},
};
use parhelia_host::{
    Error, Host, MarkRefusal, Observer, Refusal, Result,
    notice::Notice,
    refusal::{Attempt, DecisionRefusal},
};

/// Deletes checkpoints, all or none. One that is tagged or linked, that somebody has decided about, or that waits for that, is refused, unless
/// `with_protected`. An agent deletes only checkpoints of its own session that nobody needs or has marked; its attempt at others is recorded.
pub fn delete(
    store: &Store,
    host: &dyn Host,
    checkpoints: &[Ulid],
    reason: Option<&str>,
    with_protected: bool,
    observer: &dyn Observer,
) -> Result<()> {
    let view = store.refresh()?;
    let who = who(store, host, &sessions_of(&view, checkpoints)?)?;
    if let Some((checkpoint, why)) = barred(store, &view, &who, checkpoints, with_protected)? {
        let attempt = record(store, host, &who, (checkpoint.to_string(), &why, reason), observer);
        return Err(DecisionRefusal::MayNotDelete { checkpoint, why, attempt }.into());
    }
    let refused = RefCell::new(None);
    let choose = |view: &View| {
        let checks = checkpoints.iter().filter(|_| !with_protected).map(|id| ensure_unprotected(view, *id));
        match checks.collect::<Result<Vec<()>>>() {
            Ok(_) => Ok(checkpoints.to_vec()),
            Err(Error::Store(error)) => Err(error),
            Err(other) => {
                refused.replace(Some(other));
                Ok(Vec::new())
            }
        }
    };
    if with_protected {
        for id in checkpoints {
            let Some(checkpoint) = view.checkpoint(*id)?.filter(|_| ensure_unprotected(&view, *id).is_err()) else { continue };
            overridden(store, host, (*id, &checkpoint.record.session), &[("protected", true)], observer);
        }
    }
    delete_chosen(store, &choose, &who.actor(host), reason, observer)?;
    refused.into_inner().map_or(Ok(()), Err)
}

/// Fails where [`delete`] would. Nothing is recorded.
pub fn ensure_may_delete(store: &Store, host: &dyn Host, checkpoints: &[Ulid], with_protected: bool) -> Result<()> {
    let view = store.refresh()?;
    let who = who(store, host, &sessions_of(&view, checkpoints)?)?;
    if let Some((checkpoint, why)) = barred(store, &view, &who, checkpoints, with_protected)? {
        return Err(DecisionRefusal::MayNotDelete { checkpoint, why, attempt: Attempt::Asked }.into());
    }
    checkpoints.iter().filter(|_| !with_protected).try_for_each(|id| ensure_unprotected(&view, *id))
}

/// Fails where the caller is an agent, or may have been started by one: those remove nothing by rules that they choose. The attempt is recorded, unless
/// it is only asked what would be removed.
pub fn ensure_may_prune(store: &Store, host: &dyn Host, dry_run: bool, observer: &dyn Observer) -> Result<()> {
    store.refresh()?;
    let who = who(store, host, &[])?;
    let Some(why) = who.why_not_person() else { return Ok(()) };
    let attempt = match dry_run {
        true => Attempt::Asked,
        false => record(store, host, &who, ("store".to_owned(), &why, None), observer),
    };
    Err(DecisionRefusal::MayNotPrune { why, attempt }.into())
}

/// The first checkpoint that the caller may not delete, and the reason.
fn barred(store: &Store, view: &View, who: &Who, checkpoints: &[Ulid], with_protected: bool) -> Result<Option<(Ulid, String)>> {
    let (own, why) = match who {
        Who::Person => return Ok(None),
        // It may be a person in a container, with no agent at work: what nobody has marked may go.
        Who::Unseen { near, .. } if near.is_empty() && !with_protected => return Ok(None),
        Who::Unseen { near, .. } if near.is_empty() => (None, "nothing shows who has started the caller".to_owned()),
        Who::Unseen { near, .. } => {
            // Of one agent alone, it is at most that one.
            let only = near.first().filter(|_| near.len() == 1).map_or("", String::as_str);
            (Some(only), who.why_not_person().unwrap_or_default())
        }
        Who::Agent(run) => (Some(run.session.as_str()), who.why_agent().unwrap_or_default()),
        // Nothing here is of its session.
        Who::Stranger(_) => (Some(""), who.why_agent().unwrap_or_default()),
    };
    let used: HashSet<Ulid> = match own {
        Some(_) => {
            let pins = pin::list(&store.layout().pins())?;
            pins.into_iter().filter(|pin| pin.alive).flat_map(|pin| pin.text.checkpoints).collect()
        }
        None => HashSet::new(),
    };
    for id in checkpoints {
        // One that does not exist is reported as that.
        let Some(checkpoint) = view.checkpoint(*id)? else { continue };
        let record = &checkpoint.record;
        let what = match protection(&view.marks(*id)?) {
            Some(what) => what,
            None if own.is_none() => continue,
            None if with_protected => "named with those that are protected".to_owned(),
            None if own != Some(record.session.as_str()) => format!("of another session, {}", record.session),
            None if record.is_safety() => "a safety checkpoint".to_owned(),
            None if used.contains(id) => "in use".to_owned(),
            None => continue,
        };
        return Ok(Some((*id, format!("it is {what}, and {why}"))));
    }
    Ok(None)
}

/// The sessions of checkpoints.
fn sessions_of(view: &View, checkpoints: &[Ulid]) -> Result<Vec<String>> {
    let found = checkpoints.iter().filter_map(|id| view.checkpoint(*id).transpose());
    Ok(found.map(|found| found.map(|checkpoint| checkpoint.record.session)).collect::<parhelia_store::Result<_>>()?)
}

/// Records an attempt. The refusal holds whether that succeeds or not.
fn record(
    store: &Store,
    host: &dyn Host,
    who: &Who,
    (subject, why, reason): (String, &str, Option<&str>),
    observer: &dyn Observer,
) -> Attempt {
    let event = NewEvent::new(kind::DELETION_REFUSED, subject, who.actor(host)).with("why", why).with("reason", reason);
    let event = who.session().into_iter().fold(event, |event, session| event.with("session", session));
    match store.append_events(&[event], observer) {
        Ok(_) => Attempt::Recorded,
        Err(e) => {
            observer.warn(&Notice::NotRecorded { what: "the attempt was not recorded", why: e.to_string() });
            Attempt::Lost
        }
    }
}

/// Fails where retention would never remove a checkpoint, because somebody has marked it.
pub fn ensure_unprotected(view: &View, checkpoint: Ulid) -> Result<()> {
    match protection(&marks_of(view, checkpoint)?) {
        None => Ok(()),
        Some(why) => Err(Refusal::Mark(MarkRefusal::IsProtected { checkpoint, why }).into()),
    }
}

/// The reason for which a checkpoint is protected.
fn protection(marks: &Marks) -> Option<String> {
    let listed = |texts: Vec<&str>| texts.join(", ");
    let approval = marks.approval.as_ref().map(|approval| match approval.status {
        ApprovalStatus::Approved => Some("approved"),
        // What somebody has to look at, or has found wrong, is evidence.
        ApprovalStatus::Pending => Some("waiting for a review"),
        ApprovalStatus::Rejected => Some("rejected"),
        ApprovalStatus::AutoApproved => None,
    });
    let mut reasons = Vec::new();
    if !marks.tags.is_empty() {
        reasons.push(format!("tagged {}", listed(marks.tags.iter().map(String::as_str).collect())));
    }
    if !marks.links.is_empty() {
        reasons.push(format!("linked to {}", listed(marks.links.iter().map(|issue| issue.id.as_str()).collect())));
    }
    reasons.extend(approval.flatten().map(str::to_owned));
    (!reasons.is_empty()).then(|| reasons.join(", and "))
}
