//! Making the index anew.

use std::{fs, path::Path, time::Duration};

use crate::{
    disk,
    error::{Error, IoContext, Result},
    files,
    id::{OpId, PackId},
    layout::Layout,
    lock::{IndexLock, WriterLock},
    progress::{Phase, Progress},
    store::Config,
    view::{self, View},
};

/// Derives the index anew from the journal and the packs. The old one is set aside first, and comes back if that fails. Waits for the
/// writer lock up to `lock_timeout`.
pub fn rebuild_index(root: &Path, lock_timeout: Duration, progress: &dyn Progress) -> Result<()> {
    let layout = Layout { root: root.to_owned() };
    let config = match Config::read(&layout.config(), root) {
        Err(e) if e.is_not_found() => {
            return Err(Error::NoStore { path: root.to_owned(), hint: "there is no store.json; --store chooses another" });
        }
        other => other?,
    };
    config.check_writable(root)?;
    if let Some(uid) = files::host(root) {
        return Err(Error::NotOwner { path: layout.view(), uid });
    }
    layout.make_missing();
    let _writer = WriterLock::take(root, lock_timeout, progress)?;
    let lock = IndexLock::take(root)?;
    // What cannot be read cannot be derived from: look before anything is moved.
    let known = View::from_journal(&layout)?;
    let packs = known.packs()?;
    let bytes = packs.values().map(|pack| pack.bytes).sum();
    progress.phase(Phase::Check, None, Some(bytes));
    let aside = layout.cache().join(format!("view.{}.old", OpId::generate()));
    match fs::rename(layout.view(), &aside) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).at("set aside", layout.view()),
        _ => {}
    }
    if let Err(e) = files::make_folder(&layout.view())
        .at("create folder", layout.view())
        .and_then(|()| view::absorb_locked(&layout, &Default::default(), known.end(), &lock))
    {
        if aside.exists() {
            let _ = fs::remove_dir_all(layout.view());
            let _ = fs::rename(&aside, layout.view());
        }
        return Err(e);
    }
    disk::sync_folder(root)?;
    // The new index leaves out what such a pack held.
    let is_short = |id: PackId, bytes: u64| !fs::metadata(layout.pack(id)).is_ok_and(|meta| meta.len() == bytes);
    if packs.iter().any(|(id, state)| state.condemned.is_none() && is_short(*id, state.bytes)) {
        forget_stat_caches(&layout)?;
    }
    match fs::remove_dir_all(&aside) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).at("remove folder", &aside),
        _ => Ok(()),
    }
}

/// What a stat cache says is unchanged is not read again, although it may be what was lost.
pub(super) fn forget_stat_caches(layout: &Layout) -> Result<()> {
    let folder = layout.cache();
    for path in files::list(&folder).at("read folder", &folder)? {
        if path.extension().is_some_and(|ending| ending == "stat") {
            files::remove(&path).at("remove", &path)?;
        }
    }
    Ok(())
}
