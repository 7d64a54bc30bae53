mod base;
mod belonging;
mod beside;
mod commits;
mod content;
mod damaged;
mod exclude;
mod import;
mod later;
mod left;
mod links;
mod lost;
mod mounted;
mod pins;
mod reuse;
mod scoped;
mod sink;
mod stamps;
mod state;
mod synced;
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

use super::*;
use crate::{
    OpenOptions,
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

    /// What a new checkpoint has of a file: its content, and the checkpoint.
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
fn an_unchanged_workspace_is_not_read_again() {
    let f = fixture();
    for i in 0..500 {
        f.write(&format!("d{}/f{i}", i % 7), format!("content {i}").as_bytes());
    }
    let first = f.create();
    assert_eq!(first.files_read, 500);
    let_stamps_age();
    f.create();
    let again = f.create();
    assert_eq!((again.files_read, again.new_bytes > 4000), (0, false));
    assert_eq!(again.checkpoint.record.root, first.checkpoint.record.root);
    f.write("d3/f3", b"edited");
    fs::remove_file(f.workspace.join("d4/f4")).unwrap();
    let edited = f.create();
    assert_eq!(edited.files_read, 1);
    f.assert_exact(&edited.checkpoint);
    assert_eq!(edited.checkpoint.record.parent, Some(again.checkpoint.record.id));
    assert_eq!(edited.checkpoint.record.depth, 4);
}

#[test]
fn a_change_that_puts_the_mtime_back_is_seen() {
    let f = fixture();
    f.write("f", b"one");
    f.create();
    let_stamps_age();
    f.create();
    let mtime = fs::metadata(f.workspace.join("f")).unwrap().modified().unwrap();
    f.write("f", b"two");
    File::options().write(true).open(f.workspace.join("f")).unwrap().set_modified(mtime).unwrap();
    let outcome = f.create();
    assert_eq!(f.tree(&outcome.checkpoint)[&b"f"[..]].1, b"two");
}

#[test]
fn skip_if_unchanged_commits_nothing() {
    let f = fixture();
    f.write("f", b"one");
    let first = f.create();
    let options = Options { skip_if_unchanged: true, ..f.options() };
    let skipped = run(&f.store, &options, &()).unwrap();
    assert!(skipped.skipped);
    assert_eq!(skipped.checkpoint.record.id, first.checkpoint.record.id);
    f.write("g", b"two");
    assert!(!run(&f.store, &options, &()).unwrap().skipped);
    assert_eq!(f.store.refresh().unwrap().checkpoints().unwrap().len(), 2);
}

#[test]
fn an_append_stores_the_new_bytes_alone() {
    let f = fixture();
    f.write("log", &noise(5 << 20, 3));
    f.create();
    let mut file = File::options().append(true).open(f.workspace.join("log")).unwrap();
    file.write_all(&noise(200_000, 4)).unwrap();
    let outcome = f.create();
    // The last chunk is cut anew, and builds on what it was.
    assert!(outcome.stored_bytes < 215_000, "{}", outcome.stored_bytes);
    f.assert_exact(&outcome.checkpoint);
}

#[test]
fn an_insertion_stores_little() {
    let f = fixture();
    let mut bytes = noise(5 << 20, 5);
    f.write("blob", &bytes);
    f.create();
    bytes.splice(1_000_000..1_000_000, *b"inserted");
    f.write("blob", &bytes);
    let outcome = f.create();
    assert!(outcome.new_bytes < 800_000, "{}", outcome.new_bytes);
    f.assert_exact(&outcome.checkpoint);
}

#[test]
fn what_can_be_made_again_is_left_out_by_proof_alone() {
    let f = fixture();
    for path in [
        "rust/Cargo.toml",
        "rust/target/debug/x",
        "plain/target/keep",
        "js/package.json",
        "js/node_modules/m/i.js",
        "bare/node_modules/keep",
        "py/.venv/pyvenv.cfg",
        "py/.venv/lib/x",
        "other/.venv/keep",
        "py/__pycache__/x.pyc",
        "fake/CACHEDIR.TAG",
    ] {
        f.write(path, b"x");
    }
    f.write("cache/CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55\n");
    f.write("cache/data", b"x");
    let rules = Rules { defaults: true, patterns: vec!["*.log".into(), "!keep.log".into()], ..Rules::default() };
    f.write("a.log", b"x");
    f.write("keep.log", b"x");
    let outcome = run(&f.store, &Options { rules: rules.clone(), ..f.options() }, &()).unwrap();
    let left_out: Vec<String> = outcome.omissions.iter().map(|o| name::display(&o.path)).collect();
    assert_eq!(left_out, ["a.log", "cache", "js/node_modules", "py/.venv", "py/__pycache__", "rust/target"]);
    assert_eq!(f.store.omissions(&outcome.checkpoint).unwrap(), outcome.omissions);
    assert_eq!(outcome.checkpoint.record.omitted.as_ref().unwrap().excluded, 6);
    assert_eq!(outcome.checkpoint.record.rules, rules);
    let all = f.create();
    assert!(all.omissions.is_empty());
    f.assert_exact(&all.checkpoint);
}

#[test]
fn what_git_tracks_is_never_left_out() {
    let f = fixture();
    f.write("Cargo.toml", b"");
    f.write("target/tracked/a", b"x");
    f.write("target/built", b"x");
    f.write("sub/node_modules/x.js", b"x");
    f.write("sub/package.json", b"{}");
    let git = |args: &[&str]| {
        let done = std::process::Command::new("git").args(args).current_dir(&f.workspace).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "-f", "target/tracked/a"]);
    let options = Options { rules: Rules { defaults: true, ..Rules::default() }, ..f.options() };
    let outcome = run(&f.store, &options, &()).unwrap();
    let left_out: Vec<String> = outcome.omissions.iter().map(|o| name::display(&o.path)).collect();
    assert_eq!(left_out, ["sub/node_modules", "target/built"]);
    assert!(f.tree(&outcome.checkpoint).contains_key(&b"target/tracked/a"[..]));
}

