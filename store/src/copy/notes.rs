//! Packs of a copy that are known to be damaged: those that were damaged in the store when they were copied, and those that a check of the copy
//! has found. The next copy replaces them, or names them again.

use std::collections::BTreeSet;

use crate::{
    damaged::{self, DamageSet},
    error::{IoContext, Result},
    files::{self, How},
    healed,
    id::PackId,
    layout::Layout,
};

/// Ending of the name of a note in the copy's `cache/`, behind the id of a pack that was damaged in the store.
const ENDING: &str = ".copied-damaged";

/// The packs that are known to be damaged.
pub(super) fn damaged_packs(copy: &Layout) -> BTreeSet<PackId> {
    let files = files::list(&copy.cache()).unwrap_or_default();
    let pack_of = |name: &str| name.strip_suffix(ENDING).and_then(PackId::from_hex);
    let mut packs: BTreeSet<PackId> = files.iter().filter_map(|path| pack_of(path.file_name()?.to_str()?)).collect();
    packs.extend(healed::list(copy));
    packs.extend(DamageSet::read(copy).packs());
    packs
}

/// Notes a pack that is damaged in the store.
pub(super) fn note(copy: &Layout, pack: PackId) -> Result<()> {
    let path = copy.cache().join(format!("{pack}{ENDING}"));
    files::open(&path, How::Make).map(drop).at("write", path)
}

/// Forgets a pack that is whole by now.
pub(super) fn forget(copy: &Layout, pack: PackId) -> Result<()> {
    let path = copy.cache().join(format!("{pack}{ENDING}"));
    files::remove(&path).at("remove", path)?;
    healed::forget(copy, pack);
    damaged::forget_pack(copy, pack)
}
