//! The one step that changes what the store means: new packs in, condemned packs out, as one journal record.

use std::collections::BTreeSet;

use super::{mark::read_recipe_root, repack::NewPacks, room::Room, running_writers, survey::Survey};
use crate::{
    error::{Error, Result},
    id::{OpId, PackId},
    journal::{Entry, Journal},
    pack::{ObjectKind, PackFile, PackInfo},
    progress::Progress,
    record::Checkpoint,
    store::Store,
    view,
};

/// Result of a publication.
#[derive(Default)]
pub(super) struct Publication {
    pub(super) condemned: u64,
    pub(super) added: Vec<PackInfo>,
}

/// Condemns packs, unless something that was committed since the survey needs them.
pub(super) fn publish(
    store: &Store,
    op: OpId,
    survey: &mut Survey<'_>,
    mut condemned: BTreeSet<PackId>,
    mut added: NewPacks<'_>,
    room: &mut Room,
    progress: &dyn Progress,
) -> Result<Publication> {
    if condemned.is_empty() {
        return Ok(Publication::default());
    }
    // Most of what is new is marked before the lock is taken, so that it is held for milliseconds.
    catch_up(store, survey, progress)?;
    spare_what_is_new(survey, &mut condemned)?;
    let lock = store.lock(progress)?;
    // What was surveyed may have been taken back since, such as a deletion that could not be synced.
    if !Journal::of(store.layout()).confirms(&survey.end)? {
        // Something as long may stand there, which does not look like a change.
        store.reopen()?;
        return Err(Error::Overtaken { tries: 1 });
    }
    catch_up(store, survey, progress)?;
    spare_what_is_new(survey, &mut condemned)?;
    survey.spare_what_is_leaned_on(&mut condemned);
    if condemned.is_empty() {
        return Ok(Publication::default());
    }
    // Somebody may have deleted this run's pin, and then another gc took its packs for forgotten ones.
    if crate::pack::lacks_any(store.layout(), &added.infos()) {
        return Err(Error::Overtaken { tries: 1 });
    }
    let entry = Entry::Condemn {
        op,
        added: added.infos(),
        condemned: condemned.iter().copied().collect(),
        waits_for: running_writers(store, Some(op))?,
    };
    // A failed append may have reached the journal all the same. Then the new packs are in use; if not, they are swept as orphans.
    let infos = added.infos();
    added.keep();
    let settled = room.make(|| store.append(&lock, std::slice::from_ref(&entry)))?;
    // Bringing the index up to date reads all of it.
    drop(lock);
    if let Err(e) = view::absorb(store.layout(), &Default::default(), &settled) {
        progress.notice(&format!("the index is brought up to date later: {e}"));
    }
    store.reopen()?;
    Ok(Publication { condemned: condemned.len() as u64, added: infos })
}

/// Spares the packs that hold what was marked since the last time.
fn spare_what_is_new(survey: &mut Survey<'_>, condemned: &mut BTreeSet<PackId>) -> Result<()> {
    for key in std::mem::take(&mut survey.marker.fresh) {
        if let Some(location) = survey.marker.view.locate_key(&key)? {
            condemned.remove(&location.pack);
        }
    }
    Ok(())
}

/// Marks what was committed since the survey was made, or since the last time.
fn catch_up(store: &Store, survey: &mut Survey<'_>, progress: &dyn Progress) -> Result<()> {
    survey.marker.notes_fresh = true;
    let tail = Journal::of(store.layout()).read(&survey.end)?;
    survey.marker.view = store.refresh()?;
    if survey.marker.view.end().sequence < tail.end.sequence {
        survey.marker.view = store.reopen()?;
    }
    // First of all: it may have taken what was committed, and deleted again, in records before its own.
    if tail.records.iter().any(|logged| matches!(logged.entry, Entry::Condemn { .. })) {
        return Err(Error::Overtaken { tries: 1 });
    }
    for logged in tail.records {
        let Entry::Commit { record, packs, .. } = logged.entry else { continue };
        let checkpoint = Checkpoint::decode(logged.sequence, record, store.ids()).map_err(|e| Error::Corrupt {
            what: format!("commit {}", logged.sequence),
            place: store.layout().journal(),
            reason: e.to_string(),
        })?;
        survey.marker.checkpoint(&checkpoint, progress)?;
        for pack in packs {
            take_in_pack(store, survey, pack.id)?;
        }
    }
    survey.end = tail.end;
    Ok(())
}

/// Takes in a pack that the survey has not seen. A new recipe may be of a blob that was marked as a chunk, in a tree that is not walked
/// again. Whatever has a copy here must stay in the index, so its home is spared; likewise what blocks here build on.
fn take_in_pack(store: &Store, survey: &mut Survey<'_>, pack: PackId) -> Result<()> {
    let mut places = Vec::new();
    PackFile::open(store.layout(), pack)?.scan(|location, directory| {
        let recipes = directory.entries.iter().filter(|entry| entry.kind == ObjectKind::RecipeRoot);
        places.extend(recipes.map(|entry| (location, entry.id)));
        let objects = directory.entries.iter().map(|entry| &entry.id).chain(&directory.bases);
        survey.marker.fresh.extend(objects.map(|id| id.key()));
        Ok(())
    })?;
    for (location, id) in places {
        let block = store.block(location)?;
        if let Ok((blob, _)) = read_recipe_root(store.ids(), block.object(id).unwrap_or_default()) {
            survey.marker.recipe_of(blob)?;
        }
    }
    Ok(())
}
