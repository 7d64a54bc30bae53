//! Statements about checkpoints: [tags](tag) by which they are found again, [annotations](annotation), and [links](link) to issues.
//!
//! Each statement is an event in the journal. A workflow looks at the marks of a checkpoint and appends to them under one lock: of two
//! processes that say the same at once, one adds an event, and the other one is told that it is there already. Everything is validated
//! before anything is appended, all or nothing. A fenced checkpoint can be marked like any other; a deleted one cannot.
//!
//! Retention never removes what is tagged, linked or approved, and [`delete()`] refuses it unless a person tells it otherwise.

pub mod acts;
pub mod annotation;
pub mod audit;
pub mod decide;
mod delete;
pub mod link;
mod signature;
pub mod tag;
#[cfg(test)]
mod tests;
pub mod unseen;

use std::cell::RefCell;

pub use delete::{delete, ensure_may_delete, ensure_may_prune, ensure_unprotected};
use parhelia_ledger::{LedgerView as _, Marks};
use parhelia_store::{
    Error as StoreError, Store,
    event::{AppendOutcome, NewEvent},
    id::Ulid,
    view::View,
};

use parhelia_host::{Error, MarkRefusal, Observer, Refusal, Result};

/// The events to be appended, and the outcome that they lead to.
type Proposal<T> = (Vec<NewEvent>, T);

/// Appends events that are made from the marks of a checkpoint as they are when nobody else can change them.
fn mark<T>(
    store: &Store,
    checkpoint: Ulid,
    observer: &dyn Observer,
    make: &dyn Fn(&Marks) -> Result<Proposal<T>, Refusal>,
) -> Result<(T, Vec<AppendOutcome>)> {
    let outcome = RefCell::new(None);
    let events = |view: &View| {
        let made = marks_of(view, checkpoint).and_then(|marks| Ok(make(&marks)?));
        let (events, made) = match made {
            Ok((events, made)) => (events, Ok(made)),
            Err(Error::Store(error)) => return Err(error),
            Err(other) => (Vec::new(), Err(other)),
        };
        outcome.replace(Some(made));
        Ok(events)
    };
    let appended = store.append_events_of(&events, observer)?;
    let made = outcome.into_inner().unwrap_or_else(|| Err(StoreError::Cancelled.into()))?;
    Ok((made, appended))
}

/// The marks of a checkpoint that exists. Fails with the time of its deletion where it was deleted.
fn marks_of(view: &View, checkpoint: Ulid) -> Result<Marks> {
    let marks = view.marks(checkpoint)?;
    if view.sequence(checkpoint)?.is_some() {
        return Ok(marks);
    }
    match marks.deleted {
        Some(deletion) => Err(Refusal::Mark(MarkRefusal::IsDeleted { checkpoint, at: deletion.at, user: deletion.user }).into()),
        None => Err(StoreError::NoCheckpoint { selector: checkpoint.to_string() }.into()),
    }
}

/// The items of a list, each once, in order.
fn distinct<T: Clone>(items: &[T], are_same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for item in items {
        if !found.iter().any(|other| are_same(other, item)) {
            found.push(item.clone());
        }
    }
    found
}
