//! Reading: from many threads, from damaged stores, and beside everything that changes a store.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use common::*;
use parhelia_store::{
    delete::delete_checkpoints,
    gc::{self, GcOptions},
    pack::ObjectKind,
    tree::Kind,
};

fn grow(f: &Fixture, seed: u64) {
    for i in 0..400u64 {
        f.write(&format!("d{}/f{i}", i % 11), &text(50 + (i as usize * 997) % 20_000, seed * 1000 + i));
    }
    f.write("big text", &text(9_000_000, seed + 1));
    f.write("big noise", &noise(6_000_000, seed + 2));
    let sparse = File::create(f.workspace.join("sparse")).unwrap();
    sparse.set_len(20 << 20).unwrap();
    for i in 0..20u64 {
        sparse.write_all_at(&noise(5000, i + seed), i * 1_000_003).unwrap();
    }
}

fn files(f: &Fixture) -> Vec<PathBuf> {
    run(&f.workspace, "find . -type f -printf '%P\\n'").lines().map(PathBuf::from).collect()
}

/// Reads at random places of random files, and compares with the source.
fn read_at_random(f: &Fixture, files: &[PathBuf], seed: u64, rounds: usize) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (mut expected, mut found) = (vec![0; 300_000], vec![0; 300_000]);
    for _ in 0..rounds {
        let path = match random(3) {
            0 => &files[random(files.len() as u64) as usize],
            _ => files.iter().filter(|p| p.components().count() == 1).nth(random(3) as usize).unwrap(),
        };
        let source = File::open(f.workspace.join(path)).unwrap();
        let shown = File::open(f.mountpoint.join(path)).unwrap();
        let size = source.metadata().unwrap().len();
        let offset = random(size + 2);
        let most = if random(4) == 0 { 300_000 } else { 5000 };
        let bytes = 1 + random(most) as usize;
        let n = source.read_at(&mut expected[..bytes], offset).unwrap();
        let mut filled = 0;
        while filled < n {
            let got = shown.read_at(&mut found[filled..n], offset + filled as u64).unwrap();
            assert!(got > 0, "{path:?} at {offset}");
            filled += got;
        }
        assert!(expected[..n] == found[..n], "{path:?}, {bytes} bytes at {offset}");
    }
}

#[test]
fn eight_threads_read_at_random() {
    let f = Fixture::new();
    grow(&f, 1);
    let checkpoint = f.create("s");
    let _mounted = f.mount_tree(&checkpoint);
    let files = files(&f);
    thread::scope(|scope| {
        for seed in 1..=8 {
            let (f, files) = (&f, &files);
            scope.spawn(move || read_at_random(f, files, seed, 600));
        }
    });
    assert_same(&f.workspace, &f.mountpoint);
}

#[test]
fn damage_is_an_error_where_it_is_and_nowhere_else() {
    let f = Fixture::without_parity();
    grow(&f, 5);
    let checkpoint = f.create("s");
    let store = f.store();
    let node = store.node_at(&checkpoint, b"d3/f3").unwrap();
    let Kind::File { blob, .. } = node.kind else { panic!() };
    let location = store.locate(ObjectKind::Chunk, blob.object()).unwrap();
    let path = store.layout().pack(location.pack);
    let pack = File::options().read(true).write(true).open(&path).unwrap();
    let at = location.offset + u64::from(location.block_bytes) - 100;
    let mut byte = [0];
    pack.read_exact_at(&mut byte, at).unwrap();
    pack.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let _mounted = f.mount_tree(&checkpoint);
    let failed = fs::read(f.mountpoint.join("d3/f3")).unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    let logged = f.log.lock().unwrap().join("\n");
    assert!(logged.contains("d3/f3") && logged.contains(&location.pack.to_string()) && logged.contains("block"), "{logged}");
    assert!(logged.contains(&format!("chunk {blob}")), "{logged}");
    let (mut good, mut bad) = (0, 0);
    for path in files(&f) {
        match fs::read(f.mountpoint.join(&path)) {
            Ok(bytes) => {
                assert!(bytes == fs::read(f.workspace.join(&path)).unwrap(), "{path:?}");
                good += 1;
            }
            Err(_) => bad += 1,
        }
    }
    // One block of up to 256 KiB is lost, of 19 MB.
    assert!(bad >= 1 && good > 300, "{good} good, {bad} bad");
    // The same once more is not logged again.
    let lines = f.log.lock().unwrap().len();
    fs::read(f.mountpoint.join("d3/f3")).unwrap_err();
    assert_eq!(f.log.lock().unwrap().len(), lines);
}

