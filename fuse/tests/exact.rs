//! Independent tools find in a mount exactly what was captured.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{
    collections::HashMap,
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    process::Command,
};

use common::*;
use parhelia_fuse::{Counts, Error, What, mount};
use rustix::{fs::SeekFrom, io::Errno};

#[test]
fn every_kind_of_entry_is_shown_as_it_was() {
    let f = Fixture::new();
    grow_everything(&f.workspace);
    let checkpoint = f.create("s");
    let mut mounted = f.mount_tree(&checkpoint);
    assert_same(&f.workspace, &f.mountpoint);
    // Cached, too.
    assert_same(&f.workspace, &f.mountpoint);
    mounted.unmount().unwrap();

    let mut mounted = f.mount(tree(&checkpoint, "a/b"));
    assert_same(&f.workspace.join("a/b"), &f.mountpoint);
    let part = fs::metadata(f.mountpoint.join("c/text")).unwrap().ino();
    let root = fs::metadata(&f.mountpoint).unwrap().ino();
    mounted.unmount().unwrap();
    let whole = f.mount_tree(&checkpoint);
    assert_eq!(part, fs::metadata(f.mountpoint.join("a/b/c/text")).unwrap().ino());
    assert_eq!(root, fs::metadata(f.mountpoint.join("a/b")).unwrap().ino());
    drop(whole);

    let mut mounted = f.mount(What::Store);
    assert_same(&f.workspace, &f.mountpoint.join(format!("sessions/s/{}/workspace", checkpoint.id())));
    mounted.unmount().unwrap();
    assert!(f.log.lock().unwrap().is_empty(), "{:?}", f.log);
}

#[test]
fn inode_numbers_are_positions_and_equal_in_every_mount() {
    let f = Fixture::new();
    grow_everything(&f.workspace);
    let checkpoint = f.create("s");
    let store = f.store();
    let list = r"find . -printf '%i %P\0' | LC_ALL=C sort -z | tr '\0' '\n'";
    let first = {
        let _mounted = f.mount_tree(&checkpoint);
        run(&f.mountpoint, list)
    };
    let _mounted = f.mount_tree(&checkpoint);
    assert_eq!(first, run(&f.mountpoint, list));
    let links = store.links(&checkpoint).unwrap();
    let root = store.workspace_node(&checkpoint).unwrap();
    let mut positions = HashMap::new();
    let remember = &mut |path: &[u8], position: u64, _: &parhelia_store::tree::Node| {
        positions.insert(path.to_vec(), position);
        Ok(true)
    };
    store.walk(root.as_folder().unwrap().0, remember).unwrap();
    let mut seen = 0;
    let visit = &mut |path: &[u8], position: u64, _: &parhelia_store::tree::Node| {
        let shown = fs::symlink_metadata(f.mountpoint.join(parhelia_store::name::as_path(path))).unwrap().ino();
        let leader = links.member_at(path).map(|member| links.path(links.leader_of(member)));
        assert_eq!(shown, 1 + leader.map_or(position, |leader| positions[&leader]));
        seen += 1;
        Ok(true)
    };
    store.walk(root.as_folder().unwrap().0, visit).unwrap();
    assert!(seen > 1500);
}

#[test]
fn names_of_one_file_are_one_inode_wherever_their_leader_stands() {
    let f = Fixture::new();
    // In the order of a walk, the leader comes behind the others; big folders are split.
    for i in 0..600 {
        f.write(&format!("a/deep/f{i:03}"), &text(10, i));
        f.write(&format!("z{i:03}"), &text(11, i));
        fs::hard_link(f.workspace.join(format!("z{i:03}")), f.workspace.join(format!("a/deep/g{:03}", i * 7 % 600))).unwrap();
    }
    f.write("a-b/x", b"x");
    fs::hard_link(f.workspace.join("a-b/x"), f.workspace.join("a/x")).unwrap();
    let checkpoint = f.create("s");
    let check = |root: &std::path::Path| {
        let ino = |path: &str| fs::symlink_metadata(root.join(path)).unwrap().ino();
        for i in 0..600 {
            assert_eq!(ino(&format!("z{i:03}")), ino(&format!("a/deep/g{:03}", i * 7 % 600)));
            assert_ne!(ino(&format!("z{i:03}")), ino(&format!("a/deep/f{i:03}")));
        }
        assert_eq!(ino("a-b/x"), ino("a/x"));
        assert_same(&f.workspace, root);
    };
    let mut mounted = f.mount_tree(&checkpoint);
    check(&f.mountpoint);
    mounted.unmount().unwrap();
    let _mounted = f.mount(What::Store);
    check(&f.mountpoint.join(format!("sessions/s/{}/workspace", checkpoint.id())));
}

