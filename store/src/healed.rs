//! Packs that are damaged, and of which parity gave back what was read. Each is noted by an empty file in `cache/`, so that a reader needs no
//! lock. The notes are derived data: a check makes them anew.

use std::collections::BTreeSet;

use crate::{
    files::{self, How},
    id::PackId,
    layout::Layout,
};

/// Ending of a note's name, behind the pack's id.
const ENDING: &str = ".healed";

/// Notes a pack. Where the store cannot be written to, nothing is noted.
pub(crate) fn note(layout: &Layout, pack: PackId) {
    let _ = files::open(&layout.healed(pack), How::New);
}

/// Forgets a pack that is whole again, or gone.
pub(crate) fn forget(layout: &Layout, pack: PackId) {
    let _ = files::remove(&layout.healed(pack));
}

/// The packs that were noted.
pub fn list(layout: &Layout) -> BTreeSet<PackId> {
    let files = files::list(&layout.cache()).unwrap_or_default();
    let pack_of = |name: &str| name.strip_suffix(ENDING).and_then(PackId::from_hex);
    files.iter().filter_map(|path| pack_of(path.file_name()?.to_str()?)).collect()
}
