mod beside;
mod cancelled;
mod changed;
mod chosen;
mod deep;
mod differences;
mod forged;
mod held;
mod in_place;
mod links;
mod long_paths;
mod mounted;
mod ordinary;
mod plans;
mod stays;
mod targets;
mod told;
mod unwritable;

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, MetadataExt, PermissionsExt, symlink},
        },
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{FileType, Mode, OFlags, XattrFlags};

use super::*;
use crate::sys;
use crate::{
    OpenOptions, create,
    error::Error,
    record::Rules,
    statcache::StatCache,
    testing::{self, TestStore, folder_node},
    tree::{Kind, Node, Totals},
};

fn store(root: &Path) -> Store {
    Store::open(root, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap()
}

/// Checkpoints a folder, but for what these patterns exclude.
fn capture(store: &Store, folder: &Path, exclude: &[&str]) -> Checkpoint {
    let patterns = exclude.iter().map(|pattern| (*pattern).to_owned()).collect();
    let rules = Rules { patterns, ..Rules::default() };
    let session = folder.file_name().unwrap().to_string_lossy().into_owned();
    let options = create::Options { workspace: folder.into(), session, rules, ..create::Options::default() };
    create::run(store, &options, &()).unwrap().checkpoint
}

/// All paths below a folder.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(paths(&entry.path()));
        }
    }
    found.sort();
    found
}

fn nodes(store: &Store, checkpoint: &Checkpoint) -> Vec<(String, Node)> {
    let top = store.workspace_node(checkpoint).unwrap();
    let mut nodes = vec![(String::new(), top.clone())];
    let mut visit = |path: &[u8], _: u64, node: &Node| {
        nodes.push((crate::name::display(path), node.clone()));
        Ok(true)
    };
    store.walk(top.as_folder().unwrap().0, &mut visit).unwrap();
    nodes
}