#[test]
fn the_store_inside_the_workspace_is_left_out_and_the_other_way_round_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
    fs::write(dir.path().join("f"), "x").unwrap();
    let options = |workspace: &Path| Options { workspace: workspace.to_owned(), session: "s".into(), ..Options::default() };
    let outcome = run(&store, &options(dir.path()), &()).unwrap();
    assert_eq!(outcome.omissions[0].path, b"store");
    for inside in [store.path().to_owned(), store.path().join("packs")] {
        assert!(matches!(run(&store, &options(&inside), &()), Err(Error::Invalid(_))));
    }
    assert!(run(&store, &options(&dir.path().join("nowhere")), &()).unwrap_err().to_string().contains("nowhere"));
    assert!(run(&store, &options(&dir.path().join("f")), &()).is_err());
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
fn an_interrupted_run_is_taken_up() {
    struct StopAfter(AtomicU64);
    impl Progress for StopAfter {
        fn advance(&self, _: u64, bytes: u64) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
        fn is_cancelled(&self) -> bool {
            self.0.load(Ordering::Relaxed) > 150 << 20
        }
    }
    let f = fixture();
    for i in 0..60 {
        f.write(&format!("d{i}/big"), &noise(4 << 20, 100 + i));
    }
    let stopped = run(&f.store, &f.options(), &StopAfter(AtomicU64::new(0)));
    assert!(matches!(stopped, Err(Error::Cancelled)));
    assert!(f.store.refresh().unwrap().checkpoints().unwrap().is_empty());
    let outcome = f.create();
    assert!(outcome.new_bytes < 180 << 20, "{}", outcome.new_bytes);
    assert!(outcome.notices[0].contains("interrupted"));
    f.assert_exact(&outcome.checkpoint);
    assert_eq!(fs::read_dir(f.store.layout().pins()).unwrap().count(), 0);
}

#[test]
fn checkpoints_of_one_session_at_once_form_one_chain() {
    let f = fixture();
    f.write("f", b"x");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
                for _ in 0..5 {
                    run(&store, &f.options(), &()).unwrap();
                }
            });
        }
    });
    let checkpoints = {
        f.store.refresh().unwrap();
        f.store.checkpoints().unwrap()
    };
    assert_eq!(checkpoints.len(), 20);
    for (i, pair) in checkpoints.windows(2).enumerate() {
        assert_eq!(pair[1].record.parent, Some(pair[0].record.id));
        assert_eq!(pair[1].record.depth, i as u64 + 2);
    }
}

