//! Packs whose parity makes up for all of their damage: each is written anew, byte for byte as it was.
//!
//! The new file takes the old one's place by a rename, so that nothing has to be said in the journal. Until then it is named as a pack of the
//! repair's own operation, which gc removes if the repair dies.

use crate::{
    disk,
    error::{Error, IoContext, Result},
    files, healed,
    id::PackId,
    layout::Layout,
    pack::PackFile,
    pin::Pin,
    progress::{self, Progress},
    store::Store,
};

/// The packs of the store that are damaged, and of which parity gives back everything.
pub(super) fn find(store: &Store, progress: &dyn Progress) -> Result<Vec<PackId>> {
    let mut found = Vec::new();
    for (id, state) in store.view().packs()?.into_iter().filter(|(_, state)| state.condemned.is_none()) {
        progress::check(progress)?;
        let examined = match PackFile::open_unchecked(store.layout(), id).and_then(|file| file.examine()) {
            Ok(examined) => examined,
            // The survey says what has become of it.
            Err(_) => continue,
        };
        if examined.is_some_and(|found| found.damaged > 0 && found.lost == 0 && found.trailer.pack_bytes == state.bytes) {
            found.push(id);
        }
    }
    Ok(found)
}

/// Writes these packs anew.
pub(super) fn rewrite(store: &Store, packs: &[PackId], progress: &dyn Progress) -> Result<()> {
    if packs.is_empty() {
        return Ok(());
    }
    store.check_writable()?;
    let pin = Pin::take(&store.layout().pins(), true, "repair")?;
    for (number, pack) in (0..).zip(packs) {
        progress::check(progress)?;
        let new = PackId::new(pin.op, number);
        let put = write(store, *pack, new).and_then(|()| put(store, *pack, new, progress));
        let _ = files::remove(&store.layout().pack(new));
        put?;
        healed::forget(store.layout(), *pack);
    }
    Ok(())
}

/// Writes what a pack was under another name, compares it with what was committed, and syncs it.
fn write(store: &Store, pack: PackId, new: PackId) -> Result<()> {
    let layout = store.layout();
    PackFile::open(layout, pack)?.write_as_written(&layout.pack(new))?;
    check(store, layout, pack, new)
}

/// Fails unless the new file is what was committed.
fn check(store: &Store, layout: &Layout, pack: PackId, new: PackId) -> Result<()> {
    let file = PackFile::open_unhealed(layout, new)?;
    file.check_parity()?;
    let info = file.scan_blocks(true, |_, _| Ok(()))?;
    file.check_copies()?;
    let packs = store.view().packs()?;
    match packs.get(&pack).is_some_and(|state| state.bytes == info.bytes && state.digest == info.digest) {
        true => Ok(()),
        false => Err(Error::Corrupt {
            what: "pack".into(),
            place: layout.pack(pack),
            reason: "what its parity gives back is not what was committed".into(),
        }),
    }
}

/// Puts the new file into the old one's place, unless gc has removed that meanwhile.
fn put(store: &Store, pack: PackId, new: PackId, progress: &dyn Progress) -> Result<()> {
    let lock = store.lock(progress)?;
    let (view, _) = store.latest(&lock)?;
    if view.packs()?.get(&pack).is_none_or(|state| state.condemned.is_some()) {
        return Ok(());
    }
    let path = store.layout().pack(pack);
    files::rename(&store.layout().pack(new), &path).at("write pack", &path)?;
    disk::sync_folder(&store.layout().packs())
}
