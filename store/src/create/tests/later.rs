//! Later versions of what the store has cost what was edited, can be read however many there are, and lose nothing with what they build on.

mod kept;
mod repaired;

use super::{
    reuse::{BeforeCommit, assert_sound, delete_and_collect},
    *,
};
use crate::{
    check::{self, CheckOptions},
    delete::delete_checkpoints,
    format::{DATA_BLOCK_BYTES, DEPTH_MAX},
    gc::{self, GcOptions},
    id::ObjectId,
    pack::{ObjectKind, PackFile},
    testing::{TestStore, content_of},
};

/// Source-like text: lines that differ, and compress as text does.
pub(super) fn text(lines: usize, seed: u64) -> Vec<u8> {
    let words = ["let", "mut", "state", "walk", "folder", "entry", "self", "match", "node", "Ok(())", "blob", "size"];
    let mut out = Vec::new();
    let picks = noise(lines * 8, seed);
    for (number, line) in picks.chunks(8).enumerate() {
        let picked: Vec<&str> = line.iter().map(|byte| words[usize::from(*byte) % words.len()]).collect();
        out.extend_from_slice(format!("    {} {number} // {:x}\n", picked.join(" "), line[0]).as_bytes());
    }
    out
}

/// Replaces a few bytes in the middle, differently for each number.
pub(super) fn edit(bytes: &mut [u8], number: usize) {
    let at = bytes.len() / 3 + number * 97 % (bytes.len() / 3);
    let word = format!("edit{number:05}");
    bytes[at..at + word.len()].copy_from_slice(word.as_bytes());
}

/// The bytes of all packs.
fn packs_bytes(store: &Store) -> u64 {
    fs::read_dir(store.layout().packs()).unwrap().map(|pack| pack.unwrap().metadata().unwrap().len()).sum()
}

/// Number of blocks in a row that are decoded for a file's content.
pub(super) fn depth(f: &Fixture, path: &str, checkpoint: &Checkpoint) -> u32 {
    let node = f.store.node_at(checkpoint, path.as_bytes()).unwrap();
    let Kind::File { blob, .. } = node.kind else { panic!() };
    f.store.object_block(ObjectKind::Chunk, blob.object()).unwrap().depth
}

#[test]
fn two_hundred_small_edits_of_a_file_cost_what_was_edited() {
    let f = fixture();
    let mut source = text(800, 1);
    assert!((35_000..60_000).contains(&source.len()), "{}", source.len());
    f.write("src/main.rs", &source);
    (0..30).for_each(|i| f.write(&format!("src/other{i}.rs"), &text(100, 100 + i)));
    f.create();
    let (mut before, mut records) = (packs_bytes(&f.store), 0);
    let start = before;
    let (mut versions, mut depths) = (Vec::new(), Vec::new());
    for number in 0..200 {
        edit(&mut source, number);
        f.write("src/main.rs", &source);
        let made = f.create().checkpoint;
        records += made.sealed.len() as u64;
        depths.push(depth(&f, "src/main.rs", &made));
        versions.push((made, source.clone()));
        let now = packs_bytes(&f.store);
        assert!(now - before < 8_000, "edit {number} takes {} bytes", now - before);
        before = now;
    }
    let each = (before - start - records) / 200;
    assert!(each < 1024, "{each} bytes for each edit, beside its record");
    // The sum of the digits of the version's number, in base 4.
    let steps = |number: u32| (0..16).map(|digit| number >> (2 * digit) & 3).sum::<u32>();
    assert!((1u32..).map(steps).zip(&depths).all(|(steps, depth)| steps == *depth), "{depths:?}");
    // Another process reads them, none in the order in which they were made.
    let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    for (checkpoint, source) in versions.iter().rev() {
        assert!(content_of(&store, checkpoint).unwrap()["src/main.rs"] == *source);
    }
    // Of every second one, nothing is left but what others build on.
    let gone: Vec<_> = versions.iter().step_by(2).map(|(checkpoint, _)| checkpoint.record.id).collect();
    delete_checkpoints(&f.store, &gone, None, &()).unwrap();
    gc::run(&f.store, &GcOptions::default(), &()).unwrap();
    let now = packs_bytes(&f.store);
    assert!(now <= before, "gc has made {now} bytes of {before}");
    let store = assert_sound(f.store.path());
    for (checkpoint, source) in versions.iter().skip(1).step_by(2) {
        assert!(content_of(&store, checkpoint).unwrap()["src/main.rs"] == *source);
    }
}

#[test]
fn of_a_large_file_the_changed_chunks_build_on_those_that_stood_there() {
    let f = fixture();
    let mut large = noise(3_000_000, 3);
    f.write("data.bin", &large);
    f.create();
    let before = packs_bytes(&f.store);
    // In the middle, at the beginning, with bytes inserted, and at the end.
    edit(&mut large, 1);
    large[5..9].copy_from_slice(b"edit");
    large.splice(1_000_000..1_000_000, *b"inserted");
    large.extend_from_slice(b"appended");
    f.write("data.bin", &large);
    let made = f.create().checkpoint;
    let grown = packs_bytes(&f.store) - before;
    assert!(grown < 12_000, "{grown} bytes of incompressible data for a few changed ones");
    assert!(content_of(&f.store, &made).unwrap()["data.bin"] == large);
    assert_sound(f.store.path());
}

