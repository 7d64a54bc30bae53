//! Micro-benchmarks of the store's inner work: `cargo bench -p parhelia-benches`.

use std::{fs, hint::black_box, path::PathBuf};

use divan::{Bencher, counter::BytesCount};
use parhelia_store::{
    OpenOptions, Store,
    create::{self, Options},
    diff::{DiffOptions, Side, compare},
    id::TreeId,
    keys::{Ids, Seal},
    pack::{BlockBuilder, Directory, ObjectKind},
    recipe::{self, ChunkRun},
    tree::{self, Kind, Meta, Node},
};

fn main() {
    divan::main();
}

fn ids() -> Ids {
    Ids::default()
}

/// Text-like bytes that follow from a seed.
fn text(bytes: usize, seed: u64) -> Vec<u8> {
    let words = ["let ", "mut ", "self", ".value", "(", ")", ";\n", "    ", "fn ", "return ", "checkpoint", " = "];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(bytes + 16);
    while out.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.extend_from_slice(words[(state >> 33) as usize % words.len()].as_bytes());
    }
    out.truncate(bytes);
    out
}

#[divan::bench]
fn chunking(bencher: Bencher<'_, '_>) {
    let bytes = text(8 << 20, 1);
    let cut = || fastcdc::v2020::FastCDC::new(&bytes, 16 << 10, 64 << 10, 256 << 10).count();
    bencher.counter(BytesCount::new(bytes.len())).bench(cut);
}

#[divan::bench(args = [4 << 10, 64 << 10, 1 << 20])]
fn hashing(bencher: Bencher<'_, '_>, bytes: usize) {
    let bytes = text(bytes, 2);
    bencher.counter(BytesCount::new(bytes.len())).bench(|| Ids::default().blob(black_box(&bytes)));
}

fn block(files: u64) -> BlockBuilder {
    let mut builder = BlockBuilder::default();
    for i in 0..files {
        let bytes = text(4096, i);
        builder.push(ObjectKind::Chunk, ids().blob(&bytes).object(), &bytes, 0);
    }
    builder
}

#[divan::bench]
fn packing_a_block(bencher: Bencher<'_, '_>) {
    let Ok(mut compressor) = zstd::bulk::Compressor::new(3) else { return };
    bencher
        .counter(BytesCount::new(128 * 4096usize))
        .with_inputs(|| block(128))
        .bench_local_values(|mut builder| builder.encode(&mut compressor, &Seal::default()).map(|(_, bytes)| bytes.len()));
}

#[divan::bench]
fn unpacking_a_block(bencher: Bencher<'_, '_>) {
    let Ok(mut compressor) = zstd::bulk::Compressor::new(3) else { return };
    let Ok((_, bytes)) = block(128).encode(&mut compressor, &Seal::default()) else { return };
    let Ok(directory) = Directory::decode(&bytes, &Seal::default()) else { return };
    let payload = &bytes[directory.directory_end..];
    let unpack = || directory.open_payload(payload, &Seal::default()).and_then(|opened| directory.unpack(&opened));
    bencher.counter(BytesCount::new(128 * 4096usize)).bench(|| unpack().map(|b| b.bytes.len()));
}

#[divan::bench(args = [100, 10_000])]
fn encoding_a_recipe(bencher: Bencher<'_, '_>, chunks: u32) {
    let run = |i: u32| ChunkRun { id: ids().blob(&i.to_le_bytes()), bytes: 65_536, repeat: 1 };
    let runs: Vec<ChunkRun> = (0..chunks).map(run).collect();
    bencher.bench(|| recipe::encode(&ids(), ids().blob(b"blob"), &runs).len());
}

#[divan::bench(args = [20, 5_000])]
fn encoding_a_folder(bencher: Bencher<'_, '_>, entries: u32) {
    let node = |i: u32| Node {
        name: format!("file-{i:06}.rs").into_bytes(),
        meta: Meta { mode: 0o644, ..Meta::default() },
        links: 1,
        kind: Kind::File { size: 1000, blob: ids().blob(&i.to_le_bytes()), holes: Vec::new() },
    };
    let entries: Vec<Node> = (0..entries).map(node).collect();
    let drop_it = |_| Ok::<_, std::convert::Infallible>(());
    bencher.bench(|| tree::encode_folder(&ids(), &entries, drop_it).map_or(TreeId([0; 32]), |(id, _)| id));
}

/// A store with two checkpoints of 20,000 small files, ten of which differ.
fn two_checkpoints(folder: &std::path::Path) -> Result<Store, Box<dyn std::error::Error>> {
    let store = parhelia_ledger::open(&folder.join("store"), &OpenOptions { create: true, ..OpenOptions::default() })?;
    let path = |i: u32| -> PathBuf { folder.join(format!("work/d{}/e{}/f{i}", i % 100, i % 7)) };
    for i in 0..20_000 {
        let path = path(i);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, i.to_le_bytes())?;
    }
    let options = Options { workspace: folder.join("work"), session: "bench".into(), ..Options::default() };
    create::run(&store, &options, &())?;
    for i in 0..10 {
        fs::write(path(i * 1999), "edited")?;
    }
    create::run(&store, &options, &())?;
    store.absorb()?;
    Ok(store)
}

#[divan::bench]
fn looking_an_object_up(bencher: Bencher<'_, '_>) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let Ok(store) = two_checkpoints(folder.path()) else { return };
    let view = store.view();
    let mut i = 0u32;
    bencher.bench_local(|| {
        i = (i + 1) % 20_000;
        view.locate(ids().blob(&i.to_le_bytes()).object()).map(|found| found.is_some())
    });
}

#[divan::bench]
fn comparing_two_trees(bencher: Bencher<'_, '_>) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let Ok(store) = two_checkpoints(folder.path()) else { return };
    let Ok(checkpoints) = store.checkpoints() else { return };
    let roots: Result<Vec<Node>, _> = checkpoints.iter().map(|c| store.workspace_node(c)).collect();
    let Ok(roots) = roots else { return };
    bencher
        .bench(|| compare(Side::new(&store, &roots[0]), Side::new(&store, &roots[1]), DiffOptions::default()).map(|c| c.len()));
}