#[test]
fn a_long_file_with_one_bad_block_is_readable_around_it() {
    let f = Fixture::without_parity();
    f.write("big", &noise(8_000_000, 7));
    let checkpoint = f.create("s");
    let store = f.store();
    let Kind::File { blob, size, .. } = store.node_at(&checkpoint, b"big").unwrap().kind else { panic!() };
    let map = store.chunk_map(blob, size).unwrap();
    let chunk = map.runs()[map.runs().len() / 2].id;
    let location = store.locate(ObjectKind::Chunk, chunk.object()).unwrap();
    let pack = File::options().write(true).open(store.layout().pack(location.pack)).unwrap();
    pack.write_all_at(&[0xee; 16], location.offset + u64::from(location.block_bytes) / 2).unwrap();
    let _mounted = f.mount_tree(&checkpoint);
    let (shown, source) = (File::open(f.mountpoint.join("big")).unwrap(), fs::read(f.workspace.join("big")).unwrap());
    let (mut page, mut bad) = ([0; 4096], 0);
    for offset in (0..size).step_by(4096) {
        match shown.read_at(&mut page, offset) {
            Ok(n) => assert!(page[..n] == source[offset as usize..][..n], "at {offset}"),
            Err(_) => bad += 1,
        }
    }
    // One block is bad; the kernel gives up the whole of what it asked for at once, a MiB at most for each reader's window.
    assert!((1..600).contains(&bad), "{bad} of {} pages are bad", size / 4096);
}

#[test]
fn a_mounted_checkpoint_outlives_its_deletion_and_gc() {
    let f = Fixture::new();
    grow(&f, 3);
    let checkpoint = f.create("s");
    let kept = f.folder("kept");
    run(&f.workspace, &format!("cp -a . '{}'", kept.display()));
    let mut mounted = f.mount_tree(&checkpoint);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..6 {
                let store = f.store();
                let churn = f.folder("churn");
                fs::write(churn.join("file"), text(400_000, 100 + round)).unwrap();
                let options = parhelia_store::create::Options { workspace: churn, session: "c".into(), ..Default::default() };
                let made = parhelia_store::create::run(&store, &options, &()).unwrap().checkpoint;
                let gone = if round == 0 { checkpoint.record.id } else { made.record.id };
                delete_checkpoints(&store, &[gone], None, &()).unwrap();
                gc::run(&store, &GcOptions::default(), &()).unwrap();
            }
            is_done.store(true, Ordering::Release);
        });
        let files = files(&f);
        let mut seed = 50;
        while !is_done.load(Ordering::Acquire) {
            read_at_random(&f, &files, seed, 50);
            seed += 1;
        }
    });
    assert_same(&kept, &f.mountpoint);
    mounted.unmount().unwrap();
    drop(mounted);
    eventually("no pin is left", || parhelia_store::pin::list(&f.store().layout().pins()).unwrap().is_empty());
}

#[test]
fn two_checkpoints_are_mounted_at_once() {
    let f = Fixture::new();
    grow(&f, 1);
    let first = f.create("s");
    let kept = f.folder("kept");
    run(&f.workspace, &format!("cp -a . '{}'", kept.display()));
    f.write("d1/new", b"new");
    fs::remove_file(f.workspace.join("d2/f2")).unwrap();
    let second = f.create("s");
    let other = f.folder("mnt2");
    let _one = f.mount_tree(&first);
    let _two = parhelia_fuse::mount(f.store(), tree(&second, ""), &other, &f.options()).unwrap();
    assert_same(&kept, &f.mountpoint);
    assert_same(&f.workspace, &other);
}

#[test]
fn who_reads_file_after_file_has_the_next_ones_pushed() {
    let f = Fixture::new();
    for i in 0..1500 {
        f.write(&format!("d{}/f{i:04}", i / 300), &text(500 + i * 3, i as u64));
    }
    let checkpoint = f.create("s");
    let mounted = f.mount_tree(&checkpoint);
    run(&f.mountpoint, "find . -ls > /dev/null; cat d2/f0700");
    let alone = mounted.counts();
    // Nobody who lists, or reads one file, gets others.
    assert_eq!((alone.read, alone.pushed, alone.prefetched), (1, 0, 0));
    let mut files = files(&f);
    files.sort();
    for _ in 0..2 {
        for path in &files {
            assert!(fs::read(f.mountpoint.join(path)).unwrap() == fs::read(f.workspace.join(path)).unwrap(), "{path:?}");
        }
    }
    // Both are done behind the reader.
    eventually("as many are fetched ahead", || {
        let counts = mounted.counts();
        counts.prefetched > 1000 && counts.pushed > 100
    });
    let counts = mounted.counts();
    assert!(counts.read < files.len() as u64, "{counts}");
}