#[test]
fn files_that_have_grown_beyond_one_block_together_share_several() {
    let f = fixture();
    let name = |i: u64| format!("f{i:02}.rs");
    (0..20).for_each(|i| f.write(&name(i), &text(400, i)));
    f.create();
    (0..20).for_each(|i| f.write(&name(i), &[text(400, i), text(500, 100 + i)].concat()));
    let made = f.create().checkpoint;
    f.assert_exact(&made);
    let mut blocks = BTreeMap::new();
    for i in 0..20 {
        let Kind::File { blob, size, .. } = f.store.node_at(&made, name(i).as_bytes()).unwrap().kind else { panic!() };
        assert_eq!(depth(&f, &name(i), &made), 1, "{i}");
        *blocks.entry(f.store.locate(ObjectKind::Chunk, blob.object()).unwrap()).or_insert(0) += size;
    }
    // Whoever reads one of them decodes few others.
    assert!((2..=6).contains(&blocks.len()) && blocks.values().all(|bytes| *bytes <= DATA_BLOCK_BYTES as u64), "{blocks:?}");
}

#[test]
fn a_big_folder_s_trees_build_on_those_that_it_had() {
    let f = fixture();
    (0..3000).for_each(|i| f.write(&format!("many/file{i:05}"), format!("content {i}").as_bytes()));
    f.create();
    let before = packs_bytes(&f.store);
    for i in [7, 1500, 2999] {
        f.write(&format!("many/file{i:05}"), format!("another content {i}").as_bytes());
    }
    f.write("many/new", b"a new file");
    let made = f.create().checkpoint;
    let grown = packs_bytes(&f.store) - before - made.sealed.len() as u64;
    assert!(grown < 4_000, "{grown} bytes for four files among 3,000");
    f.assert_exact(&made);
}

#[test]
fn what_has_nothing_in_common_with_what_it_was_builds_on_nothing() {
    let f = fixture();
    f.write("f", &noise(40_000, 1));
    f.create();
    f.write("f", &noise(40_000, 2));
    let made = f.create().checkpoint;
    assert_eq!(depth(&f, "f", &made), 0);
    f.assert_exact(&made);
}

/// The pack with the block of a file's content, and where in it the block's payload begins.
fn content_place(f: &Fixture, path: &str, checkpoint: &Checkpoint) -> (PathBuf, u64, Vec<ObjectId>) {
    let node = f.store.node_at(checkpoint, path.as_bytes()).unwrap();
    let Kind::File { blob, .. } = node.kind else { panic!() };
    let at = f.store.locate(ObjectKind::Chunk, blob.object()).unwrap();
    let pack = f.store.layout().pack(at.pack);
    let directory = PackFile::open(f.store.layout(), at.pack).unwrap().read_directory(at.offset).unwrap();
    (pack, at.offset + directory.directory_end as u64, directory.bases)
}

#[test]
fn what_would_come_behind_the_longest_chain_builds_on_the_first_version() {
    for blocks in [DEPTH_MAX - 1, DEPTH_MAX] {
        let test = TestStore::new();
        let mut source = text(300, 4);
        let forged = test.forge(|sink| {
            sink.chunk(&source);
            // Numbers as no chain has them: the next version would build on the last one.
            let mut blob = crate::testing::blob_id(&source);
            for number in 0..blocks {
                let base = source.clone();
                edit(&mut source, number as usize);
                blob = sink.chunk_on(&source, &base, 2 * number);
            }
            let kind = Kind::File { size: source.len() as u64, blob, holes: Vec::new() };
            sink.nodes(&[Node { name: b"f.rs".to_vec(), meta: crate::testing::meta(), links: 1, kind }])
        });
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("work");
        // The stat cache that it leaves says what stood in the file's place.
        let plan = restore::plan(&test.store, &forged, &restore::Options::new(&workspace), &()).unwrap();
        restore::execute(&test.store, &forged, plan, &()).unwrap();
        edit(&mut source, 99);
        fs::write(workspace.join("f.rs"), &source).unwrap();
        let options = Options { workspace, session: "forged".into(), ..Options::default() };
        let made = run(&test.store, &options, &()).unwrap().checkpoint;
        let blob = crate::testing::blob_id(&source);
        let depth = test.store.object_block(ObjectKind::Chunk, blob.object()).unwrap().depth;
        assert_eq!(depth, if blocks < DEPTH_MAX { DEPTH_MAX } else { 1 });
        assert!(content_of(&test.store, &made).unwrap()["f.rs"] == source);
    }
}

