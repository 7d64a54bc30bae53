//! The two copies of the settings: `store.json`, and the same bytes in `journal/store.json`. One flipped bit or one lost sector takes one of
//! them. The first counts where it is whole; both are written whole or not at all.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::Config;
use crate::{
    error::{Error, IoContext, Result},
    files::{self, Folder, How},
    layout::Layout,
};

/// The file name of both.
const NAME: &str = "store.json";
/// Neither is longer.
pub(super) const BYTES_MAX: u64 = 1 << 20;

/// A copy of the settings that is gone, damaged, or not what the other says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFault {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub reason: String,
}

impl Config {
    /// The settings of a store: from `store.json`, or where that cannot be read, from its copy. The error is the first one's.
    pub(crate) fn of(layout: &Layout) -> Result<Self> {
        Self::read_either(layout).map(|(config, _)| config)
    }

    /// The settings, and the fault of `store.json` where the copy had to stand in for it.
    fn read_either(layout: &Layout) -> Result<(Self, Option<Error>)> {
        let error = match first(layout) {
            Ok(config) => return Ok((config, None)),
            // Whole, and not for this release.
            Err(e @ Error::FormatNewer { .. }) => return Err(e),
            Err(e) => e,
        };
        match copy(layout) {
            Ok(config) => Ok((config, Some(error))),
            Err(e @ Error::FormatNewer { .. }) => Err(e),
            Err(_) => Err(error),
        }
    }

    /// The bytes of the copy that counts.
    pub(crate) fn bytes(layout: &Layout) -> Result<Vec<u8>> {
        match Self::read_either(layout)? {
            (_, None) => first_bytes(layout),
            (_, Some(_)) => copy_bytes(layout),
        }
    }

    /// Writes these bytes to both copies, where they are others.
    pub(crate) fn put(layout: &Layout, bytes: &[u8]) -> Result<()> {
        Self::put_copy(layout, bytes)?;
        match first_bytes(layout).is_ok_and(|first| first == bytes) {
            true => Ok(()),
            false => write(Folder::top(&layout.root), &layout.config(), bytes),
        }
    }

    /// Writes these bytes to the second copy, where it has others.
    pub(crate) fn put_copy(layout: &Layout, bytes: &[u8]) -> Result<()> {
        match copy_bytes(layout).is_ok_and(|copy| copy == bytes) {
            true => Ok(()),
            false => write(Folder::below(&layout.journal()), &layout.config_copy(), bytes),
        }
    }

    /// True if there is a copy that tells that the folder is a store, whatever became of `store.json`.
    pub(crate) fn has_copy(layout: &Layout) -> bool {
        !matches!(copy(layout), Err(e) if e.is_damage())
    }

    /// What is wrong with either copy while the other is whole. A store that has only ever had one copy is not at fault.
    pub(crate) fn faults(layout: &Layout) -> Result<Option<SettingsFault>> {
        let fault = |path: PathBuf, reason: String| Ok(Some(SettingsFault { path, reason }));
        let (config, error) = Self::read_either(layout)?;
        if let Some(error) = error {
            return fault(layout.config(), error.fault());
        }
        match copy(layout) {
            Ok(copy) if copy == config => Ok(None),
            Ok(_) => {
                let path = layout.config_copy();
                let reason = format!("{} says something else than store.json", path.display());
                fault(path, reason)
            }
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => fault(layout.config_copy(), e.fault()),
        }
    }

    /// Makes both copies whole and equal, from the one that counts. The caller holds the writer lock. True if one was written.
    pub(crate) fn mend(layout: &Layout) -> Result<bool> {
        let (_, error) = Self::read_either(layout)?;
        if error.is_some() {
            let bytes = copy_bytes(layout)?;
            return write(Folder::top(&layout.root), &layout.config(), &bytes).map(|()| true);
        }
        let bytes = first_bytes(layout)?;
        if copy_bytes(layout).is_ok_and(|copy| copy == bytes) {
            return Ok(false);
        }
        write(Folder::below(&layout.journal()), &layout.config_copy(), &bytes).map(|()| true)
    }

    /// Has the store need a feature: releases without it refuse it by name from now on.
    pub(crate) fn require(layout: &Layout, feature: &str) -> Result<()> {
        let mut config = Self::of(layout)?;
        if config.incompatible.iter().any(|known| known == feature) {
            return Ok(());
        }
        config.incompatible.push(feature.to_owned());
        config.checksum = config.computed_checksum();
        // What a later release has added stays.
        let bytes = if first(layout).is_ok() { first_bytes(layout)? } else { copy_bytes(layout)? };
        let mut value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if let (Some(fields), Ok(Value::Object(known))) = (value.as_object_mut(), serde_json::to_value(&config)) {
            fields.extend(known);
        }
        let bytes = serde_json::to_vec_pretty(&value).unwrap_or_default();
        write(Folder::top(&layout.root), &layout.config(), &bytes)?;
        write(Folder::below(&layout.journal()), &layout.config_copy(), &bytes)
    }