struct Place {
    dir: tempfile::TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    /// A place in memory, where a hundred thousand folders are made and removed in a second.
    fn in_memory() -> Self {
        Self::of(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn of(dir: tempfile::TempDir) -> Self {
        fs::create_dir(dir.path().join("src")).unwrap();
        Place { store: store(&dir.path().join("store")), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    fn src(&self, name: &str) -> PathBuf {
        self.path("src").join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path("src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn capture(&self) -> Checkpoint {
        capture(&self.store, &self.path("src"), &[])
    }

    fn restore(&self, checkpoint: &Checkpoint, options: &Options) -> Result<RestoreReport> {
        let plan = plan(&self.store, checkpoint, options, &())?;
        execute(&self.store, checkpoint, plan, &())
    }

    fn in_place(&self, name: &str) -> Options {
        Options { in_place: true, delete: true, ..Options::new(self.path(name)) }
    }

    /// Asserts that a folder is as the checkpoint says, links included: read anew, past the stat cache that the restore has seeded.
    fn assert_equal(&self, folder: &str, checkpoint: &Checkpoint) {
        let dir = tempfile::tempdir().unwrap();
        let other = store(&dir.path().join("store"));
        let found = capture(&other, &self.path(folder), &[]);
        assert_eq!(found.record.links, checkpoint.record.links, "hard links");
        if found.record.root != checkpoint.record.root {
            assert_eq!(nodes(&other, &found), nodes(&self.store, checkpoint));
        }
    }

    /// Asserts that every entry's cached stat is its own.
    fn assert_seeded(&self, folder: &str, checkpoint: &Checkpoint) {
        let cache = StatCache::open(self.store.layout(), &self.path(folder)).expect("a stat cache");
        assert_eq!(cache.trailer.base, checkpoint.record.id);
        assert_eq!(cache.trailer.root, checkpoint.record.root);
        let fd = OwnedFd::from(File::open(self.path(folder)).unwrap());
        let top = self.store.workspace_node(checkpoint).unwrap();
        self.assert_section(&cache, cache.trailer.root_section, &fd, &top);
    }

    fn assert_section(&self, cache: &StatCache, offset: u64, folder: &OwnedFd, node: &Node) {
        let section = cache.section(offset).expect("a section");
        let Kind::Folder { tree, .. } = node.kind else { panic!("no folder") };
        assert_eq!(section.tree, tree);
        let nodes = self.store.folder(tree).unwrap();
        assert_eq!(section.entries.iter().map(|e| &e.node).collect::<Vec<_>>(), nodes.iter().collect::<Vec<_>>());
        for entry in &section.entries {
            let stat = sys::stat_at(folder.as_fd(), &entry.node.name).unwrap();
            assert!(!entry.racy && entry.looks_like(&stat), "{} {entry:?} {stat:?}", crate::name::display(&entry.node.name));
            if entry.node.as_folder().is_some() {
                let below = sys::open_folder_at(folder.as_fd(), &entry.node.name).unwrap();
                self.assert_section(cache, entry.section, &below, &entry.node);
            }
        }
    }
}

fn age(folder: &Path) {
    for path in paths(folder).into_iter().chain([folder.to_owned()]) {
        let times = rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
            last_modification: rustix::fs::Timespec {
                tv_sec: 1_600_000_000 + path.as_os_str().len() as i64,
                tv_nsec: 123_456_789,
            },
        };
        rustix::fs::utimensat(rustix::fs::CWD, &path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

fn xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// One of everything.
fn rich(place: &Place) {
    place.write("a/small", "small");
    place.write("a/empty", "");
    place.write("a/b/c/deep", "deep");
    place.write("big", (0..900_000u32).flat_map(|i| (i / 7).to_le_bytes()).collect::<Vec<_>>());
    place.write("zeros", vec![0; 300_000]);
    for i in 0..600 {
        place.write(&format!("many/{i}"), format!("content {}", i % 500));
    }
    fs::create_dir(place.src("hollow")).unwrap();
    symlink("../nowhere", place.src("a/link")).unwrap();
    fs::write(place.path("src").join(OsStr::from_bytes(b"not \xff utf-8\n")), "x").unwrap();
    fs::write(place.src(&"n".repeat(255)), "long").unwrap();
    fs::hard_link(place.src("a/small"), place.src("a/b/joined")).unwrap();
    fs::hard_link(place.src("a/small"), place.src("z joined")).unwrap();
    let sparse = File::create(place.src("sparse")).unwrap();
    sparse.set_len(3 << 20).unwrap();
    sparse.write_all_at(&[7; 5000], 1 << 20).unwrap();
    let src = File::open(place.path("src")).unwrap();
    let make = |name: &str, kind: FileType, device| rustix::fs::mknodat(&src, name, kind, Mode::from_raw_mode(0o640), device);
    make("fifo", FileType::Fifo, 0).unwrap();
    make("socket", FileType::Socket, 0).unwrap();
    make("device", FileType::CharacterDevice, rustix::fs::makedev(1, 3)).unwrap();
    fs::set_permissions(place.src("many/1"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(place.src("many/2"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(place.src("a/b"), fs::Permissions::from_mode(0o3777)).unwrap();
    fs::set_permissions(place.src("a/b/c"), fs::Permissions::from_mode(0o555)).unwrap();
    std::os::unix::fs::lchown(place.src("many/3"), Some(1234), Some(4321)).unwrap();
    std::os::unix::fs::lchown(place.src("a/link"), Some(1234), Some(4321)).unwrap();
    xattr(&place.src("many/4"), "user.one", b"1\0\xff");
    xattr(&place.src("a"), "user.folder", b"");
    xattr(&place.src("fifo"), "trusted.fifo", b"x");
    xattr(&place.src("a/link"), "trusted.link", b"x");
    xattr(&place.path("src"), "user.top", b"top");
    age(&place.path("src"));
}

#[test]
fn everything_comes_back_and_the_stat_cache_knows_it() {
    let place = Place::new();
    rich(&place);
    let checkpoint = place.capture();
    let options = Options { verify: true, ..Options::new(place.path("new/target")) };
    let report = place.restore(&checkpoint, &options).unwrap();
    assert_eq!(report.skipped, []);
    place.assert_equal("new/target", &checkpoint);
    place.assert_seeded("new/target", &checkpoint);
    let (old, new) = (fs::metadata(place.src("sparse")).unwrap(), fs::metadata(place.path("new/target/sparse")).unwrap());
    assert!(new.blocks() <= old.blocks(), "{} > {}", new.blocks(), old.blocks());
    assert_eq!(fs::metadata(place.path("new/target/z joined")).unwrap().nlink(), 3);
    assert_eq!(fs::read_dir(place.path("new")).unwrap().count(), 1);
    assert_eq!(report.counts.files, 608);
    let again = plan(&place.store, &checkpoint, &place.in_place("new/target"), &()).unwrap();
    assert_eq!(again.summary.counts.unchanged, 614, "{:?}", again.summary);
    assert!(again.folders.iter().all(|line| line.listing.is_none()), "no tree is loaded");
    assert!(fs::read_dir(place.store.layout().pins()).unwrap().count() > 0);
    drop(again);
    assert_eq!(fs::read_dir(place.store.layout().pins()).unwrap().count(), 0);
}

#[test]
fn inherited_lists_and_groups_leave_no_trace() {
    let place = Place::new();
    place.write("dir/file", "x");
    let checkpoint = place.capture();
    // user::rwx group::rwx other::--- and user 1234:rwx with a mask, as a default list.
    let mut list = vec![2, 0, 0, 0];
    for (tag, perm, id) in [(1u16, 7u16, u32::MAX), (2, 7, 1234), (4, 7, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)] {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&perm.to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    }
    let above = place.path("above");
    fs::create_dir_all(above.join("live")).unwrap();
    for folder in [&above, &above.join("live")] {
        xattr(folder, "system.posix_acl_default", &list);
        std::os::unix::fs::chown(folder, None, Some(77)).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o2755)).unwrap();
    }
    place.restore(&checkpoint, &Options::new(above.join("new"))).unwrap();
    place.assert_equal("above/new", &checkpoint);
    place.restore(&checkpoint, &place.in_place("above/live")).unwrap();
    place.assert_equal("above/live", &checkpoint);
}

#[test]
fn the_plan_names_every_change() {
    let place = Place::new();
    place.write("a/file", "x");
    place.write("b", "x");
    let checkpoint = place.capture();
    place.write("b", "changed");
    place.write("c/d", "extra");
    fs::remove_file(place.src("a/file")).unwrap();
    let plan = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
    let mut changes = Vec::new();
    plan.each_change(&mut |change, path| changes.push((change, String::from_utf8(path.to_vec()).unwrap()))).unwrap();
    assert!(changes.contains(&(RestoreChange::Create, "a/file".into())), "{changes:?}");
    assert!(changes.contains(&(RestoreChange::Replace, "b".into())));
    assert!(changes.contains(&(RestoreChange::Delete, "c".into())));
    assert_eq!(plan.summary.counts.deleted, 2);
    assert!(place.src("c/d").exists());
}
