//! Deleting checkpoints. A deletion is an event in the journal; gc reclaims the bytes later.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::{
    error::{Error, Result},
    id::Ulid,
    journal::{CHECKPOINT_DELETED, Entry, Event},
    progress::Progress,
    store::Store,
    view,
};

/// Deletes checkpoints, all or none. An id that does not exist, or no longer, is an error.
pub fn delete_checkpoints(store: &Store, ids: &[Ulid], reason: Option<&str>, progress: &dyn Progress) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let lock = store.lock(progress)?;
    let existing: HashSet<Ulid> = store.refresh()?.checkpoints()?.iter().map(|c| c.record.id).collect();
    let mut seen = HashSet::new();
    let mut events = Vec::with_capacity(ids.len());
    for id in ids.iter().filter(|id| seen.insert(**id)) {
        if !existing.contains(id) {
            return Err(Error::NoCheckpoint { selector: id.to_string() });
        }
        events.push(Entry::Event(deletion(*id, reason)));
    }
    store.append(&lock, &events)?;
    if store.view().wants_absorbing() {
        view::absorb(store.layout(), &Default::default())?;
        store.reopen()?;
    }
    Ok(())
}

fn deletion(checkpoint: Ulid, reason: Option<&str>) -> Event {
    let mut data = Map::new();
    data.insert("actor".into(), json!({ "user": null, "via": "cli" }));
    data.insert("reason".into(), reason.map_or(Value::Null, Value::from));
    Event {
        id: Ulid::generate().to_string(),
        at: jiff::Timestamp::now().to_string(),
        kind: CHECKPOINT_DELETED.into(),
        subject: checkpoint.to_string(),
        data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestStore, files};

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
