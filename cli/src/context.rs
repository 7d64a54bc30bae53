//! What every verb works with: the store as the flags name it, its output, its progress.

use std::path::{Path, PathBuf};

use parhelia_store::{
    OpenOptions, Store, pin::Pin, progress::Progress, record::Checkpoint, selector::select, store::default_path,
};

use crate::{
    args::Global,
    exit::{Failure, Result},
    interrupt::Cancel,
    output::Output,
    progress::Bar,
};

/// What every verb works with.
#[derive(Debug)]
pub struct Context {
    /// The global flags.
    pub global: Global,
    /// Where results go.
    pub out: Output,
    cancel: Cancel,
}

impl Context {
    /// From the global flags.
    pub fn new(global: &Global, cancel: Cancel) -> Self {
        Context { global: global.clone(), out: Output::new(global.json, global.quiet), cancel }
    }

    /// The store's folder: as named, or the user's own.
    pub fn store_path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.global.store {
            return Ok(path.clone());
        }
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
        match data {
            Some(data) => Ok(default_path(&data)),
            None => Err(Failure::Usage("no store: give --store DIR, or set PARHELIA_STORE or HOME".into())),
        }
    }

    /// Opens the store; it must exist.
    pub fn open(&self) -> Result<Store> {
        self.open_with(false)
    }

    /// Opens the store, making it where `create` says so and there is none.
    pub fn open_with(&self, create: bool) -> Result<Store> {
        let options = OpenOptions { create, lock_timeout: self.global.lock_timeout, ..OpenOptions::default() };
        Ok(Store::open(&self.store_path()?, &options)?)
    }

    /// Set once the user asked to stop.
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Shows progress of what takes long.
    pub fn progress(&self) -> Bar {
        Bar::new(!self.global.quiet && !self.global.json, self.global.quiet, self.cancel.clone())
    }

    /// Says so where the store lies on a network filesystem: locks and syncs are not to be relied on there.
    pub fn warn_of_network(&self, store: &Store, progress: &dyn Progress) {
        const NETWORK: [(u32, &str); 5] =
            [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB"), (0x517b, "SMB"), (0x0102_1997, "9p")];
        let Ok(found) = rustix::fs::statfs(store.path()) else { return };
        if let Some((_, name)) = NETWORK.iter().find(|(magic, _)| *magic == found.f_type as u32) {
            let path = store.path().display();
            progress
                .notice(&format!("the store at {path} is on {name}; keep it on a local disk, or let one machine alone use it"));
        }
    }

    /// The checkpoint that a selector names, kept readable as long as the pin is held.
    pub fn pinned(&self, store: &Store, selector: &str, purpose: &str) -> Result<(Checkpoint, Option<Pin>)> {
        let found = select(&store.checkpoints()?, selector)?.clone();
        let Some(mut pin) = pin(store.layout().pins().as_path(), purpose)? else { return Ok((found, None)) };
        pin.add([found.record.id])?;
        // It may have been deleted before it was pinned.
        let view = store.refresh()?;
        let found = view.checkpoints()?.iter().find(|c| c.record.id == found.record.id).cloned();
        match found {
            Some(found) => Ok((found, Some(pin))),
            None => Err(parhelia_store::Error::NoCheckpoint { selector: selector.to_owned() }.into()),
        }
    }
}

/// A pin; none on a medium that cannot be written, where nothing can be collected either.
fn pin(folder: &Path, purpose: &str) -> Result<Option<Pin>> {
    use std::io::ErrorKind;
    match Pin::take(folder, false, purpose) {
        Ok(pin) => Ok(Some(pin)),
        Err(parhelia_store::Error::Io { source, .. })
            if matches!(source.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) =>
        {
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}
