mod update;

use std::fs;

use super::{section::PART_ENTRIES, *};
use crate::{clock::Clock, filesystem::FilesystemId, sys, tree::Meta};

fn section(names: &[&str], child: u64) -> Section {
    let entry = |name: &&str| CacheEntry {
        node: Node {
            name: name.as_bytes().to_vec(),
            meta: Meta::default(),
            links: 1,
            kind: Kind::File { size: 3, blob: crate::testing::blob_id(b"abc"), holes: vec![] },
        },
        ino: 7,
        ctime: Time { secs: 1, nanos: 2 },
        racy: false,
        section: child,
    };
    Section { tree: TreeId([9; 32]), filesystem: FilesystemId([7; 16]), entries: names.iter().map(entry).collect() }
}

#[test]
fn sections_come_back_and_survive_an_update() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir(layout.cache()).unwrap();
    let workspace = Path::new("/invented/workspace");
    assert!(StatCache::open(&layout, workspace).is_none());
    let mut writer = Writer::create(&layout, workspace, None).unwrap();
    let child = writer.append(&section(&["x", "y"], 0)).unwrap();
    let root = writer.append(&section(&["sub"], child)).unwrap();
    writer.finish(root, Ulid::generate(), TreeId([1; 32]), &Clock::now(), 5).unwrap();
    let cache = StatCache::open(&layout, workspace).unwrap();
    let found = cache.section(cache.trailer.root_section).unwrap();
    assert_eq!(found, section(&["sub"], child));
    let mut writer = Writer::create(&layout, workspace, Some(&cache)).unwrap();
    assert!(writer.keeps_old);
    let root = writer.append(&section(&["sub", "sub2"], child)).unwrap();
    writer.finish(root, Ulid::generate(), TreeId([2; 32]), &Clock::now(), 5).unwrap();
    let cache = StatCache::open(&layout, workspace).unwrap();
    assert_eq!(cache.section(child).unwrap(), section(&["x", "y"], 0));
}

#[test]
fn a_section_of_many_parts_comes_back_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir(layout.cache()).unwrap();
    let workspace = Path::new("/invented/workspace");
    for count in [PART_ENTRIES - 1, PART_ENTRIES, PART_ENTRIES + 1, 3 * PART_ENTRIES] {
        let names: Vec<String> = (0..count).map(|i| format!("f{i:06}")).collect();
        let big = section(&names.iter().map(String::as_str).collect::<Vec<_>>(), 0);
        let mut writer = Writer::create(&layout, workspace, None).unwrap();
        let small = writer.append(&section(&["x"], 0)).unwrap();
        let root = writer.append(&big).unwrap();
        let behind = writer.append(&section(&["y"], 0)).unwrap();
        writer.finish(root, Ulid::generate(), TreeId([1; 32]), &Clock::now(), 5).unwrap();
        let cache = StatCache::open(&layout, workspace).unwrap();
        assert!(cache.section(root).unwrap() == big, "{count}");
        assert_eq!(cache.section(small).unwrap(), section(&["x"], 0));
        assert_eq!(cache.section(behind).unwrap(), section(&["y"], 0));
        // A part that is taken for the last one, or for none, is no part.
        let path = path_for(&layout, workspace);
        let mut bytes = fs::read(&path).unwrap();
        bytes[root as usize + 3] ^= 0x80;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(StatCache::open(&layout, workspace).unwrap().section(root), None, "{count}");
    }
}

#[test]
fn paths_in_order_read_each_folder_once() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir(layout.cache()).unwrap();
    let mut writer = Writer::create(&layout, Path::new("/invented/workspace"), None).unwrap();
    let child = writer.append(&section(&["x", "y"], 0)).unwrap();
    let root = writer.append(&section(&["a", "sub", "z"], child)).unwrap();
    let lookup = writer.lookup(root).unwrap();
    let name = |path: &[u8]| lookup.find(path).map(|node| node.name);
    assert_eq!(name(b"sub/x"), Some(b"x".to_vec()));
    File::options().write(true).open(writer.temporary.as_ref().unwrap()).unwrap().set_len(8).unwrap();
    assert_eq!(name(b"sub/y"), Some(b"y".to_vec()), "the folder was read again");
    assert_eq!((name(b"sub/none"), name(b"z"), name(b"none/x")), (None, Some(b"z".to_vec()), None));
    // Of another folder nothing is known any more.
    assert_eq!(writer.lookup(root).unwrap().find(b"sub/x"), None);
}

