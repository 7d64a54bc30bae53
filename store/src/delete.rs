//! Deleting checkpoints. A deletion is an event in the journal; gc reclaims the bytes later. It works on a full disk, as gc does.

use std::collections::HashSet;

use crate::{
    error::Result,
    event::{Actor, NewEvent, kind},
    gc::Room,
    id::Ulid,
    progress::Progress,
    store::Store,
    view::View,
};

/// Deletes checkpoints, all or none. An id that does not exist, or no longer, is an error.
pub fn delete_checkpoints(store: &Store, ids: &[Ulid], reason: Option<&str>, progress: &dyn Progress) -> Result<()> {
    delete_checkpoints_as(store, ids, &Actor::program("cli"), reason, progress)
}

/// Deletes checkpoints in somebody's name, all or none.
pub fn delete_checkpoints_as(
    store: &Store,
    ids: &[Ulid],
    actor: &Actor,
    reason: Option<&str>,
    progress: &dyn Progress,
) -> Result<()> {
    if !ids.is_empty() {
        delete_chosen(store, &|_| Ok(ids.to_vec()), actor, reason, progress)?;
    }
    Ok(())
}

/// Deletes the checkpoints that `choose` finds in the store as it is when nobody else can change it any more, all or none. Returns which.
pub fn delete_chosen(
    store: &Store,
    choose: &dyn Fn(&View) -> Result<Vec<Ulid>>,
    actor: &Actor,
    reason: Option<&str>,
    progress: &dyn Progress,
) -> Result<Vec<Ulid>> {
    let deletion = |view: &View, id: &Ulid| {
        // Those that came from it are found from what came before it, as if it were there.
        let checkpoint = view.checkpoint(*id)?;
        let parent = checkpoint.as_ref().and_then(|checkpoint| checkpoint.record.parent).map(|parent| parent.to_string());
        let facts = checkpoint
            .map(|checkpoint| view.facts_of(&|checkpoint| store.content_of(checkpoint), &checkpoint))
            .unwrap_or_default();
        let event = NewEvent::new(kind::CHECKPOINT_DELETED, id.to_string(), actor.clone()).with("reason", reason);
        let event = facts.into_iter().fold(event, |event, (name, value)| event.with(&name, value));
        Ok(parent.into_iter().fold(event, |event, parent| event.with("parent", parent)))
    };
    let events = |view: &View| {
        let mut seen = HashSet::new();
        choose(view)?.iter().filter(|id| seen.insert(**id)).map(|id| deletion(view, id)).collect()
    };
    // Deleting is what makes room on a full disk.
    let mut room = Room::new(store.layout());
    let appended = room.make(|| store.append_events_of(&events, progress))?;
    room.give_back();
    Ok(appended.iter().filter_map(|appended| appended.event.subject.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::Error,
        testing::{TestStore, files},
    };

    #[test]
    fn a_deleted_checkpoint_is_gone_and_stays_gone() {
        let test = TestStore::new();
        let (a, b) = (test.checkpoint(&files(1, 3)), test.checkpoint(&files(2, 3)));
        delete_checkpoints(&test.store, &[a, a], Some("test"), &()).unwrap();
        let again = delete_checkpoints(&test.store, &[b, a], None, &());
        assert!(matches!(again, Err(Error::NoCheckpoint { selector }) if selector == a.to_string()));
        assert_eq!(test.ids(), [b]);
        test.store.absorb().unwrap();
        assert_eq!(test.open().checkpoints().unwrap().len(), 1);
    }
}
