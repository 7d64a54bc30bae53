//! Packs with and without copies of their directories, whole and damaged.

use super::*;
use crate::{
    format::{BLOCK_MAGIC, SMALL_PACK_BYTES},
    pack::{BlockBuilder, PackInfo, PackWriter, reader::scan::MAGIC_PIECE_BYTES, trailer::PACK_TRAILER_BYTES},
    testing::blob_id,
};

/// A pack with one chunk a block, of so many bytes each, that do not compress.
fn pack_of(layout: &Layout, sizes: &[usize]) -> (PackFile, PackInfo) {
    pack_with(layout, sizes, true)
}

fn pack_with(layout: &Layout, sizes: &[usize], has_copies: bool) -> (PackFile, PackInfo) {
    let id = PackId([sizes.len() as u8; 16]);
    let mut writer = PackWriter::create(layout, id).unwrap();
    let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
    for (number, size) in sizes.iter().enumerate() {
        let mut bytes = vec![0; *size];
        blake3::Hasher::new().update(&[number as u8]).finalize_xof().fill(&mut bytes);
        let mut block = BlockBuilder::default();
        block.push(ObjectKind::Chunk, blob_id(&bytes).object(), &bytes, 0);
        let (entries, encoded) = block.encode(&mut compressor, &layout.keys.seal).unwrap();
        writer.append(&encoded, &entries).unwrap();
    }
    if !has_copies {
        writer.leave_out_copies();
    }
    let expected = writer.finished_bytes();
    let info = writer.finish().unwrap().0;
    assert_eq!(info.bytes, expected);
    (PackFile::open(layout, id).unwrap(), info)
}

fn scanned(pack: &PackFile, in_blocks: bool) -> Result<(Vec<Location>, PackInfo)> {
    let mut found = Vec::new();
    let visit = |location, _: &Directory| {
        found.push(location);
        Ok(())
    };
    let info = if in_blocks { pack.scan_blocks(false, visit) } else { pack.scan(visit) }?;
    Ok((found, info))
}

#[test]
fn a_pack_is_indexed_from_its_copies_and_a_small_one_from_itself() {
    let store = tempfile::tempdir().unwrap();
    let layout = Layout::new(store.path());
    std::fs::create_dir(layout.packs()).unwrap();
    // The longest whose length takes two bytes.
    let one = (1 << 14) - 1;
    // Header, directory and payload of four blocks fill a small pack to the byte.
    let fixed = pack_of(&layout, &[10_000; 4]).1.bytes - 40_000 - PACK_TRAILER_BYTES as u64;
    std::fs::remove_file(layout.pack(PackId([4; 16]))).unwrap();
    let last = SMALL_PACK_BYTES as usize - 3 * one - fixed as usize;
    for (sizes, has_copies) in [(vec![one, one, one, last], false), (vec![one, one, one, last + 1, 1], true)] {
        let (pack, info) = pack_of(&layout, &sizes);
        let whole = std::fs::read(layout.pack(pack.id)).unwrap();
        assert_eq!(pack.trailer().unwrap().directories_bytes > 0, has_copies, "{}", whole.len());
        assert_eq!(info.bytes, whole.len() as u64);
        let (found, read) = scanned(&pack, false).unwrap();
        assert_eq!((found.len(), &read), (sizes.len(), &info));
        assert_eq!(scanned(&pack, true).unwrap(), (found.clone(), info));
        pack.check_copies().unwrap();
        // A directory that is not what it was is noticed, and where there are copies made up for.
        let mut damaged = whole.clone();
        damaged[found[1].offset as usize + HEADER_BYTES + 5] ^= 1;
        std::fs::write(layout.pack(pack.id), &damaged).unwrap();
        assert_eq!(scanned(&pack, false).is_ok(), has_copies);
        assert!(scanned(&pack, true).is_err());
        let mut visited = Vec::new();
        let _ = pack.scan(|location, _| {
            visited.push(location);
            Ok(())
        });
        let others = found.iter().filter(|at| has_copies || **at != found[1]).copied();
        assert_eq!(visited, others.collect::<Vec<_>>(), "the other blocks are found all the same");
        // A pack that was not committed as it is has another digest.
        let mut longer = whole.clone();
        longer.truncate(found[3].offset as usize);
        std::fs::write(layout.pack(pack.id), [&longer[..], &whole[whole.len() - PACK_TRAILER_BYTES..]].concat()).unwrap();
        assert!(scanned(&pack, false).is_err());
    }
}

#[test]
fn a_long_pack_may_have_no_copies_and_is_then_indexed_from_its_blocks() {
    let store = tempfile::tempdir().unwrap();
    let layout = Layout::new(store.path());
    std::fs::create_dir(layout.packs()).unwrap();
    let sizes = [SMALL_PACK_BYTES as usize, 9000, 7, 30_000];
    let with_copies = pack_of(&layout, &sizes).1.bytes;
    std::fs::remove_file(layout.pack(PackId([4; 16]))).unwrap();
    let (pack, info) = pack_with(&layout, &sizes, false);
    assert!(info.bytes < with_copies && pack.trailer().unwrap().directories_bytes == 0);
    let (found, read) = scanned(&pack, false).unwrap();
    assert_eq!((found.len(), &read), (4, &info));
    assert_eq!(scanned(&pack, true).unwrap(), (found.clone(), info));
    pack.check_copies().unwrap();
    let mut damaged = std::fs::read(layout.pack(pack.id)).unwrap();
    damaged[found[1].offset as usize + HEADER_BYTES + 5] ^= 1;
    std::fs::write(layout.pack(pack.id), &damaged).unwrap();
    let mut visited = Vec::new();
    let scanned = pack.scan(|location, _| {
        visited.push(location);
        Ok(())
    });
    assert!(scanned.is_err());
    assert_eq!(visited, [found[0], found[2], found[3]], "each of the other blocks is found, once");
}