#[test]
fn a_damaged_cache_is_no_cache() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir(layout.cache()).unwrap();
    let workspace = Path::new("/invented/workspace");
    let mut writer = Writer::create(&layout, workspace, None).unwrap();
    let root = writer.append(&section(&["a", "b"], 0)).unwrap();
    writer.finish(root, Ulid::generate(), TreeId([1; 32]), &Clock::now(), 5).unwrap();
    let path = path_for(&layout, workspace);
    let good = fs::read(&path).unwrap();
    for i in 0..good.len() {
        let mut bytes = good.clone();
        bytes[i] ^= 4;
        fs::write(&path, &bytes).unwrap();
        let section = StatCache::open(&layout, workspace).and_then(|c| c.section(c.trailer.root_section));
        assert!(section.is_none(), "byte {i}");
    }
}

#[test]
fn an_entry_looks_as_it_did_only_while_nothing_of_it_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "abc").unwrap();
    let stat = sys::stat_fd(File::open(&path).unwrap()).unwrap();
    let cached = |stat: &Stat| {
        let meta = Meta { mode: stat.mode & 0o7777, uid: stat.uid, gid: stat.gid, mtime: stat.mtime, ..Meta::default() };
        let kind = Kind::File { size: 3, blob: crate::testing::blob_id(b"abc"), holes: vec![] };
        let node = Node { name: b"file".to_vec(), meta, links: stat.links, kind };
        CacheEntry { node, ino: stat.ino, ctime: stat.ctime, racy: false, section: 0 }
    };
    assert!(cached(&stat).looks_like(&stat));
    let later = |time: Time| Time { nanos: time.nanos ^ 1, ..time };
    for other in [
        Stat { ino: stat.ino + 1, ..stat },
        Stat { size: 4, ..stat },
        Stat { mode: stat.mode ^ 0o1, ..stat },
        Stat { mode: stat.mode & 0o7777 | 0o040_000, ..stat },
        Stat { uid: stat.uid + 1, ..stat },
        Stat { gid: stat.gid + 1, ..stat },
        Stat { links: 2, ..stat },
        Stat { mtime: later(stat.mtime), ..stat },
        Stat { ctime: later(stat.ctime), ..stat },
    ] {
        assert!(!cached(&stat).looks_like(&other), "{other:?}");
        let trust = Trust { set_back_to: None, is_aged: true };
        assert!(!trust.is_unchanged(&cached(&stat), &other) && !trust.is_past_doubt(&cached(&stat), &other));
    }
    // A folder's number of names is that of its subfolders, and says nothing.
    let folder = sys::stat_fd(File::open(dir.path()).unwrap()).unwrap();
    let kind = Kind::Folder { tree: TreeId([0; 32]), totals: Default::default() };
    let node = Node { kind, ..cached(&folder).node };
    let known = CacheEntry { node, ..cached(&folder) };
    assert!(known.looks_like(&folder) && known.looks_like(&Stat { links: folder.links + 1, ..folder }));
    assert!(!known.looks_like(&Stat { mode: folder.mode & 0o7777 | 0o100_000, size: 3, ..folder }));

    let trust = Trust { set_back_to: None, is_aged: true };
    assert!(trust.is_unchanged(&cached(&stat), &stat) && trust.is_past_doubt(&cached(&stat), &stat));
    assert!(!trust.is_unchanged(&CacheEntry { racy: true, ..cached(&stat) }, &stat));
    let set_back = Trust { set_back_to: Some(Time { secs: stat.ctime.secs - 10, nanos: 0 }), ..trust };
    assert!(!set_back.is_unchanged(&cached(&stat), &stat));
    assert!(!Trust { is_aged: false, ..trust }.is_past_doubt(&cached(&stat), &stat));
}

