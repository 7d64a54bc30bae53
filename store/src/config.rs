//! `store.json`: what is fixed for a store.

mod copies;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::copies::SettingsFault;
use crate::{
    clock,
    error::{Error, IoContext, Result},
    files::{self, How},
    format::{FEATURES, PARITY, STORE_VERSION},
    id::Ulid,
};

/// The lengths of a large file's chunks, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunking {
    /// No chunk but a file's last is shorter.
    pub bytes_min: u32,
    /// The length that FastCDC aims at.
    pub bytes_avg: u32,
    /// No chunk is longer.
    pub bytes_max: u32,
}

/// `store.json`: what is fixed for a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Version of the layout.
    pub parhelia_store: u32,
    /// The store's own id.
    pub id: Ulid,
    /// The time at which it was made.
    pub created_at: String,
    /// Features that an older release may ignore.
    pub compatible: Vec<String>,
    /// Features with which an older release may read, not write.
    pub read_compatible: Vec<String>,
    /// Features without which nothing can be done.
    pub incompatible: Vec<String>,
    /// The lengths of chunks.
    pub chunking: Chunking,
    /// The zstd level at which blocks are compressed.
    pub compression_level: i32,
    /// CRC32C of this file without this line, in hex.
    pub checksum: String,
}

impl Config {
    pub(crate) fn new(has_parity: bool) -> Self {
        let config = Config {
            parhelia_store: STORE_VERSION,
            id: Ulid::generate(),
            created_at: clock::timestamp().to_string(),
            compatible: Vec::new(),
            read_compatible: Vec::new(),
            incompatible: has_parity.then(|| PARITY.to_owned()).into_iter().collect(),
            chunking: Chunking { bytes_min: 16 << 10, bytes_avg: 64 << 10, bytes_max: 256 << 10 },
            compression_level: 3,
            checksum: String::new(),
        };
        config.sealed()
    }

    /// The same with its checksum.
    pub(crate) fn sealed(self) -> Self {
        Config { checksum: self.computed_checksum(), ..self }
    }

    fn computed_checksum(&self) -> String {
        let unsigned = Config { checksum: String::new(), ..self.clone() };
        format!("{:08x}", crc32c::crc32c(&serde_json::to_vec(&unsigned).unwrap_or_default()))
    }

    /// Reads the settings in one file, whose copy is not asked.
    pub(crate) fn read(path: &Path, root: &Path) -> Result<Self> {
        let read = files::open_top(path, How::Read).and_then(|file| files::read_all(&file, copies::BYTES_MAX));
        Self::decode(&read.at("read", path)?, path, root)
    }

    fn decode(bytes: &[u8], path: &Path, root: &Path) -> Result<Self> {
        let broken = |reason: String| Error::Corrupt { what: "store.json".into(), place: path.to_owned(), reason };
        let value: Value = serde_json::from_slice(bytes).map_err(|e| broken(e.to_string()))?;
        let newer = |needs: String| Error::FormatNewer { path: root.to_owned(), needs };
        match value.get("parhelia_store").and_then(Value::as_u64) {
            Some(version) if version > u64::from(STORE_VERSION) => return Err(newer(format!("store format {version}"))),
            Some(_) => {}
            None => return Err(broken("it has no parhelia_store version".into())),
        }
        let config: Config = serde_json::from_value(value).map_err(|e| broken(e.to_string()))?;
        if config.checksum != config.computed_checksum() {
            return Err(broken("its checksum does not fit".into()));
        }
        if let Some(feature) = config.incompatible.iter().find(|feature| !FEATURES.contains(&feature.as_str())) {
            return Err(newer(needed(feature)));
        }
        let c = config.chunking;
        let in_order = c.bytes_min <= c.bytes_avg && c.bytes_avg <= c.bytes_max;
        // What FastCDC is defined for.
        let in_range = c.bytes_min >= 64 && c.bytes_min <= 1 << 20 && c.bytes_avg >= 256 && c.bytes_max >= 1024;
        let is_even = [c.bytes_min, c.bytes_avg, c.bytes_max].iter().all(|bytes| bytes % 2 == 0);
        let sane = in_order && in_range && is_even && c.bytes_max <= 4 << 20;
        if !sane || !(1..=22).contains(&config.compression_level) {
            return Err(broken("its settings are out of range".into()));
        }
        Ok(config)
    }

    /// True if packs are written with parity. Earlier ones may be there without.
    pub(crate) fn has_parity(&self) -> bool {
        self.incompatible.iter().any(|feature| feature == PARITY)
    }

    /// Fails where there is a feature with which this release must not write to the store.
    pub(crate) fn check_writable(&self, root: &Path) -> Result<()> {
        let needs = |feature: &String| format!("for writing {}", needed(feature));
        match self.read_compatible.first() {
            Some(feature) => Err(Error::FormatNewer { path: root.to_owned(), needs: needs(feature) }),
            None => Ok(()),
        }
    }
}

/// A feature flag in words: its name and the first release that has it.
fn needed(flag: &str) -> String {
    match flag.split_once('@') {
        Some((name, version)) => format!("the feature '{name}' of parhelia {version}"),
        None => format!("the feature '{flag}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chunk_lengths_that_can_be_cut_are_taken() {
        let path = Path::new("store.json");
        let read = |bytes_min, bytes_avg, bytes_max| {
            let mut config = Config { chunking: Chunking { bytes_min, bytes_avg, bytes_max }, ..Config::new(true) };
            config.checksum = config.computed_checksum();
            Config::decode(&serde_json::to_vec(&config).unwrap(), path, path).is_ok()
        };
        for (min, avg, max) in [(16 << 10, 64 << 10, 256 << 10), (64, 256, 1024), (1 << 20, 4 << 20, 4 << 20)] {
            assert!(read(min, avg, max), "{min} {avg} {max}");
        }
        for (min, avg, max) in [
            (62, 256, 1024),
            (64, 254, 1024),
            (64, 256, 1022),
            (65, 256, 1024),
            (64, 257, 1024),
            (64, 256, 1025),
            (512, 256, 1024),
            (64, 2048, 1024),
            ((1 << 20) + 2, 4 << 20, 4 << 20),
            (64, 256, (4 << 20) + 2),
        ] {
            assert!(!read(min, avg, max), "{min} {avg} {max}");
        }
    }
}