#[test]
fn a_magic_is_found_wherever_it_lies() {
    let store = tempfile::tempdir().unwrap();
    let (layout, id) = (Layout::new(store.path()), PackId([0; 16]));
    std::fs::create_dir(layout.packs()).unwrap();
    std::fs::write(layout.pack(id), "").unwrap();
    let pack = PackFile::open_unchecked(&layout, id).unwrap();
    let places = [0, 1, MAGIC_PIECE_BYTES - 5, MAGIC_PIECE_BYTES - 2, MAGIC_PIECE_BYTES, 3 * MAGIC_PIECE_BYTES - 7];
    for place in places {
        let bytes = [vec![b'x'; place], BLOCK_MAGIC.to_vec(), vec![b'x'; 9]].concat();
        std::fs::write(layout.pack(id), &bytes).unwrap();
        for from in [0, place / 2, place] {
            assert_eq!(pack.next_magic(from as u64).unwrap(), Some(place as u64), "{from}");
        }
        for from in [place + 1, bytes.len(), bytes.len() + 5] {
            assert_eq!(pack.next_magic(from as u64).unwrap(), None, "{from}");
        }
    }
}

fn with_parity(store: &std::path::Path) -> Layout {
    let layout = Layout { has_parity: true, ..Layout::new(store) };
    for folder in [layout.packs(), layout.cache()] {
        std::fs::create_dir(folder).unwrap();
    }
    layout
}

#[test]
fn every_damaged_byte_of_a_pack_with_parity_is_read_as_it_was() {
    let store = tempfile::tempdir().unwrap();
    let layout = with_parity(store.path());
    for sizes in [vec![200, 300, 90], vec![30_000, 20_000, 40_000]] {
        let (pack, info) = pack_of(&layout, &sizes);
        let (found, read) = scanned(&pack, false).unwrap();
        assert_eq!((found.len(), &read), (sizes.len(), &info));
        assert!(!pack.was_healed());
        let whole = std::fs::read(layout.pack(pack.id)).unwrap();
        let contents = |pack: &PackFile| -> Vec<Vec<u8>> {
            let block = |at: &Location| match pack.read_block(*at).unwrap() {
                Read::Block(block) => block.bytes[block.objects[0].2.clone()].to_vec(),
                Read::OnBases(_) => unreachable!(),
            };
            found.iter().map(block).collect()
        };
        let as_written = contents(&pack);
        for at in (0..whole.len()).step_by(whole.len() / 700 + 1) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(layout.pack(pack.id), &damaged).unwrap();
            let open = || PackFile::open(&layout, pack.id).unwrap();
            assert!(contents(&open()) == as_written, "{at}");
            assert_eq!(scanned(&open(), false).unwrap(), (found.clone(), info.clone()), "{at}");
            assert_eq!(scanned(&open(), true).unwrap().1, info, "{at}");
            open().scan_blocks(true, |_, _| Ok(())).unwrap();
            open().check_copies().unwrap();
            assert!(open().examine().unwrap().unwrap().damaged > 0, "{at}");
            // Whoever wants to know of it is told.
            let noticed = PackFile::open_unhealed(&layout, pack.id).and_then(|file| file.check_parity());
            assert!(noticed.is_err(), "{at}");
        }
        assert_eq!(crate::healed::list(&layout).into_iter().collect::<Vec<_>>(), [pack.id]);
        crate::healed::forget(&layout, pack.id);
        assert!(crate::healed::list(&layout).is_empty());
        std::fs::remove_file(layout.pack(pack.id)).unwrap();
    }
}

#[test]
fn damage_that_comes_later_is_healed_by_an_open_pack() {
    let store = tempfile::tempdir().unwrap();
    let layout = with_parity(store.path());
    let (pack, _) = pack_of(&layout, &[30_000, 20_000, 40_000]);
    let found = scanned(&pack, false).unwrap().0;
    let whole = std::fs::read(layout.pack(pack.id)).unwrap();
    let mut damaged = whole.clone();
    for at in &found {
        damaged[at.offset as usize + at.block_bytes as usize - 9] ^= 1;
        std::fs::write(layout.pack(pack.id), &damaged).unwrap();
        pack.read_block(*at).unwrap();
    }
    assert!(pack.was_healed());
    // More than parity makes up for is damage, which is told; the other blocks are read.
    let first = found[0].offset as usize;
    damaged = whole.clone();
    damaged[first + 1000..first + 9000].fill(0);
    std::fs::write(layout.pack(pack.id), &damaged).unwrap();
    let pack = PackFile::open(&layout, pack.id).unwrap();
    assert!(pack.read_block(found[0]).unwrap_err().is_damage());
    assert!(pack.read_block(found[2]).is_ok());
}
