//! Whole packs on their way to the disk.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use crate::{
    error::{IoContext, Result},
    files,
    layout::Layout,
    pack::{Ending, PackInfo},
    threads,
};

/// A whole pack, on its way to the disk. One that does not get there is removed: what can still be read of it may be gone later, and the
/// next run would take it up.
pub struct PendingPack {
    info: PackInfo,
    path: PathBuf,
    syncing: Option<SyncTask>,
}

/// A sync that is under way, or is over.
enum SyncTask {
    Beside(JoinHandle<std::io::Result<()>>),
    Over(std::io::Result<()>),
}

impl PendingPack {
    /// Begins to write the pack's end and to sync it, while others are still being written. Where there is no thread to be had, it is done here.
    pub(super) fn new(layout: &Layout, (info, ending): (PackInfo, Ending)) -> Self {
        let path = layout.pack(info.id);
        let ending = Arc::new(Mutex::new(Some(ending)));
        let beside = ending.clone();
        let syncing = match threads::apart(move || write_and_sync(&beside)) {
            Some(thread) => SyncTask::Beside(thread),
            None => SyncTask::Over(write_and_sync(&ending)),
        };
        PendingPack { info, path, syncing: Some(syncing) }
    }

    /// Waits until the pack is synced.
    pub fn synced(mut self) -> Result<PackInfo> {
        self.wait()?;
        Ok(self.info.clone())
    }

    fn wait(&mut self) -> Result<()> {
        let Some(syncing) = self.syncing.take() else { return Ok(()) };
        let synced = match syncing {
            SyncTask::Beside(thread) => thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the syncing thread failed"))),
            SyncTask::Over(synced) => synced,
        };
        if synced.is_err() {
            let _ = files::remove(&self.path);
        }
        synced.at("sync pack", &self.path)
    }
}

/// Parity is computed here, so that nobody who captures waits for it.
fn write_and_sync(ending: &Mutex<Option<Ending>>) -> std::io::Result<()> {
    match ending.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(ending) => ending.write()?.sync_data(),
        None => Ok(()),
    }
}

impl Drop for PendingPack {
    fn drop(&mut self) {
        let _ = self.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::id::{OpId, PackId};

    #[test]
    fn a_pack_that_cannot_be_synced_goes_whether_it_is_waited_for_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pack");
        let failed = || Err(std::io::Error::other("no such luck"));
        for beside in [true, false] {
            for is_waited_for in [true, false] {
                fs::write(&path, "pack").unwrap();
                let info = PackInfo { id: PackId::new(OpId::generate(), 0), bytes: 4, digest: String::new() };
                let syncing = match beside {
                    true => SyncTask::Beside(std::thread::spawn(failed)),
                    false => SyncTask::Over(failed()),
                };
                let finished = PendingPack { info, path: path.clone(), syncing: Some(syncing) };
                match is_waited_for {
                    true => assert!(finished.synced().is_err_and(|e| e.to_string().contains("sync pack"))),
                    false => drop(finished),
                }
                assert!(!path.exists(), "{beside} {is_waited_for}");
            }
        }
    }
}
