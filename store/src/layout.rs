//! The paths in a store's folder, and the store's keys.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    files,
    fold::{NewFold, NoFold},
    id::{OpId, PackId},
    keys::Keys,
};

/// Ending of the name of a new index in `cache/`, behind the id of the operation that makes it.
pub(crate) const NEW_INDEX: &str = ".view.new";

/// Ending of the name of a journal segment that was set aside because of damage. More of them have a number behind it.
pub(crate) const DAMAGED: &str = "damaged";
/// Ending of the name of a segment or a pack of which the disk could not read all, and that may be read again some day.
pub(crate) const UNREADABLE: &str = "unreadable";

/// True if a file has a name under which a repair sets aside what it takes out of the store.
pub(crate) fn is_set_aside(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    let numbered =
        name.rsplit_once('.').filter(|(_, number)| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    let name = numbered.map_or(&*name, |(name, _)| name);
    name.rsplit_once('.').is_some_and(|(_, ending)| [DAMAGED, UNREADABLE].contains(&ending))
}

/// The paths of a store, and its keys: what every reader and writer of its bytes needs.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The store's folder.
    pub root: PathBuf,
    /// The keys that encrypt and name its content.
    pub keys: Keys,
    /// True if packs are written with parity.
    pub has_parity: bool,
    /// What is made of its events.
    pub fold: NewFold,
}

impl Layout {
    /// The paths of the store in a folder, without encryption and without a fold.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Layout { root: root.into(), keys: Keys::default(), has_parity: false, fold: NoFold::make }
    }

    /// The folders that a store has.
    pub fn folders(&self) -> [PathBuf; 5] {
        [self.packs(), self.journal(), self.view(), self.pins(), self.cache()]
    }

    /// Makes what a copy of the store lacks because it was empty. Where that cannot be done, such as on a read-only medium, reading goes on
    /// without.
    pub(crate) fn make_missing(&self) {
        let is_missing = |folder: &Path| fs::symlink_metadata(folder).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        let mut folders = vec![self.packs(), self.view(), self.pins(), self.cache()];
        // A store that has packs has had a journal. Losing it is no emptiness.
        if is_missing(&self.journal()) && files::list(&self.packs()).is_ok_and(|packs| packs.is_empty()) {
            folders.push(self.journal());
        }
        for folder in folders.iter().filter(|folder| is_missing(folder)) {
            let _ = files::make_folder(folder);
        }
    }

    /// The configuration, which makes the folder a store.
    pub fn config(&self) -> PathBuf {
        self.root.join("store.json")
    }

    /// A copy of the configuration, in another folder: it is read where the first is gone or damaged.
    pub fn config_copy(&self) -> PathBuf {
        self.journal().join("store.json")
    }

    /// The folder `packs/`, with a file for each pack.
    pub fn packs(&self) -> PathBuf {
        self.root.join("packs")
    }

    /// The file of a pack: `packs/<id>.pack`.
    pub fn pack(&self, id: PackId) -> PathBuf {
        self.root.join("packs").join(format!("{id}.pack"))
    }

    /// The folder `journal/`, with the segments of the log.
    pub fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    /// RocksDB.
    pub fn view(&self) -> PathBuf {
        self.root.join("view")
    }

    /// A table of locations on its way into the view.
    pub fn table(&self, op: OpId) -> PathBuf {
        self.root.join("cache").join(format!("{op}.sst"))
    }

    /// The folder `pins/`, with a locked file for each running reader and writer.
    pub fn pins(&self) -> PathBuf {
        self.root.join("pins")
    }

    /// Stat caches, and files under way.
    pub fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// The note that a pack was read by its parity.
    pub(crate) fn healed(&self, pack: PackId) -> PathBuf {
        self.root.join("cache").join(format!("{pack}.healed"))
    }

    /// Leases of runs, as they were renewed last.
    pub fn leases(&self) -> PathBuf {
        self.root.join("leases")
    }

    /// Mounted filesystems of the store, and their logs.
    pub fn mounts(&self) -> PathBuf {
        self.root.join("mounts")
    }

    /// What this machine keeps of the store's remote: its place there, its key, and what was sent and taken in.
    pub fn remote(&self) -> PathBuf {
        self.root.join("remote")
    }

    /// The file that gc may release on a full disk.
    pub fn ballast(&self) -> PathBuf {
        self.root.join("ballast")
    }

    /// True where a folder has one of the two copies of a store's settings.
    pub(crate) fn has_settings_at(root: &Path) -> bool {
        Layout::new(root).has_settings()
    }

    /// True where one of the two copies of a store's settings is.
    pub fn has_settings(&self) -> bool {
        self.config().exists() || self.config_copy().exists()
    }

    /// The name under which a pack is set aside that could not be read in places.
    pub fn pack_aside(&self, id: PackId) -> PathBuf {
        self.root.join("packs").join(format!("{id}.pack.{UNREADABLE}"))
    }

    /// The pack that a file of `packs/` is.
    pub fn pack_of(path: &Path) -> Option<PackId> {
        path.file_name()?.to_str()?.strip_suffix(".pack").and_then(PackId::from_hex)
    }
}
