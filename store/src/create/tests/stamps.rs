//! Changes that leave the stamps that a file had.
#![allow(unsafe_code)]

use std::{sync::mpsc, thread};

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

use super::*;
use crate::{statcache::StatCache, tree::Kind};

/// A shared writable mapping of a page of a file, without the file being open otherwise.
pub(super) struct Mapping(*mut std::ffi::c_void);

impl Mapping {
    /// Of its first page.
    pub fn of(path: &Path) -> Self {
        Self::at(path, 0)
    }

    /// Of the page at an offset.
    pub fn at(path: &Path, offset: u64) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        // SAFETY: the kernel chooses the place; nobody else knows it.
        let start = unsafe {
            mmap(std::ptr::null_mut(), 4096, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, offset).unwrap()
        };
        Mapping(start)
    }

    pub fn store(&self, byte: u8) {
        // SAFETY: the mapping is a page long, writable, and lives as long as this.
        unsafe { self.0.cast::<u8>().write_volatile(byte) };
    }

    fn write_back(&self) {
        // SAFETY: as above.
        unsafe { msync(self.0, 4096, MsyncFlags::SYNC).unwrap() };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made above, and used by nobody any more.
        unsafe { munmap(self.0, 4096).unwrap() };
    }
}

#[test]
fn what_is_stored_in_a_shared_mapping_is_captured() {
    for place in [std::env::temp_dir(), "/dev/shm".into()] {
        let mut f = fixture();
        let dir = tempfile::tempdir_in(place).unwrap();
        f.workspace = dir.path().to_owned();
        f.write("data", &[b'-'; 5000]);
        let mapping = Mapping::of(&f.workspace.join("data"));
        mapping.store(b'1');
        let_stamps_age();
        for (byte, write_back) in [(b'2', false), (b'3', true), (b'4', false)] {
            let (before, ..) = f.captured("data");
            // The page is dirty already, so that this moves no time.
            mapping.store(byte);
            if write_back {
                mapping.write_back();
            }
            let skips = Options { skip_if_unchanged: true, ..f.options() };
            let outcome = run(&f.store, &skips, &()).unwrap();
            assert!(!outcome.skipped && f.tree(&outcome.checkpoint)[&b"data"[..]].1[0] == byte && before[0] != byte);
        }
        drop(mapping);
        let_stamps_age();
        f.create();
        assert_eq!(f.create().files_read, 0);
    }
}

#[test]
fn a_file_that_somebody_writes_to_is_read_again() {
    let f = fixture();
    f.write("log", b"first");
    let log = File::options().append(true).open(f.workspace.join("log")).unwrap();
    let_stamps_age();
    f.create();
    assert_eq!(f.create().files_read, 1);
    drop(log);
    // A process that another test has just begun to start may have it open for a moment.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while f.create().files_read != 0 {
        assert!(std::time::Instant::now() < limit, "it is read again and again");
    }
}

#[test]
fn permissions_alone_are_noticed_whatever_the_times_say() {
    let f = fixture();
    f.write("a", b"1");
    let stat = sys::stat_at(File::open(&f.workspace).unwrap().as_fd(), b"a").unwrap();
    let node = Node {
        name: b"a".to_vec(),
        meta: stat.meta(Vec::new()),
        links: 1,
        kind: Kind::File { size: 1, blob: crate::testing::blob_id(b"1"), holes: Vec::new() },
    };
    let cached = statcache::CacheEntry { node, ino: stat.ino, ctime: stat.ctime, racy: false, section: 0 };
    assert!(cached.looks_like(&stat));
    let others = [
        sys::Stat { mode: stat.mode ^ 0o100, ..stat },
        sys::Stat { uid: stat.uid + 1, ..stat },
        sys::Stat { gid: stat.gid + 1, ..stat },
        sys::Stat { links: 2, ..stat },
        sys::Stat { size: 2, ..stat },
        sys::Stat { mtime: Time { nanos: stat.mtime.nanos ^ 1, ..stat.mtime }, ..stat },
    ];
    assert!(others.iter().all(|other| !cached.looks_like(other)));
}

#[test]
fn all_names_of_a_file_that_grows_meanwhile_show_the_same() {
    let f = fixture();
    for folder in 0..40 {
        f.write(&format!("{folder:02}/filler"), &noise(200_000, folder));
    }
    f.write("00/log", b"0");
    for folder in 1..40 {
        fs::hard_link(f.workspace.join("00/log"), f.workspace.join(format!("{folder:02}/log"))).unwrap();
    }
    let (stop, stopped) = mpsc::channel::<()>();
    let log = f.workspace.join("00/log");
    let writer = thread::spawn(move || {
        let mut log = File::options().append(true).open(log).unwrap();
        while stopped.try_recv().is_err() {
            log.write_all(b"and on").unwrap();
            thread::yield_now();
        }
    });
    for _ in 0..10 {
        let outcome = f.create();
        let tree = f.tree(&outcome.checkpoint);
        let nodes: Vec<&Node> = tree.iter().filter(|(path, _)| path.ends_with(b"/log")).map(|(_, (node, _))| node).collect();
        assert_eq!(nodes.len(), 40);
        assert!(
            nodes.iter().all(|node| node.kind == nodes[0].kind && node.meta == nodes[0].meta && node.links == nodes[0].links)
        );
        let links = f.store.links(&outcome.checkpoint).unwrap();
        assert_eq!(links.groups().iter().map(Vec::len).collect::<Vec<_>>(), [40]);
    }
    stop.send(()).unwrap();
    writer.join().unwrap();
    let_stamps_age();
    let outcome = f.create();
    f.assert_exact(&outcome.checkpoint);
    assert!(outcome.omissions.is_empty());
}

