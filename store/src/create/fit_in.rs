//! The place of a checkpoint in its session.

use crate::{
    error::Result,
    record::{Checkpoint, Record},
    view::View,
};

/// Gives a record its place in its session as it is now: epoch, parent and depth, and whether a newer run has taken over. Says whether
/// that changed anything.
pub(super) fn fit_in(record: &mut Record, view: &View) -> Result<bool> {
    let current = view.standing(&record.session)?.epoch;
    // Whoever belongs to no run acts now, and is never out of date.
    let epoch = if record.run.is_some() { record.epoch } else { current };
    let fenced = epoch < current;
    let parent = match fenced {
        false => view.head(&record.session)?,
        true => {
            let is_before = |c: &Result<_>| c.as_ref().map_or(true, |c: &Checkpoint| c.record.epoch <= epoch);
            view.newest_first_of(&record.session)?.find(is_before).transpose()?
        }
    };
    let before = (record.epoch, record.fenced, record.parent, record.depth);
    (record.epoch, record.fenced) = (epoch, fenced);
    record.parent = parent.as_ref().map(|parent| parent.record.id);
    record.depth = parent.map_or(1, |parent| parent.record.depth + 1);
    Ok(before != (record.epoch, record.fenced, record.parent, record.depth))
}