#[test]
fn a_source_makes_a_checkpoint_cost_what_it_names() {
    struct Only(&'static [u8], Vec<Vec<u8>>);
    impl Source for Only {
        fn scope(&self, folder: &[u8]) -> Scope {
            match folder {
                b"" => Scope::Names(vec![self.0.to_vec()]),
                folder if folder == self.0 => Scope::Names(self.1.clone()),
                _ => Scope::Nothing,
            }
        }
    }
    let f = fixture();
    f.write("a/one", b"1");
    f.write("b/two", b"2");
    fs::hard_link(f.workspace.join("b/two"), f.workspace.join("b/again")).unwrap();
    f.create();
    let_stamps_age();
    let full = f.create();
    f.write("a/one", b"changed");
    f.write("a/new", b"new");
    let source = Only(b"a", vec![b"one".to_vec(), b"new".to_vec()]);
    let outcome = run_with(&f.store, &f.options(), &source, &mut NoState, &()).unwrap();
    let tree = f.tree(&outcome.checkpoint);
    assert_eq!((&tree[&b"a/one"[..]].1[..], &tree[&b"a/new"[..]].1[..]), (&b"changed"[..], &b"new"[..]));
    assert_eq!(tree[&b"b/two"[..]].1, b"2");
    let walked = f.create();
    assert_eq!(walked.checkpoint.record.root, outcome.checkpoint.record.root);
    assert_eq!(walked.checkpoint.record.links, outcome.checkpoint.record.links);
    assert_ne!(full.checkpoint.record.links, None);
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
fn many_small_checkpoints_stay_quick_to_open() {
    let f = fixture();
    let [beside, asleep] = [(); 2].map(|()| Store::open(f.store.path(), &OpenOptions::default()).unwrap());
    for i in 0..192 {
        f.write("f", format!("{i}").as_bytes());
        f.create();
        if i % 10 == 0 {
            assert_eq!(beside.refresh().unwrap().checkpoints().unwrap().len(), i + 1);
            assert!(beside.view().tail_records() < 130, "{}", beside.view().tail_records());
        }
    }
    // Whoever has been there from the beginning, or has slept since, reads no more than who comes now.
    for store in [&beside, &asleep] {
        let view = store.refresh().unwrap();
        assert_eq!(view.checkpoints().unwrap().len(), 192);
        assert!(view.tail_records() < 130, "{}", view.tail_records());
    }
    let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    assert_eq!(store.checkpoints().unwrap().len(), 192);
    assert!(store.view().tail_records() < 70, "{}", store.view().tail_records());
    let last = store.checkpoints().unwrap().pop().unwrap();
    assert_eq!(f.tree(&last)[&b"f"[..]].1, b"191");
    let stored: u64 = fs::read_dir(store.layout().packs()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(stored / 192 < 2500, "{}", stored / 192);
}

#[test]
fn what_a_dead_run_has_committed_is_not_taken_up_by_one_that_began_before() {
    let f = fixture();
    f.write("f", &noise(5000, 1));
    let earlier = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    let outcome = f.create();
    let pack = *f.store.refresh().unwrap().packs().unwrap().keys().next().unwrap();
    // It died between its commit and the removal of its pin.
    fs::write(f.store.layout().pins().join(format!("{}.pin", pack.op())), "").unwrap();
    let pin = Pin::take(&earlier.layout().pins(), true, "test").unwrap();
    let adopted = orphans::adopt(&earlier, pin.op, &()).unwrap();
    assert!(adopted.packs.is_empty(), "{:?}", adopted.packs);
    f.assert_exact(&outcome.checkpoint);
    assert_eq!(crate::pin::list(&f.store.layout().pins()).unwrap().len(), 1, "the dead pin stays");
}

#[test]
fn a_lost_index_loses_nothing() {
    let f = fixture();
    for i in 0..3000 {
        f.write(&format!("d{}/f{i}", i % 10), format!("content {i}").as_bytes());
    }
    let outcome = f.create();
    f.store.absorb().unwrap();
    fs::remove_dir_all(f.store.layout().view()).unwrap();
    fs::create_dir(f.store.layout().view()).unwrap();
    let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    assert_eq!(store.checkpoints().unwrap(), [outcome.checkpoint]);
    store.absorb().unwrap();
    let g = Fixture { store, ..f };
    g.assert_exact(&g.store.checkpoints().unwrap()[0]);
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
fn a_panic_in_a_worker_ends_the_run() {
    struct Panics(std::sync::atomic::AtomicBool);
    impl Progress for Panics {
        fn phase(&self, phase: Phase, _: Option<u64>, _: Option<u64>) {
            self.0.fetch_or(phase == Phase::Capture, Ordering::Relaxed);
        }
        fn is_cancelled(&self) -> bool {
            assert!(!self.0.load(Ordering::Relaxed), "on purpose");
            false
        }
    }
    let f = fixture();
    f.write("d/f", b"x");
    let here = Panics(false.into());
    let options = Options { threads: 4, ..f.options() };
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&f.store, &options, &here)));
    assert!(made.is_err());
    f.assert_exact(&f.create().checkpoint);
}

#[test]
fn more_is_left_out_than_a_table_holds() {
    let f = fixture();
    let mut fd = rustix::fs::open(&f.workspace, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    let part = "d".repeat(250);
    let deep = [part.as_str(); 13].join("/");
    for _ in 0..13 {
        rustix::fs::mkdirat(&fd, part.as_str(), Mode::RWXU).unwrap();
        fd = rustix::fs::openat(&fd, part.as_str(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    }
    for i in 0..5200 {
        let name = format!("{i}.log");
        rustix::fs::openat(&fd, name.as_str(), OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
    }
    f.write("kept", b"x");
    let options = Options { rules: Rules { patterns: vec!["*.log".into()], ..Rules::default() }, ..f.options() };
    for round in 0..2u8 {
        f.write("kept", &[round]);
        let outcome = run(&f.store, &options, &()).unwrap();
        let checkpoint = &outcome.checkpoint;
        assert_eq!(outcome.omissions.len(), 5200);
        assert_eq!(f.store.omissions(checkpoint).unwrap(), outcome.omissions);
        assert_eq!(checkpoint.record.omitted.as_ref().map(|omitted| (omitted.excluded, omitted.in_state)), Some((5200, true)));
        let report = crate::check::verify(&f.store, checkpoint, true, &()).unwrap();
        assert!(report.is_ok(), "{report:?}");
        crate::gc::run(&f.store, &Default::default(), &()).unwrap();
    }
    let checked = crate::check::run(f.store.layout(), &Default::default(), &()).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);

    let last = f.store.checkpoints().unwrap().pop().unwrap();
    rustix::fs::openat(&fd, "extra", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
    for subpath in ["", &deep] {
        let target = f.workspace.join(subpath);
        let restored = crate::restore::Options { in_place: true, delete: true, ..crate::restore::Options::new(target) };
        let restored = crate::restore::Options { subpath: subpath.into(), ..restored };
        let plan = crate::restore::plan(&f.store, &last, &restored, &()).unwrap();
        crate::restore::execute(&f.store, &last, plan, &()).unwrap();
        assert_eq!(sys::names(fd.as_fd()).unwrap().len(), 5200);
    }

    // Whoever knows of tables alone takes more than that for left out.
    let table = last.record.omitted.as_ref().unwrap().table;
    let spared = f.store.read_object(crate::pack::ObjectKind::Table, table, omitted::decode).unwrap();
    assert_eq!(spared.iter().map(|omission| omission.path.as_slice()).collect::<Vec<_>>(), [deep.as_bytes()]);
}

#[test]
fn objects_share_a_block_where_they_fit_and_what_fits_none_is_refused() {
    let f = fixture();
    let pin = Pin::take(&f.store.layout().pins(), true, "create").unwrap();
    let store_view = f.store.view();
    let table = |bytes: usize, seed| {
        let bytes = noise(bytes, seed);
        let id = f.store.ids().table(&bytes);
        crate::recipe::Encoded { kind: crate::pack::ObjectKind::Table, id, bytes, tail_bytes: 0 }
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
fn a_long_hole_can_be_interrupted() {
    struct Soon(std::time::Instant);
    impl Progress for Soon {
        fn is_cancelled(&self) -> bool {
            self.0.elapsed() > std::time::Duration::from_millis(300)
        }
    }
    let f = fixture();
    f.write("sparse", b"x");
    File::options().write(true).open(f.workspace.join("sparse")).unwrap().set_len(256 << 30).unwrap();
    let begun = Soon(std::time::Instant::now());
    assert!(matches!(run(&f.store, &f.options(), &begun), Err(Error::Cancelled)));
    assert!(begun.0.elapsed().as_secs() < 20, "{:?}", begun.0.elapsed());
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

/// Tells what it was noticed.
#[derive(Default)]
struct Notices(std::sync::Mutex<Vec<String>>);

impl Progress for Notices {
    fn notice(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

#[test]
fn damage_in_the_last_checkpoint_stops_no_other() {
    let f = fixture();
    f.write("a/b", &noise(3000, 1));
    f.write("py/__pycache__/x.pyc", b"left out");
    let options = Options { rules: Rules { defaults: true, ..Rules::default() }, skip_if_unchanged: true, ..f.options() };
    let create = || {
        let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
        let notices = Notices::default();
        let outcome = run(&store, &options, &notices).unwrap();
        (outcome, notices.0.into_inner().unwrap())
    };
    let damage = |kind, id| {
        let at = f.store.refresh().and_then(|_| f.store.locate(kind, id)).unwrap();
        let path = f.store.layout().pack(at.pack);
        let mut bytes = fs::read(&path).unwrap();
        let end = (at.offset + u64::from(at.block_bytes)) as usize;
        bytes[at.offset as usize + 8..end].fill(0);
        fs::write(&path, bytes).unwrap();
    };
    let record = create().0.checkpoint.record;
    damage(crate::pack::ObjectKind::Table, record.omitted.unwrap().table);
    let (outcome, notices) = create();
    assert!(!outcome.skipped && outcome.files_read > 0 && notices.iter().any(|text| text.contains("is damaged")), "{notices:?}");
}