#[test]
fn a_clock_that_was_set_back_makes_a_walk_read_what_was_stamped_since() {
    let f = fixture();
    f.write("old", b"1");
    let_stamps_age();
    f.create();
    let path = statcache::path_for(f.store.layout(), &f.workspace.canonicalize().unwrap());
    let cache = StatCache::open(f.store.layout(), &f.workspace.canonicalize().unwrap()).unwrap();
    let section = cache.section(cache.trailer.root_section).unwrap();
    // A cache that was written ten seconds ago, when the clock showed an hour more.
    let mut written = cache.trailer.written;
    written.time.secs += 3600;
    written.up_nanos -= 10_000_000_000;
    let mut writer = statcache::Writer::create(f.store.layout(), &f.workspace.canonicalize().unwrap(), None).unwrap();
    let root = writer.append(&section).unwrap();
    writer.finish(root, cache.trailer.base, cache.trailer.root, &written, 0).unwrap();
    assert!(path.exists());
    assert_eq!(f.create().files_read, 1);
    assert_eq!(f.create().files_read, 0);
    // Every file is read on demand, and when that is due.
    let thorough = Options { thorough: true, ..f.options() };
    assert_eq!(run(&f.store, &thorough, &()).unwrap().files_read, 1);
    let due = Options { read_all_after_secs: Some(0), ..f.options() };
    assert_eq!(run(&f.store, &due, &()).unwrap().files_read, 1);
    let not_due = Options { read_all_after_secs: Some(1000), ..f.options() };
    assert_eq!(run(&f.store, &not_due, &()).unwrap().files_read, 0);
}

#[test]
fn a_section_of_another_filesystem_is_not_believed() {
    let f = fixture();
    f.write("a/file", b"1");
    let_stamps_age();
    f.create();
    assert_eq!(f.create().files_read, 0);
    let workspace = f.workspace.canonicalize().unwrap();
    let cache = StatCache::open(f.store.layout(), &workspace).unwrap();
    let root = cache.section(cache.trailer.root_section).unwrap();
    let inner = cache.section(root.entries[0].section).unwrap();
    for other in [crate::filesystem::FilesystemId([1; 16]), crate::filesystem::FilesystemId::default()] {
        let mut writer = statcache::Writer::create(f.store.layout(), &workspace, None).unwrap();
        let section = writer.append(&statcache::Section { filesystem: other, ..inner.clone() }).unwrap();
        let mut entries = root.entries.clone();
        entries[0].section = section;
        let section = writer.append(&statcache::Section { entries, ..root.clone() }).unwrap();
        writer.finish(section, cache.trailer.base, cache.trailer.root, &cache.trailer.written, 0).unwrap();
        assert_eq!(f.create().files_read, 1);
        assert_eq!(f.create().files_read, 0);
    }
}

#[test]
fn a_file_that_was_changed_just_now_is_read_again() {
    let f = fixture();
    // A busy machine may take longer than the clock's tick from the change to the look, but not each time.
    let is_racy = (0..200u32).any(|i| {
        f.write("a", &i.to_le_bytes());
        f.create();
        let cache = StatCache::open(f.store.layout(), &f.workspace.canonicalize().unwrap()).unwrap();
        cache.section(cache.trailer.root_section).unwrap().entries[0].racy
    });
    assert!(is_racy);
}

#[test]
fn what_is_young_is_looked_at_again_symlinks_and_folders_too() {
    let f = fixture();
    let is_racy = || {
        let cache = StatCache::open(f.store.layout(), &f.workspace.canonicalize().unwrap()).unwrap();
        let section = cache.section(cache.trailer.root_section).unwrap();
        section.entries.iter().map(|entry| (name::display(&entry.node.name), entry.racy)).collect::<BTreeMap<_, _>>()
    };
    // How young it is when it is looked at depends on the machine.
    let is_seen = (0..1000).any(|_| {
        for name in ["file", "link"] {
            _ = fs::remove_file(f.workspace.join(name));
        }
        _ = fs::remove_dir(f.workspace.join("folder"));
        f.write("file", b"1");
        fs::create_dir(f.workspace.join("folder")).unwrap();
        std::os::unix::fs::symlink("target", f.workspace.join("link")).unwrap();
        f.create();
        is_racy().values().all(|racy| *racy)
    });
    assert!(is_seen);
    let_stamps_age();
    f.create();
    f.create();
    assert!(is_racy().values().all(|racy| !racy), "{:?}", is_racy());
}
