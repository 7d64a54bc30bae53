//! Making the index anew.

use std::{fs, path::Path, time::Duration};

use crate::{
    config::Config,
    disk,
    error::{Error, IoContext, Result},
    files,
    id::{OpId, PackId},
    journal::Journal,
    layout::{Layout, NEW_INDEX},
    lock::{IndexLock, WriterLock},
    pin::Pin,
    progress::{self, Phase, Progress},
    statcache, store,
    view::{self, View},
};

/// Derives the index anew from the journal and the packs, beside the old one, and then puts it in that one's place. The writer
/// lock is held for a moment alone, and waited for up to `lock_timeout`.
pub fn rebuild_index(layout: &Layout, lock_timeout: Duration, progress: &dyn Progress) -> Result<()> {
    let root = &layout.root;
    let config = match Config::of(layout) {
        Err(e) if e.is_not_found() => {
            return Err(store::missing(layout));
        }
        other => other?,
    };
    config.check_writable(root)?;
    if let Some(uid) = files::host(root) {
        return Err(Error::NotOwner { path: layout.view(), uid });
    }
    layout.make_missing();
    // Packs that gc condemns meanwhile stay until this is done.
    let pin = Pin::take(&layout.pins(), true, "rebuild the index")?;
    let known = view_under_lock(layout, lock_timeout, progress)?;
    let bytes = known.packs()?.values().map(|pack| pack.bytes).sum();
    progress.phase(Phase::Check, None, Some(bytes));
    let new = layout.cache().join(format!("{}{NEW_INDEX}", pin.op));
    let made = view::derive(layout, &new, known.end()).and_then(|()| put_in_place(layout, &new));
    if made.is_err() {
        let _ = files::remove_all(root, &new);
    }
    made?;
    // The new index leaves out what such a pack held.
    let is_short = |id: PackId, bytes: u64| !fs::metadata(layout.pack(id)).is_ok_and(|meta| meta.len() == bytes);
    let packs = View::open(layout)?.packs()?;
    if packs.iter().any(|(id, state)| state.condemned.is_none() && is_short(*id, state.bytes)) {
        statcache::forget_all(layout)?;
    }
    Ok(())
}

/// The store as the journal tells it, up to a place that nobody takes back any more.
fn view_under_lock(layout: &Layout, lock_timeout: Duration, progress: &dyn Progress) -> Result<View> {
    note_lost_records(layout);
    loop {
        progress::check(progress)?;
        let known = View::from_journal(layout)?;
        // The end of a journal that was read around damage is never confirmed.
        if let Some(damage) = known.damage() {
            return Err(damage);
        }
        let _writer = WriterLock::take(&layout.root, lock_timeout, progress)?;
        if Journal::of(layout).confirms(known.end())? {
            return Ok(known);
        }
    }
}

/// Has the journal know what the index proves that it has lost, before the index goes.
pub(super) fn note_lost_records(layout: &Layout) {
    let _ = View::open(layout);
}

/// Has a new index take the place of the old one, which comes back where that fails.
fn put_in_place(layout: &Layout, new: &Path) -> Result<()> {
    let _lock = IndexLock::take(&layout.root)?;
    let aside = layout.cache().join(format!("view.{}.old", OpId::generate()));
    match files::rename_below(&layout.root, &layout.view(), &aside) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).at("set aside", layout.view()),
        _ => {}
    }
    if let Err(e) = files::rename_below(&layout.root, new, &layout.view()) {
        let _ = files::rename_below(&layout.root, &aside, &layout.view());
        return Err(e).at("rename into place", layout.view());
    }
    disk::sync_folder(&layout.root)?;
    files::remove_all(&layout.root, &aside).at("remove folder", &aside)
}
