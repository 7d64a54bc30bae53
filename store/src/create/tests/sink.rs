//! Objects on their way into blocks and packs.

use super::*;
use crate::{
    create::{
        orphans::AdoptedContent,
        packs::PackSink,
        sink::{Batch, Sink},
    },
    format::{BLOCK_BYTES_MAX, DATA_BLOCK_BYTES},
    id::{BlobId, OpId},
    pack::{ObjectKind, PackFile},
    recipe::{ChunkRun, EncodedObject},
};

fn sink(store: &Store) -> Sink<'_> {
    Sink::Store(Box::new(PackSink::new(store, store.view(), OpId::generate(), AdoptedContent::default())))
}

fn packs(sink: Sink<'_>) -> Box<PackSink<'_>> {
    let Sink::Store(packs) = sink else { panic!("a sink that keeps nothing") };
    packs
}

/// So many small files of 10,000 bytes, in an order that is not theirs in blocks.
fn small(seeds: std::ops::Range<u64>) -> Vec<(BlobId, Vec<u8>, String)> {
    let file = |seed: u64| {
        let bytes = noise(10_000, seed);
        (crate::testing::blob_id(&bytes), bytes, format!("{}.{}", seed % 10, seed * 7 % 100))
    };
    seeds.map(file).collect()
}

fn put(batch: &mut Batch<'_>, files: &[(BlobId, Vec<u8>, String)]) {
    for (id, bytes, name) in files {
        batch.small_chunk(id.object(), bytes, name.as_bytes(), None).unwrap();
    }
}

#[test]
fn small_files_of_several_workers_are_written_once_each_in_full_blocks() {
    let f = fixture();
    // More than a window; what several blocks of each worker take, and what is less than one.
    let (first, second, third) = (small(0..1000), small(990..1150), small(1150..1160));
    let sink = sink(&f.store);
    let mut batches = [&first, &second, &third].map(|files| {
        let mut batch = Batch::new(&sink).unwrap();
        put(&mut batch, files);
        batch.write_whole_blocks().unwrap()
    });
    let [batch, others @ ..] = &mut batches;
    for other in others {
        batch.join(std::mem::replace(other, Batch::new(&sink).unwrap())).unwrap();
    }
    let [batch, ..] = batches;
    batch.finish().unwrap();
    let written = packs(sink).finish().unwrap();
    assert_eq!((written.objects_count(), written.new_bytes), (1160, 11_600_000));
    let (mut found, mut lengths) = (BTreeMap::new(), Vec::new());
    for pack in written.packs {
        let pack = pack.synced().unwrap();
        let file = PackFile::open(f.store.layout(), pack.id).unwrap();
        file.scan(|location, _| {
            // Its objects hash to their ids, or reading it fails.
            let block = f.store.decode(file.read_block(location)?)?;
            lengths.push(block.bytes.len());
            block.objects.iter().for_each(|(_, id, _)| *found.entry(*id).or_insert(0) += 1);
            Ok(())
        })
        .unwrap();
    }
    for (id, ..) in [first, second, third].iter().flatten() {
        assert_eq!(found[&id.object()], 1);
    }
    lengths.sort_unstable();
    assert!(lengths[1..].iter().all(|bytes| (DATA_BLOCK_BYTES..DATA_BLOCK_BYTES + 10_000).contains(bytes)), "{lengths:?}");
}

#[test]
fn of_a_run_that_is_discarded_no_pack_is_left_and_of_one_that_gives_up_none_that_is_unfinished() {
    let f = fixture();
    let files = || fs::read_dir(f.store.layout().packs()).unwrap().count();
    for discards in [true, false] {
        let sink = sink(&f.store);
        let mut batch = Batch::new(&sink).unwrap();
        put(&mut batch, &small(0..100));
        batch.finish().unwrap();
        assert_eq!(files(), 1);
        match discards {
            true => packs(sink).discard(f.store.layout()),
            false => assert!(!packs(sink).give_up()),
        }
        assert_eq!(files(), 0, "{discards}");
    }
}

#[test]
fn of_a_files_chunks_those_that_the_store_lacks_are_told_with_their_places() {
    let f = fixture();
    f.write("there", &noise(1000, 1));
    f.create();
    let run = |seed, bytes: u32, repeat| ChunkRun { id: crate::testing::blob_id(&noise(bytes as usize, seed)), bytes, repeat };
    let sink = sink(&f.store);
    let batch = Batch::new(&sink).unwrap();
    let runs = [run(2, 10, 1), run(1, 1000, 3), run(3, 20, 2), run(1, 1000, 1), run(4, 30, 1)];
    let lost = batch.lost(&runs).unwrap();
    let told: Vec<_> = lost.iter().map(|(at, run)| (*at, run.id, run.repeat)).collect();
    assert_eq!(told, [(0, runs[0].id, 1), (3010, runs[2].id, 2), (4050, runs[4].id, 1)]);
}

#[test]
fn an_object_that_no_reader_would_take_is_refused_and_the_longest_one_is_not() {
    let f = fixture();
    let sink = sink(&f.store);
    let mut batch = Batch::new(&sink).unwrap();
    let object = |bytes: usize| {
        let bytes = vec![0; bytes];
        EncodedObject { kind: ObjectKind::Chunk, id: crate::testing::blob_id(&bytes).object(), bytes, tail_bytes: 0 }
    };
    let longest = object(BLOCK_BYTES_MAX);
    let id = longest.id;
    batch.meta(longest, None).unwrap();
    let refused = batch.meta(object(BLOCK_BYTES_MAX + 1), None);
    assert!(refused.is_err_and(|e| e.to_string().contains("the list of a file's chunks")));
    batch.finish().unwrap();
    let written = packs(sink).finish().unwrap();
    let objects: Vec<_> = written.objects().collect();
    let [(key, at)] = objects[..] else { panic!("{}", objects.len()) };
    assert_eq!(key, id.key());
    let file = PackFile::open(f.store.layout(), at.pack).unwrap();
    assert_eq!(f.store.decode(file.read_block(at).unwrap()).unwrap().object(id).unwrap().len(), BLOCK_BYTES_MAX);
}
