//! Reading the index.

use rocksdb::{Direction, IteratorMode, ReadOptions};

use super::{Db, Family, OBJECT_BYTES};
use crate::{
    codec::Decoder,
    error::{Error, Result},
    id::{ObjectKey, PackId},
    pack::Location,
};

/// An entry of a family.
type KeyValue = (Box<[u8]>, Box<[u8]>);

fn decode_location(bytes: &[u8]) -> Option<Location> {
    let mut d = Decoder::new(bytes);
    let pack = PackId(d.array("location").ok()?);
    Some(Location { pack, offset: d.uint("location").ok()?, block_bytes: d.uint32("location").ok()? })
}

impl Db {
    pub(super) fn entry(&self, entry: std::result::Result<KeyValue, rocksdb::Error>) -> Result<KeyValue> {
        let (key, value) = entry.map_err(|e| self.error(e))?;
        Ok((key, self.open(value.into_vec())?.into_boxed_slice()))
    }

    /// The value of a key.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.db.get_cf(self.family(family)?, key).map_err(|e| self.error(e))?;
        found.map(|value| self.open(value)).transpose()
    }

    /// Location of an object.
    pub fn location(&self, key: &ObjectKey) -> Result<Option<Location>> {
        let Some(bytes) = self.db.get_pinned_cf(self.family(Family::Objects)?, key).map_err(|e| self.error(e))? else {
            return Ok(None);
        };
        decode_location(&bytes)
            .map(Some)
            .ok_or_else(|| Error::Index { path: self.path.clone(), reason: "a location does not decode".into() })
    }

    /// Every key and value of a family, in order.
    pub fn scan(&self, family: Family) -> Result<impl Iterator<Item = Result<KeyValue>>> {
        Ok(self.scan_stored(family)?.map(|entry| self.entry(entry)))
    }

    fn scan_stored(&self, family: Family) -> Result<impl Iterator<Item = std::result::Result<KeyValue, rocksdb::Error>>> {
        let mut options = ReadOptions::default();
        options.set_readahead_size(1 << 20);
        Ok(self.db.iterator_cf_opt(self.family(family)?, options, IteratorMode::Start))
    }

    /// Every key of a family and its value, last first.
    pub fn scan_back(&self, family: Family) -> Result<impl Iterator<Item = Result<KeyValue>>> {
        let entries = self.db.iterator_cf(self.family(family)?, IteratorMode::End);
        Ok(entries.map(|entry| self.entry(entry)))
    }

    /// Every key with this prefix, and its value, in order.
    pub fn scan_prefix<'a>(&'a self, family: Family, prefix: &'a [u8]) -> Result<impl Iterator<Item = Result<KeyValue>> + 'a> {
        self.scan_prefix_from(family, prefix, prefix)
    }

    /// The same, from a key with the prefix on.
    pub fn scan_prefix_from<'a>(
        &'a self,
        family: Family,
        prefix: &'a [u8],
        from: &[u8],
    ) -> Result<impl Iterator<Item = Result<KeyValue>> + 'a> {
        let from = IteratorMode::From(from, Direction::Forward);
        let entries = self.db.iterator_cf(self.family(family)?, from).map(|entry| self.entry(entry));
        Ok(entries.take_while(move |entry| entry.as_ref().map_or(true, |(key, _)| key.starts_with(prefix))))
    }

    /// Every key with this prefix, last first. What follows the prefix begins with no byte 0xff.
    pub fn keys_back(&self, family: Family, prefix: Vec<u8>) -> Result<impl Iterator<Item = Result<Box<[u8]>>> + '_> {
        let from = [&prefix[..], &[0xff]].concat();
        let entries = self.db.iterator_cf(self.family(family)?, IteratorMode::From(&from, Direction::Reverse));
        let keys = entries.map(|entry| entry.map(|(key, _)| key).map_err(|e| self.error(e)));
        Ok(keys.take_while(move |key| key.as_ref().map_or(true, |key| key.starts_with(&prefix))))
    }

    /// Every object and where it lies, in order of keys.
    pub fn objects(&self) -> Result<impl Iterator<Item = Result<(ObjectKey, Location)>>> {
        // Where an object lies is no secret: its id and its pack's name are there to be read in the folder.
        Ok(self.scan_stored(Family::Objects)?.map(|entry| {
            let (key, value) = entry.map_err(|e| self.error(e))?;
            let key: Option<ObjectKey> = key.as_ref().try_into().ok();
            key.zip(decode_location(&value))
                .ok_or_else(|| Error::Index { path: self.path.clone(), reason: "an entry does not decode".into() })
        }))
    }

    /// About how many objects there are, by the lengths of their tables. RocksDB's own estimate is 0, unless it reads all tables when it
    /// opens them.
    pub fn objects_estimate(&self) -> Result<u64> {
        let files = self.db.live_files().map_err(|e| self.error(e))?;
        let of_objects = files.iter().filter(|file| file.column_family_name == Family::Objects.name());
        Ok(of_objects.map(|file| file.size as u64).sum::<u64>() / OBJECT_BYTES)
    }
}