/// Eight versions of a file, of which the last three build on the fifth.
fn eight_versions(f: &Fixture) -> Vec<(Checkpoint, Vec<u8>)> {
    let mut source = text(300, 4);
    f.write("beside.rs", &text(50, 50));
    let versions = (0..8).map(|number| {
        edit(&mut source, number);
        f.write("f.rs", &source);
        (f.create().checkpoint, source.clone())
    });
    versions.collect()
}

#[test]
fn damage_in_what_others_build_on_is_named_for_all_of_them_and_healed_from_elsewhere() {
    let f = fixture();
    let versions = eight_versions(&f);
    assert_eq!(depth(&f, "f.rs", &versions[7].0), 4);
    let copy = f._dir.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("f.rs"), &versions[7].1).unwrap();
    let other = f._dir.path().join("other");
    let copied = std::process::Command::new("cp").arg("-a").arg(f.store.path()).arg(&other).status().unwrap();
    assert!(copied.success());
    // The fifth version, on which three others build.
    let (pack, payload, bases) = content_place(&f, "f.rs", &versions[4].0);
    assert_eq!(bases.len(), 1);
    let mut bytes = fs::read(&pack).unwrap();
    bytes[payload as usize] ^= 0xff;
    fs::write(&pack, &bytes).unwrap();
    let report = check::run(f.store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
    let touched: Vec<_> = report.findings.iter().flat_map(|found| &found.touches).map(|touched| touched.checkpoint).collect();
    for (number, (checkpoint, _)) in versions.iter().enumerate() {
        assert_eq!(touched.contains(&checkpoint.record.id), number > 3, "version {number}: {:?}", report.findings);
    }
    let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    let error = content_of(&store, &versions[7].0).unwrap_err().to_string();
    let times = |words: &str| error.matches(words).count();
    assert_eq!((times("builds on the object"), times("which cannot be read"), times("run a check")), (1, 1, 1), "{error}");
    assert!(content_of(&store, &versions[0].0).unwrap()["f.rs"] == versions[0].1);
    // A create builds on nothing that cannot be read.
    let mut last = versions[7].1.clone();
    edit(&mut last, 77);
    f.write("f.rs", &last);
    let made = run(&store, &f.options(), &()).unwrap().checkpoint;
    assert!(content_of(&store, &made).unwrap()["f.rs"] == last);
    // A folder that still has the last version heals that one; another store heals all.
    let plan = check::plan_repair(f.store.layout(), &[copy], &()).unwrap();
    assert_eq!(plan.lost.len(), 3, "{:?}", plan.lost);
    let plan = check::plan_repair(f.store.layout(), &[other], &()).unwrap();
    assert!(plan.lost.is_empty() && plan.recovered_objects >= 4, "{plan:?}");
    check::repair(f.store.layout(), &plan, std::time::Duration::from_secs(60), &()).unwrap();
    let healed = assert_sound(f.store.path());
    for (checkpoint, source) in versions.iter().chain([&(made, last)]) {
        assert!(content_of(&healed, checkpoint).unwrap()["f.rs"] == *source);
    }
}

#[test]
fn a_file_with_holes_and_one_without_have_one_recipe() {
    let f = fixture();
    for name in ["sparse", "dense"] {
        let mut bytes = noise(700_000, 1);
        bytes[100_000..650_000].fill(0);
        f.write(name, &bytes);
    }
    let sparse = File::options().write(true).open(f.workspace.join("sparse")).unwrap();
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&sparse, flags, 102_400, 544_768).unwrap();
    let made = f.create().checkpoint;
    let tree = f.tree(&made);
    let (a, b) = (&tree[b"sparse".as_slice()], &tree[b"dense".as_slice()]);
    assert!(matches!(&a.0.kind, Kind::File { holes, .. } if !holes.is_empty()));
    assert!(a.1 == b.1);
    // Captured alone, each is cut as both are.
    let alone = |name: &str| {
        let g = fixture();
        fs::copy(f.workspace.join(name), g.workspace.join(name)).unwrap();
        let made = g.create().checkpoint;
        let Kind::File { blob, size, .. } = g.store.node_at(&made, name.as_bytes()).unwrap().kind else { panic!() };
        (blob, g.store.blob(blob, size).unwrap().runs().to_vec())
    };
    assert_eq!(alone("sparse"), alone("dense"));
}

#[test]
fn the_bases_of_many_small_versions_are_not_all_held_at_once() {
    // Small versions of large files: bases have a hundred times the bytes of what builds on them.
    let f = fixture();
    let content = |i: u64, bytes: usize| noise(bytes, i);
    (0..1500).for_each(|i| f.write(&format!("d{}/f{i}", i % 20), &content(i, 60_000)));
    f.create();
    (0..1500).for_each(|i| f.write(&format!("d{}/f{i}", i % 20), &[content(i, 200), i.to_le_bytes().to_vec()].concat()));
    let made = f.create().checkpoint;
    f.assert_exact(&made);
    assert_sound(f.store.path());
}
