//! The packs of a view.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::{View, broken_view};
use crate::{
    db::Family,
    error::{Error, IoContext as _, Result},
    files,
    id::{OpId, PackId},
    layout::Layout,
    pack::{Directory, Location, PackFile},
};

/// The end of a [`PackState`] that is condemned: the list is its last field, and absent from others.
const CONDEMNED: &[u8] = b"]}";

/// Knowledge of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackState {
    /// Length of the pack's file, in bytes.
    pub bytes: u64,
    /// Digest of its directories, in hex.
    pub digest: String,
    /// Set once gc condemned it: the writers that must be over before its bytes go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condemned: Option<Vec<OpId>>,
}

impl View {
    /// All packs that the journal knows and that were not dropped, condemned ones included.
    pub fn packs(&self) -> Result<BTreeMap<PackId, PackState>> {
        let mut packs = BTreeMap::new();
        if let Some(db) = &self.db {
            for entry in db.scan(Family::Packs)? {
                let (key, value) = entry?;
                let id = key.as_ref().try_into().map_err(|_| broken_view("a pack's id does not decode".into()))?;
                packs.insert(PackId(id), decode_pack(&self.layout, &value)?);
            }
        }
        packs.extend(self.changes.packs.clone());
        for (id, waits_for) in &self.changes.condemned {
            if let Some(state) = packs.get_mut(id) {
                state.condemned = Some(waits_for.clone());
            }
        }
        packs.retain(|id, _| !self.changes.dropped.contains(id));
        Ok(packs)
    }

    /// The packs that are not condemned and have no file, and the number of those that have one.
    pub(crate) fn absent_packs(&self) -> Result<(Vec<PackId>, usize)> {
        let folder = self.layout.packs();
        let paths = files::list(&folder).at("read folder", &folder)?;
        // A file that lost its bytes, as after a power cut under a filesystem that had not written them, holds nothing.
        let is_empty = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.len() == 0);
        let there: HashSet<PackId> =
            paths.iter().filter(|path| !is_empty(path)).filter_map(|path| Layout::pack_of(path)).collect();
        let (present, absent): (Vec<PackId>, Vec<PackId>) = self.current_packs()?.into_iter().partition(|id| there.contains(id));
        Ok((absent, present.len()))
    }

    /// The packs that are not condemned. Costs less than [`View::packs`] where there are many.
    pub(crate) fn current_packs(&self) -> Result<Vec<PackId>> {
        let mut packs = Vec::new();
        let is_known = |id: &PackId| self.is_condemned_in_tail(*id) || self.changes.packs.contains_key(id);
        if let Some(db) = &self.db {
            for entry in db.scan(Family::Packs)? {
                let (key, state) = entry?;
                let id = PackId(key.as_ref().try_into().map_err(|_| broken_view("a pack's id does not decode".into()))?);
                let is_condemned = state.ends_with(CONDEMNED);
                packs.extend((!is_condemned && !is_known(&id)).then_some(id));
            }
        }
        let new = self.changes.packs.iter().filter(|(id, state)| state.condemned.is_none() && !self.is_condemned_in_tail(**id));
        packs.extend(new.map(|(id, _)| *id));
        Ok(packs)
    }

    /// The length of a pack that the journal knows. Reads of no other one.
    pub(crate) fn pack_bytes(&self, id: PackId) -> Result<Option<u64>> {
        match self.changes.packs.get(&id) {
            Some(state) => Ok(Some(state.bytes)),
            None => Ok(self.stored_pack(id)?.map(|state| state.bytes)),
        }
    }

    /// Of `packs`, those that were condemned or dropped.
    pub fn lost(&self, packs: &HashSet<PackId>) -> Result<Vec<PackId>> {
        let mut lost = Vec::new();
        for id in packs {
            let is_usable = match self.changes.packs.get(id) {
                Some(state) => state.condemned.is_none(),
                None => self.stored_pack(*id)?.is_some_and(|state| state.condemned.is_none()),
            };
            if !is_usable || self.is_condemned_in_tail(*id) {
                lost.push(*id);
            }
        }
        Ok(lost)
    }

    fn stored_pack(&self, id: PackId) -> Result<Option<PackState>> {
        let stored = self.db.as_ref().map(|db| db.get(Family::Packs, &id.0)).transpose()?.flatten();
        stored.map(|state| decode_pack(&self.layout, &state)).transpose()
    }
}

fn decode_pack(layout: &Layout, state: &[u8]) -> Result<PackState> {
    serde_json::from_slice(state)
        .map_err(|e| Error::Index { path: layout.view(), reason: format!("a pack does not decode: {e}") })
}

pub(super) fn scan_directories(layout: &Layout, id: PackId, visit: impl FnMut(Location, &Directory) -> Result<()>) -> Result<()> {
    PackFile::open(layout, id)?.scan(visit).map(drop)
}

/// True if a pack was scanned to its end. A damaged or lost one must not make the others unreadable: what its directories still tell was
/// taken in, and `check` names it.
pub(super) fn unless_damaged(scanned: Result<()>) -> Result<bool> {
    match scanned {
        Ok(()) => Ok(true),
        Err(Error::Corrupt { .. }) => Ok(false),
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(e),
    }
}