    /// Makes the copy in a store of an earlier release, which has none. Nothing depends on it, so that failing is no error.
    pub(crate) fn make_copy(layout: &Layout) {
        let is_missing = layout.config_copy().symlink_metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        if is_missing && first(layout).is_ok() {
            let _ = Self::mend(layout);
        }
    }

    /// Writes the settings of a new store. A power cut between the two leaves a store without a copy, which [`Config::make_copy`] makes. Fails with
    /// [`io::ErrorKind::AlreadyExists`] where there is one.
    pub(crate) fn write_new(&self, layout: &Layout) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        Folder::top(&layout.root)?.write_synced(OsStr::new(NAME), &bytes, true)?;
        Folder::below(&layout.journal())?.write_synced(OsStr::new(NAME), &bytes, false)
    }

    /// Writes both copies, whatever they say now.
    pub(crate) fn write_over(&self, layout: &Layout) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        write(Folder::below(&layout.journal()), &layout.config_copy(), &bytes)?;
        write(Folder::top(&layout.root), &layout.config(), &bytes)
    }
}

fn first_bytes(layout: &Layout) -> Result<Vec<u8>> {
    let path = layout.config();
    files::open_top(&path, How::Read).and_then(|file| files::read_all(&file, BYTES_MAX)).at("read", path)
}

fn copy_bytes(layout: &Layout) -> Result<Vec<u8>> {
    let path = layout.config_copy();
    files::open(&path, How::Read).and_then(|file| files::read_all(&file, BYTES_MAX)).at("read", path)
}

fn first(layout: &Layout) -> Result<Config> {
    Config::decode(&first_bytes(layout)?, &layout.config(), &layout.root)
}

fn copy(layout: &Layout) -> Result<Config> {
    Config::decode(&copy_bytes(layout)?, &layout.config_copy(), &layout.root)
}

fn write(folder: io::Result<Folder>, path: &Path, bytes: &[u8]) -> Result<()> {
    folder.and_then(|folder| folder.write_synced(OsStr::new(NAME), bytes, false)).at("write", path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{OpenOptions, Store, testing::TestStore, testing::files};

    fn flip(path: &Path, at: usize) {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn each_flipped_bit_of_either_copy_is_noticed_read_past_and_mended() {
        let test = TestStore::new();
        let id = test.checkpoint(&files(1, 2));
        let layout = test.store.layout();
        let good = fs::read(layout.config()).unwrap();
        assert_eq!(fs::read(layout.config_copy()).unwrap(), good);
        for path in [layout.config(), layout.config_copy()] {
            for at in 0..good.len() {
                flip(&path, at);
                let read = if path == layout.config() { first(layout) } else { copy(layout) };
                let is_spelled_otherwise = read.is_ok();
                assert_eq!(Config::faults(layout).unwrap().is_none(), is_spelled_otherwise, "{} at {at}", path.display());
                let opened = Store::open(&layout.root, &OpenOptions::default()).unwrap();
                assert_eq!(opened.checkpoints().unwrap()[0].record.id, id);
                assert!(Config::mend(layout).unwrap());
                assert_eq!(Config::faults(layout).unwrap(), None);
                fs::write(layout.config(), &good).unwrap();
                fs::write(layout.config_copy(), &good).unwrap();
            }
            fs::remove_file(&path).unwrap();
            assert!(Store::open(&layout.root, &OpenOptions { create: true, ..OpenOptions::default() }).is_ok());
            assert!(Config::mend(layout).unwrap());
            assert_eq!(fs::read(&path).unwrap(), good);
        }
        assert!(!Config::mend(layout).unwrap());
    }

    #[test]
    fn a_store_of_an_earlier_release_gets_its_copy_with_the_next_write() {
        let test = TestStore::new();
        let layout = test.store.layout();
        fs::remove_file(layout.config_copy()).unwrap();
        assert_eq!(Config::faults(layout).unwrap(), None);
        test.open();
        assert!(!layout.config_copy().exists());
        test.checkpoint(&files(1, 2));
        assert_eq!(fs::read(layout.config_copy()).unwrap(), fs::read(layout.config()).unwrap());
    }

    #[test]
    fn a_store_that_has_lost_both_is_not_made_anew_over_what_it_has() {
        let test = TestStore::new();
        test.checkpoint(&files(1, 2));
        let layout = test.store.layout();
        fs::remove_file(layout.config_copy()).unwrap();
        fs::remove_file(layout.config()).unwrap();
        let error = Store::open(&layout.root, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap_err();
        assert!(error.to_string().contains("a salvage of what the packs hold"), "{error}");
        assert!(!layout.config().exists());
    }

    #[test]
    fn a_newer_store_is_refused_by_either_copy() {
        let test = TestStore::new();
        let layout = test.store.layout();
        let good = fs::read_to_string(layout.config()).unwrap();
        let newer = good.replace("\"parhelia_store\": 1", "\"parhelia_store\": 2");
        assert_ne!(newer, good);
        fs::write(layout.config(), &newer).unwrap();
        assert!(matches!(Config::of(layout), Err(Error::FormatNewer { .. })));
        fs::write(layout.config(), "{").unwrap();
        fs::write(layout.config_copy(), &newer).unwrap();
        assert!(matches!(Config::of(layout), Err(Error::FormatNewer { .. })));
    }
}
