//! Losses of the store. A copy that still has it must not be made like the store.

use parhelia_name::step::Step;
use std::collections::BTreeMap;

use super::target::Target;
use crate::{
    check,
    damaged::DamageSet,
    error::{Error, Result},
    id::{BlobId, ObjectId, PackId},
    pack::ObjectKind,
    progress::Progress,
    store::Store,
    view::{PackState, View},
};

/// Fails where packs of the copy would be given up for new ones of the store, and hold something whole that checkpoints need and that the store
/// cannot read any more: a repair does not find again what is lost, and gives up the pack that it was in.
pub(super) fn ensure_none_is_spread(store: &Store, target: &Target, view: &View, progress: &dyn Progress) -> Result<()> {
    if target.is_new || !gives_up_packs(&View::from_journal(&target.layout)?.packs()?, &view.packs()?) {
        return Ok(());
    }
    let unreadable = check::unreadable(store, progress)?;
    if unreadable.is_empty() {
        return Ok(());
    }
    let copy = target.reopened()?;
    let has = |id: ObjectId| copy.object_block(ObjectKind::Chunk, id).is_ok();
    // Of content that is gone, nobody can tell whether it was kept as one chunk.
    let whole = unreadable.iter().filter(|id| has(**id) || has(store.ids().recipe_root(BlobId(id.0)))).count();
    if whole == 0 {
        return Ok(());
    }
    let (from, to) = (store.layout().root.display(), target.layout.root.display());
    Err(Error::Damage(format!(
        "cannot copy the store at {from} to {to}: the store has lost {} that its checkpoints need, and the copy still has {whole} of them\n\
         {} takes them from there; nothing was changed in the copy",
        objects(unreadable.len()),
        Step::RepairFrom(Some(target.layout.root.clone()))
    )))
}

/// True if the copy has packs that the store has replaced or dropped since.
fn gives_up_packs(copy: &BTreeMap<PackId, PackState>, store: &BTreeMap<PackId, PackState>) -> bool {
    let is_current = |state: &PackState| state.condemned.is_none();
    copy.iter().any(|(id, state)| is_current(state) && !store.get(id).is_some_and(is_current))
}

/// Fails where anything is known to be damaged or lost in the store or the copy: packs that the store does not know any more may have it.
pub(super) fn ensure_nothing_is_lost(store: &Store, target: &Target, progress: &dyn Progress) -> Result<()> {
    let is_known = |layout| !DamageSet::read(layout).is_empty();
    let lost = check::unreadable(store, progress)?;
    if lost.is_empty() && !is_known(store.layout()) && !is_known(&target.layout) {
        return Ok(());
    }
    let to = || target.layout.root.clone();
    let what = match lost.len() {
        0 => "damage is known of the store or the copy".to_owned(),
        lost => format!("the store has lost {} that its checkpoints need", objects(lost)),
    };
    Err(Error::Damage(format!(
        "the copy is made, but nothing is removed from it: {what}, and packs that the store does not know any more may hold that\n\
         {} takes back what the copy has; {} makes a new store of all packs in it",
        Step::RepairFrom(Some(to())),
        Step::SalvageOf(to())
    )))
}

fn objects(count: usize) -> String {
    if count == 1 { "1 object".to_owned() } else { format!("{count} objects") }
}
