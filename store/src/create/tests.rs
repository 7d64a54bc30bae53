mod attributes;
mod base;
mod beside;
mod commits;
mod content;
mod damaged;
mod exclude;
mod import;
mod interrupted;
mod later;
mod left;
mod links;
mod lost;
mod mounted;
mod pins;
mod reopened;
mod reuse;
mod scoped;
mod sink;
mod stamps;
mod state;
mod synced;
mod unchanged;
mod unmounted;
mod walk;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{Mode, OFlags};

use super::{sink::Batch, *};
use crate::{
    OpenOptions,
    format::BLOCK_BYTES_MAX,
    id::TreeId,
    omitted::{self, OMISSIONS_FILE, Reason},
    sys,
    tree::{Kind, Node, Time, features},
};

struct Fixture {
    _dir: tempfile::TempDir,
    store: Store,
    workspace: PathBuf,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
    let workspace = dir.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    Fixture { _dir: dir, store, workspace }
}

impl Fixture {
    fn options(&self) -> Options {
        Options { workspace: self.workspace.clone(), session: "s".into(), ..Options::default() }
    }

    fn create(&self) -> Outcome {
        run(&self.store, &self.options(), &()).unwrap()
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Content of a file in a new checkpoint, and the checkpoint.
    fn captured(&self, path: &str) -> (Vec<u8>, Checkpoint) {
        let checkpoint = self.create().checkpoint;
        (self.tree(&checkpoint)[path.as_bytes()].1.clone(), checkpoint)
    }

    /// Every node by path, with the content of files.
    fn tree(&self, checkpoint: &Checkpoint) -> BTreeMap<Vec<u8>, (Node, Vec<u8>)> {
        let root = self.store.workspace_node(checkpoint).unwrap();
        let mut found = BTreeMap::new();
        self.store
            .walk(root.as_folder().unwrap().0, &mut |path, _, node| {
                let content = match &node.kind {
                    Kind::File { size, blob, .. } => self.store.blob(*blob, *size)?.read_all()?,
                    _ => Vec::new(),
                };
                found.insert(path.to_vec(), (node.clone(), content));
                Ok(true)
            })
            .unwrap();
        found
    }

    fn assert_exact(&self, checkpoint: &Checkpoint) {
        let mut expected = Vec::new();
        let mut stack = vec![self.workspace.clone()];
        while let Some(folder) = stack.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if fs::symlink_metadata(&path).unwrap().is_dir() {
                    stack.push(path.clone());
                }
                expected.push(path);
            }
        }
        let tree = self.tree(checkpoint);
        assert_eq!(tree.len(), expected.len());
        for path in expected {
            let relative = path.strip_prefix(&self.workspace).unwrap().as_os_str().as_bytes();
            let (node, content) = &tree[relative];
            let meta = fs::symlink_metadata(&path).unwrap();
            assert_eq!(node.meta.mode, meta.mode() & 0o7777, "{path:?}");
            assert_eq!(node.meta.mtime, Time { secs: meta.mtime(), nanos: meta.mtime_nsec() as u32 }, "{path:?}");
            match &node.kind {
                Kind::File { .. } => assert!(fs::read(&path).unwrap() == *content, "{path:?}"),
                Kind::Symlink { target } => assert_eq!(fs::read_link(&path).unwrap().as_os_str().as_bytes(), target),
                Kind::Folder { totals, .. } => assert_eq!(totals.subfolders + 2, meta.nlink(), "{path:?}"),
                _ => {}
            }
        }
    }
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

fn let_stamps_age() {
    // Files written just now are read again by the next run, because a change could bear the same time.
    std::thread::sleep(std::time::Duration::from_millis(40));
}