#[test]
fn a_tree_without_xattrs_and_holes_declines_them_once() {
    let f = Fixture::new();
    for i in 0..300 {
        f.write(&format!("d{}/f{i}", i % 9), &text(100 + i * 37, i as u64));
    }
    let checkpoint = f.create("s");
    let mounted = f.mount_tree(&checkpoint);
    assert_same(&f.workspace, &f.mountpoint);
    assert!(mounted.counts().xattr <= 2, "{:?}", mounted.counts());
    // Everything once more: the kernel answers by itself.
    let command = "cat d*/* | wc -c; find . -ls | wc -l; { ls d0/absent || true; } 2>&1 | wc -l";
    run(&f.mountpoint, command);
    let asks_again = || {
        let before = mounted.counts();
        run(&f.mountpoint, command);
        // But for statfs, which find asks of every filesystem it enters. What is prefetched and pushed comes from threads of their own.
        let after = mounted.counts();
        assert!(after.other <= before.other + 2, "{before:?} {after:?}");
        let Counts { other, pushed, prefetched, .. } = before;
        (Counts { other, pushed, prefetched, ..after } != before).then_some((before, after))
    };
    // A kernel that reclaims memory may forget a page in between, but not every time.
    let asked: Vec<_> = (0..5).map_while(|_| asks_again()).collect();
    assert!(asked.len() < 5, "{asked:?}");
}

#[test]
fn holes_are_found_by_seeking() {
    let f = Fixture::new();
    grow_everything(&f.workspace);
    let checkpoint = f.create("s");
    let _mounted = f.mount_tree(&checkpoint);
    for name in ["sparse", "all hole", "raw", "empty"] {
        let (source, shown) = (File::open(f.workspace.join(name)).unwrap(), File::open(f.mountpoint.join(name)).unwrap());
        for offset in [0, 1, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 5000, (8 << 20) - 1, 8 << 20, 9 << 20] {
            for seek in [SeekFrom::Data(offset), SeekFrom::Hole(offset)] {
                assert_eq!(rustix::fs::seek(&source, seek), rustix::fs::seek(&shown, seek), "{name} {seek:?}");
            }
        }
    }
    run(&f.mountpoint, "cp --sparse=auto sparse /dev/null && test $(du -k sparse | cut -f1) -lt 100");
}

#[test]
fn nothing_can_be_changed() {
    let f = Fixture::new();
    grow_everything(&f.workspace);
    let checkpoint = f.create("s");
    let _mounted = f.mount_tree(&checkpoint);
    for command in [
        "echo x > new",
        "echo x >> a/b/c/text",
        ": > raw",
        "truncate -s 1 raw",
        "mkdir new",
        "rmdir 'empty folder'",
        "rm -f empty",
        "mv empty elsewhere",
        "ln empty hard",
        "ln -s x soft",
        "mkfifo pipe",
        "chmod 600 empty",
        "chown 5 empty",
        "touch empty",
        "setfattr -n user.x -v y empty",
        "setfattr -x user.note empty",
        "fallocate -l 5 empty",
    ] {
        let output = Command::new("bash").args(["-c", command]).env("LC_ALL", "C").current_dir(&f.mountpoint).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("Read-only file system"), "{command}: {said}");
    }
    let opened = File::options().write(true).open(f.mountpoint.join("raw"));
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    assert_same(&f.workspace, &f.mountpoint);
}

#[test]
fn reads_at_and_past_the_end_are_short() {
    let f = Fixture::new();
    f.write("small", &text(5000, 1));
    f.write("big", &text(700_001, 2));
    let checkpoint = f.create("s");
    let _mounted = f.mount_tree(&checkpoint);
    for (name, size) in [("small", 5000u64), ("big", 700_001)] {
        let file = File::open(f.mountpoint.join(name)).unwrap();
        let mut buffer = [0; 4096];
        assert_eq!(file.read_at(&mut buffer, size - 10).unwrap(), 10);
        assert_eq!(file.read_at(&mut buffer, size).unwrap(), 0);
        assert_eq!(file.read_at(&mut buffer, size + 123_456).unwrap(), 0);
    }
    assert_eq!(fs::read(f.mountpoint.join("small/x")).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(fs::read(f.mountpoint.join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
    let stat = rustix::fs::statvfs(&f.mountpoint).unwrap();
    assert_eq!((stat.f_blocks, stat.f_bfree, stat.f_files, stat.f_namemax), ((705_001u64).div_ceil(4096), 0, 3, 255));
    assert!(rustix::fs::getxattr(f.mountpoint.join("small"), "user.none", &mut [0u8; 8]) == Err(Errno::OPNOTSUPP));
}

#[test]
fn impossible_mountpoints_and_paths_are_refused_with_the_reason() {
    let f = Fixture::new();
    f.write("folder/file", b"x");
    let checkpoint = f.create("s");
    let refused = |what: What, at: &Path| mount(f.store(), what, at, &f.options()).unwrap_err();
    let whole = || tree(&checkpoint, "");
    let says = |error: Error, text: &str| assert!(error.to_string().contains(text), "{error}");
    says(refused(whole(), &f.store_path), "it is the store");
    says(refused(whole(), &f.store_path.join("packs")), "inside it");
    says(refused(whole(), f.store_path.parent().unwrap()), "would be hidden");
    says(refused(whole(), &f.workspace.join("folder/file")), "not a folder");
    says(refused(whole(), &f.mountpoint.join("none")), "no such folder");
    says(refused(tree(&checkpoint, "folder/file"), &f.mountpoint), "mount the folder that holds it");
    says(refused(tree(&checkpoint, "folder/none"), &f.mountpoint), "folder/none");
    let _mounted = f.mount_tree(&checkpoint);
    says(refused(whole(), &f.mountpoint), "there already");
    assert_eq!(parhelia_fuse::list(&f.store()).unwrap().len(), 1);
}
