//! Deleted checkpoints that live pins keep.

use std::collections::HashSet;

use crate::{
    error::{Error, Result},
    id::Ulid,
    journal::{Entry, Journal, Position},
    pin,
    record::{Checkpoint, Unreadable},
    store::Store,
    view::View,
};

/// Deleted checkpoints that a live pin names. The view was read before; the pins are read now.
pub(super) fn pinned_deleted(store: &Store, view: &View, existing: &[Checkpoint]) -> Result<Vec<Checkpoint>> {
    let mut found = Vec::new();
    let pins = readable_pins(store)?;
    let mut deleted: HashSet<Ulid> = pins.iter().filter(|pin| pin.alive).flat_map(|pin| pin.text.checkpoints.clone()).collect();
    for root in existing {
        deleted.remove(&root.record.id);
    }
    if deleted.is_empty() {
        return Ok(found);
    }
    let broken =
        |e: serde_json::Error| Error::Corrupt { what: "a commit".into(), place: store.layout().journal(), reason: e.to_string() };
    for logged in Journal::of(store.layout()).read(&Position::start())?.records {
        if let Entry::Commit { record, .. } = logged.entry {
            let told = Unreadable::told_id(&record);
            let checkpoint = match Checkpoint::decode(logged.sequence, record, store.ids()) {
                Ok(checkpoint) => checkpoint,
                // A later release's process may be reading it.
                Err(e) if told.is_none_or(|id| deleted.contains(&id)) => return Err(broken(e)),
                Err(_) => continue,
            };
            // Each once; a pin may also name what was committed after the view was read.
            if logged.sequence <= view.end().sequence && deleted.remove(&checkpoint.record.id) {
                found.push(checkpoint);
            }
        }
    }
    Ok(found)
}

/// The pins; those that are just being written are waited for.
fn readable_pins(store: &Store) -> Result<Vec<pin::FoundPin>> {
    let mut pins = pin::list(&store.layout().pins())?;
    for _ in 0..20 {
        if !pins.iter().any(|pin| pin.alive && pin.text.process == 0) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
        pins = pin::list(&store.layout().pins())?;
    }
    Ok(pins)
}
