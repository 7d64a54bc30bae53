//! Blocks that a check or a verification has found damaged, and packs that are gone or cannot be followed. A create takes what is in them for
//! lost, and so stores it again where it comes upon the same content. The list is derived data, in `cache/`: one that is lost, or does not decode, is made anew by the next check.

use std::{collections::BTreeSet, fs, io::Write, path::PathBuf};

use crate::{
    codec::{Decoder, Malformed, put_uint},
    files::{self, How},
    format::DAMAGED_MAGIC,
    id::{OpId, PackId},
    layout::Layout,
    lock::IndexLock,
    pack::Location,
    statcache,
};

/// Stands in the list for a pack as a whole: no block begins at 0.
pub(crate) fn whole(pack: PackId) -> Location {
    Location { pack, offset: 0, block_bytes: 0 }
}

/// Blocks that are known to be damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damaged(BTreeSet<Location>);

fn path(layout: &Layout) -> PathBuf {
    layout.cache().join("damaged")
}

impl Damaged {
    /// The list as it is now; empty where there is none.
    pub fn read(layout: &Layout) -> Self {
        let bytes = files::open(&path(layout), How::Read).and_then(|file| files::read_all(&file, file.metadata()?.len()));
        let bytes = bytes.unwrap_or_default();
        let Some((body, crc)) = bytes.split_last_chunk::<4>() else { return Damaged::default() };
        match crc32c::crc32c(body) == u32::from_le_bytes(*crc) {
            true => Self::decode(body).unwrap_or_default(),
            false => Damaged::default(),
        }
    }

    fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut d = Decoder::new(body);
        if d.array::<8>("magic")? != DAMAGED_MAGIC {
            return Err(Malformed("magic"));
        }
        let block = |d: &mut Decoder<'_>| {
            Ok(Location { pack: PackId(d.array("pack")?), offset: d.uint("offset")?, block_bytes: d.uint32("length")? })
        };
        let blocks = (0..d.count(18, "blocks")?).map(|_| block(&mut d)).collect::<Result<_, Malformed>>()?;
        d.finish("blocks")?;
        Ok(Damaged(blocks))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = DAMAGED_MAGIC.to_vec();
        put_uint(&mut out, self.0.len() as u64);
        for block in &self.0 {
            out.extend_from_slice(&block.pack.0);
            put_uint(&mut out, block.offset);
            put_uint(&mut out, u64::from(block.block_bytes));
        }
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// True if none is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the block at a place is, or its pack as a whole.
    pub fn has(&self, at: Location) -> bool {
        self.0.contains(&at) || self.0.contains(&whole(at.pack))
    }

    fn write(&self, layout: &Layout) -> std::io::Result<()> {
        let path = path(layout);
        if self.is_empty() {
            return files::remove(&path);
        }
        let temporary = layout.cache().join(format!("{}.damaged.tmp", OpId::generate()));
        let written = files::open(&temporary, How::New).and_then(|mut file| {
            file.write_all(&self.encode())?;
            fs::rename(&temporary, &path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// Takes note of blocks that were found damaged, and forgets those of which `is_over` says that they are gone, or whole again. Who finds new
/// ones has every file read by the next create: a stat cache would vouch for what is in them. Where the store cannot be written to, nothing
/// is noted.
pub(crate) fn note(layout: &Layout, found: impl IntoIterator<Item = Location>, is_over: impl Fn(Location) -> bool) {
    let found: BTreeSet<Location> = found.into_iter().collect();
    let is_changed = |known: &Damaged| !found.is_subset(&known.0) || known.0.iter().any(|block| is_over(*block));
    if !is_changed(&Damaged::read(layout)) {
        return;
    }
    let Ok(_lock) = IndexLock::take(&layout.root) else { return };
    let known = Damaged::read(layout);
    let new = found.is_subset(&known.0);
    let kept = known.0.iter().filter(|block| !is_over(**block)).copied();
    let next = Damaged(kept.chain(found).collect());
    if next.write(layout).is_ok() && !new {
        let _ = statcache::forget_all(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(offset: u64) -> Location {
        Location { pack: PackId::new(OpId([1; 12]), 3), offset, block_bytes: 1 << 20 }
    }

    #[test]
    fn what_was_noted_is_known_until_it_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        layout.folders().iter().for_each(|folder| fs::create_dir(folder).unwrap());
        assert!(Damaged::read(&layout).is_empty());
        note(&layout, [block(1), block(900)], |_| false);
        note(&layout, [block(7)], |_| false);
        assert_eq!(Damaged::read(&layout).0.into_iter().collect::<Vec<_>>(), [block(1), block(7), block(900)]);
        // A stat cache goes with what is new, and with nothing else.
        let cache = layout.cache().join("a.stat");
        fs::write(&cache, "").unwrap();
        note(&layout, [block(7)], |block| block.offset == 1);
        assert!(cache.exists() && !Damaged::read(&layout).has(block(1)));
        note(&layout, [block(8)], |_| false);
        assert!(!cache.exists() && Damaged::read(&layout).has(block(8)));
        // A pack as a whole has all its blocks.
        note(&layout, [whole(block(1).pack)], |_| false);
        assert!(Damaged::read(&layout).has(block(77)) && !Damaged::read(&layout).has(whole(PackId([9; 16]))));
        // A damaged list is none.
        let sound = fs::read(path(&layout)).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 4;
            fs::write(path(&layout), &bytes).unwrap();
            assert!(Damaged::read(&layout).is_empty());
            fs::write(path(&layout), &sound[..at]).unwrap();
            assert!(Damaged::read(&layout).is_empty());
        }
        fs::write(path(&layout), &sound).unwrap();
        note(&layout, [], |_| true);
        assert!(!path(&layout).exists());
    }
}