#[test]
fn every_kind_of_entry_comes_back() {
    let f = fixture();
    f.write("a/b/c.txt", b"text");
    f.write("empty", b"");
    f.write("big", &noise(3 << 20, 1));
    f.write("middle", &noise(100_000, 2));
    let odd = f.workspace.join(name::as_path(b"not\xffutf8\n"));
    fs::write(&odd, "odd").unwrap();
    fs::write(f.workspace.join("x".repeat(255)), "long").unwrap();
    std::os::unix::fs::symlink("a/b", f.workspace.join("link")).unwrap();
    fs::hard_link(f.workspace.join("big"), f.workspace.join("a/big2")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, f.workspace.join("fifo"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(f.workspace.join("socket")).unwrap();
    let sparse = File::create(f.workspace.join("sparse")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    (&sparse).seek(SeekFrom::Start(4 << 20)).unwrap();
    (&sparse).write_all(b"in the middle").unwrap();
    rustix::fs::setxattr(f.workspace.join("empty"), "user.note", b"v\0", rustix::fs::XattrFlags::empty()).unwrap();

    let outcome = f.create();
    f.assert_exact(&outcome.checkpoint);
    assert!(outcome.omissions.is_empty(), "{:?}", outcome.omissions);
    let tree = f.tree(&outcome.checkpoint);
    assert_eq!(tree[&b"empty"[..]].0.meta.xattrs, [(b"user.note".to_vec(), b"v\0".to_vec())]);
    assert!(matches!(tree[&b"fifo"[..]].0.kind, Kind::Fifo) && matches!(tree[&b"socket"[..]].0.kind, Kind::Socket));
    let Kind::File { holes, .. } = &tree[&b"sparse"[..]].0.kind else { panic!() };
    assert_eq!(holes.iter().map(|h| h.bytes).sum::<u64>(), (8 << 20) - 4096);
    assert_eq!(tree[&b"big"[..]].0.links, 2);
    let links = f.store.links(&outcome.checkpoint).unwrap();
    assert_eq!(links.groups(), [[b"big".to_vec(), b"a/big2".to_vec()]]);
    let root = f.store.workspace_node(&outcome.checkpoint).unwrap();
    let all = features::XATTR | features::HARD_LINK | features::SPARSE | features::SPECIAL;
    assert_eq!(root.as_folder().unwrap().1.features, all);
}

#[test]
fn paths_longer_than_path_max_are_captured() {
    let f = fixture();
    let mut fd = rustix::fs::open(&f.workspace, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    let part = "d".repeat(200);
    for _ in 0..30 {
        rustix::fs::mkdirat(&fd, part.as_str(), Mode::RWXU).unwrap();
        fd = rustix::fs::openat(&fd, part.as_str(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    }
    let file = rustix::fs::openat(&fd, "leaf", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
    rustix::io::write(&file, b"deep").unwrap();
    let outcome = f.create();
    let deepest = f.tree(&outcome.checkpoint).into_values().next_back().unwrap();
    assert_eq!((deepest.0.name, deepest.1), (b"leaf".to_vec(), b"deep".to_vec()));
    assert!(outcome.omissions.is_empty());
    std::process::Command::new("rm").arg("-rf").arg(&f.workspace).status().unwrap();
}

#[test]
fn a_big_folder_is_captured_and_edited() {
    let f = fixture();
    for i in 0..3000 {
        f.write(&format!("f{i:05}"), format!("{i}").as_bytes());
    }
    f.assert_exact(&f.create().checkpoint);
    let_stamps_age();
    f.create();
    f.write("f01234", b"new");
    let edited = f.create();
    f.assert_exact(&edited.checkpoint);
    assert!(edited.new_bytes < 60_000, "{}", edited.new_bytes);
}

#[test]
fn looking_stores_nothing_and_sees_the_same_tree() {
    let f = fixture();
    f.write("a/one", b"1");
    f.write("big", &noise(1 << 20, 9));
    let first = f.create();
    let (node, _, _) = look(&f.store, &f.options(), &()).unwrap();
    assert_eq!(node, f.store.workspace_node(&first.checkpoint).unwrap());
    f.write("a/one", b"other");
    let (node, looked, _) = look(&f.store, &f.options(), &()).unwrap();
    assert_ne!(node, f.store.workspace_node(&first.checkpoint).unwrap());
    assert!(looked.objects.contains_key(&node.as_folder().unwrap().0.object()));
    assert_eq!(f.store.refresh().unwrap().checkpoints().unwrap().len(), 1);
}

#[test]
fn names_that_no_session_can_have_are_refused() {
    let f = fixture();
    f.write("f", b"x");
    for bad in ["", "..", "../x", "a/b", "/a", ".hidden", "-x", "a b", "a\0", "ä", &"x".repeat(129)] {
        let options = Options { session: bad.into(), ..f.options() };
        let error = run(&f.store, &options, &()).unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains("session")), "{bad}: {error}");
    }
    assert!(f.store.checkpoints().unwrap().is_empty());
}

#[test]
fn objects_share_a_block_where_they_fit_and_what_fits_none_is_refused() {
    let f = fixture();
    let pin = Pin::take(&f.store.layout().pins(), true, "create").unwrap();
    let store_view = f.store.view();
    let table = |bytes: usize, seed| {
        let bytes = noise(bytes, seed);
        let id = f.store.ids().table(&bytes);
        crate::recipe::EncodedObject { kind: crate::pack::ObjectKind::Table, id, bytes, tail_bytes: 0 }
    };
    let sink = Sink::Store(Box::new(PackSink::new(&f.store, store_view, pin.op, Default::default())));
    let mut batch = Batch::new(&sink).unwrap();
    batch.meta(table(1000, 1), None).unwrap();
    batch.meta(table(BLOCK_BYTES_MAX, 2), None).unwrap();
    let error = batch.meta(table(BLOCK_BYTES_MAX + 1, 3), None).unwrap_err().to_string();
    assert!(error.contains("left out") && error.contains("16777217 bytes") && error.contains("exclude"), "{error}");
    // What the workers of a walk have left over, however many they are.
    for seed in 4..30 {
        let mut other = Batch::new(&sink).unwrap();
        let chunk = noise(1_000_000, seed);
        other.large_chunk(crate::testing::blob_id(&chunk).object(), &chunk, None).unwrap();
        batch.join(other).unwrap();
    }
    batch.finish().unwrap();
    let Sink::Store(packs) = sink else { panic!() };
    let written = packs.finish().unwrap();
    let mut objects = 0;
    for pack in written.packs {
        let id = pack.synced().unwrap().id;
        let file = crate::pack::PackFile::open(f.store.layout(), id).unwrap();
        file.scan_blocks(true, |location, directory| {
            objects += directory.entries.len();
            file.read_block(location).map(drop)
        })
        .unwrap();
    }
    assert_eq!(objects, 28);
}

#[test]
fn a_checkpoint_is_made_and_restored_without_another_thread() {
    let f = fixture();
    (0..300).for_each(|i| f.write(&format!("d{}/f{i}", i % 7), &noise(2000 + i, i as u64)));
    f.write("large", &noise(40 << 20, 5));
    let options = Options { threads: 4, ..f.options() };
    crate::threads::tests::alone(|| {
        let checkpoint = run(&f.store, &options, &()).unwrap().checkpoint;
        f.assert_exact(&checkpoint);
        let report =
            crate::check::run(f.store.layout(), &crate::check::CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        let restored = crate::restore::Options::new(f.workspace.with_file_name("restored"));
        let plan = crate::restore::plan(&f.store, &checkpoint, &restored, &()).unwrap();
        crate::restore::execute(&f.store, &checkpoint, plan, &()).unwrap();
        assert_eq!(fs::read(f.workspace.with_file_name("restored").join("large")).unwrap(), noise(40 << 20, 5));
        f.store.absorb().unwrap();
        assert_eq!(f.store.refresh().unwrap().outlines().unwrap().len(), 1);
    });
}