#[test]
fn a_cache_is_written_anew_once_more_than_half_of_it_is_out_of_use() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir(layout.cache()).unwrap();
    let workspace = Path::new("/invented/workspace");
    let mut writer = Writer::create(&layout, workspace, None).unwrap();
    let (first, root) = (writer.append(&section(&["a"], 0)).unwrap(), writer.append(&section(&["b", "c"], 0)).unwrap());
    assert_eq!(first, HEADER_BYTES as u64);
    let used = writer.end - first;
    writer.finish(root, Ulid::generate(), TreeId([1; 32]), &Clock::now(), 5).unwrap();
    let mut cache = StatCache::open(&layout, workspace).unwrap();
    assert_eq!((cache.trailer.used_bytes, cache.end), (used, used + first));
    // Of an update, what was in use before counts on, unless more was written.
    for names in [&["a"][..], &["a", "b", "c", "d", "e", "f", "g"][..]] {
        let mut writer = Writer::create(&layout, workspace, Some(&cache)).unwrap();
        let begin = writer.end;
        let root = writer.append(&section(names, 0)).unwrap();
        let appended = writer.end - begin;
        writer.finish(root, Ulid::generate(), TreeId([1; 32]), &Clock::now(), 5).unwrap();
        cache = StatCache::open(&layout, workspace).unwrap();
        assert_eq!(cache.trailer.used_bytes, used.max(appended));
    }
    let path = path_for(&layout, workspace);
    let length = || fs::metadata(&path).unwrap().len();
    let before = length();
    for (least, keeps_old) in [(0, true), (1, false)] {
        // As if it had more behind it than half of what is in use.
        cache.trailer.used_bytes = 1000;
        cache.end = 2000 + (1 << 20) + least;
        File::options().write(true).open(&path).unwrap().write_all_at(&header(cache.end), 0).unwrap();
        let writer = Writer::create(&layout, workspace, Some(&cache)).unwrap();
        assert_eq!((writer.keeps_old, writer.temporary.is_none()), (keeps_old, keeps_old));
        let temporary = writer.temporary.clone();
        assert!(temporary.as_ref().is_none_or(|path| path.exists()));
        drop(writer);
        assert!(temporary.is_none_or(|path| !path.exists()));
    }
    assert!(length() > before, "a file that is cut behind its trailer");
}

/// A workspace's cache with a big folder, and that folder's names.
fn big(layout: &Layout, workspace: &Path) -> (StatCache, Vec<String>) {
    let names: Vec<String> = (0..64).map(|i| format!("f{i:03}")).collect();
    let mut writer = Writer::create(layout, workspace, None).unwrap();
    let root = writer.append(&section(&names.iter().map(String::as_str).collect::<Vec<_>>(), 0)).unwrap();
    writer.finish(root, Ulid::generate(), TreeId([1; 32]), &Clock::now(), 5).unwrap();
    (StatCache::open(layout, workspace).unwrap(), names)
}

#[test]
fn a_patch_of_itself_or_of_what_follows_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir(layout.cache()).unwrap();
    let workspace = Path::new("/invented/workspace");
    let (cache, _) = big(&layout, workspace);
    let now = cache.section(cache.trailer.root_section).unwrap();
    let mut writer = Writer::create(&layout, workspace, Some(&cache)).unwrap();
    let root = writer.append_entries(now.tree, now.filesystem, &now.entries, Some((cache.trailer.root_section, &now))).unwrap();
    let end = writer.end;
    writer.finish(root, Ulid::generate(), now.tree, &Clock::now(), 5).unwrap();
    let path = path_for(&layout, workspace);
    let good = fs::read(&path).unwrap();
    assert!(StatCache::open(&layout, workspace).unwrap().section(root).is_some());
    let (at, end) = (root as usize, end as usize);
    for base in [0, 1, root, root + 1, u64::MAX] {
        let mut bytes = good.clone();
        bytes[at + 8..at + 16].copy_from_slice(&base.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[at..at + 4]), &bytes[at + 8..end]);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        assert_eq!(StatCache::open(&layout, workspace).unwrap().section(root), None, "{base}");
    }
}

#[test]
fn a_cache_is_believed_as_far_as_the_clocks_agree() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir(layout.cache()).unwrap();
    let workspace = Path::new("/invented/workspace");
    let mut writer = Writer::create(&layout, workspace, None).unwrap();
    let root = writer.append(&section(&["a"], 0)).unwrap();
    let written = Clock { time: Time { secs: 1_000_000, nanos: 0 }, up_nanos: 50_000_000_000, boot: [1; 16] };
    writer.finish(root, Ulid::generate(), TreeId([1; 32]), &written, 5).unwrap();
    let cache = StatCache::open(&layout, workspace).unwrap();
    assert_eq!(cache.trailer.written, written);
    let now = |secs: i64, nanos: u64| Clock {
        time: Time { secs: written.time.secs + secs, nanos: 0 },
        up_nanos: written.up_nanos + nanos,
        ..written
    };
    let trust = Trust::new(Some(&cache), &now(3, 3_000_000_000));
    assert_eq!((trust.is_limited(), trust.is_aged), (false, true));
    let trust = Trust::new(Some(&cache), &now(3, 2_999_999_999));
    assert_eq!((trust.is_limited(), trust.is_aged), (false, false));
    // The clock was set back by an hour meanwhile.
    let trust = Trust::new(Some(&cache), &now(-3590, 10_000_000_000));
    assert_eq!((trust.is_limited(), trust.is_aged), (true, true));
    let none = Trust::new(None, &now(0, 0));
    assert_eq!((none.is_limited(), none.is_aged), (false, false));
}
