//! The answers of each operation: the same as those of a read-only mount of the source folder on its native filesystem.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use common::*;
use rustix::{
    fs::{
        Access, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, Timespec, Timestamps, UTIME_NOW,
        XattrFlags,
    },
    io::{Errno, Result},
};

type Operation = fn(&Path) -> Result<()>;
const OK: Result<()> = Ok(());
const fn fails(errno: Errno) -> Result<()> {
    Err(errno)
}

fn open(root: &Path, name: &str, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::open(root.join(name), flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))
}

fn read_only(root: &Path, name: &str) -> OwnedFd {
    open(root, name, OFlags::RDONLY | OFlags::NONBLOCK).unwrap()
}

fn long(bytes: usize) -> String {
    "n".repeat(bytes)
}

fn now() -> Timestamps {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
}

/// Opening, by what is opened and how.
const OPENING: &[(&str, Operation, Result<()>)] = &[
    ("open for reading", |r| open(r, "file", OFlags::RDONLY).map(drop), OK),
    ("open for writing", |r| open(r, "file", OFlags::WRONLY).map(drop), fails(Errno::ROFS)),
    ("open for both", |r| open(r, "file", OFlags::RDWR).map(drop), fails(Errno::ROFS)),
    ("open to append", |r| open(r, "file", OFlags::WRONLY | OFlags::APPEND).map(drop), fails(Errno::ROFS)),
    ("open and truncate", |r| open(r, "file", OFlags::RDONLY | OFlags::TRUNC).map(drop), fails(Errno::ROFS)),
    ("open a new file", |r| open(r, "new", OFlags::RDONLY | OFlags::CREATE).map(drop), fails(Errno::ROFS)),
    ("open an old file as if new", |r| open(r, "file", OFlags::RDONLY | OFlags::CREATE).map(drop), OK),
    ("… exclusively", |r| open(r, "file", OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL).map(drop), fails(Errno::EXIST)),
    ("open a nameless file", |r| open(r, ".", OFlags::RDWR | OFlags::TMPFILE).map(drop), fails(Errno::ROFS)),
    ("open past the page cache", |r| open(r, "file", OFlags::RDONLY | OFlags::DIRECT).map(drop), OK),
    ("open a folder", |r| open(r, "folder", OFlags::RDONLY | OFlags::DIRECTORY).map(drop), OK),
    ("open a folder for writing", |r| open(r, "folder", OFlags::WRONLY).map(drop), fails(Errno::ISDIR)),
    ("open a file as a folder", |r| open(r, "file", OFlags::RDONLY | OFlags::DIRECTORY).map(drop), fails(Errno::NOTDIR)),
    ("open an absent name", |r| open(r, "absent", OFlags::RDONLY).map(drop), fails(Errno::NOENT)),
    ("open below a file", |r| open(r, "file/x", OFlags::RDONLY).map(drop), fails(Errno::NOTDIR)),
    ("open a symlink", |r| open(r, "link", OFlags::RDONLY).map(drop), OK),
    ("open a symlink, not following", |r| open(r, "link", OFlags::RDONLY | OFlags::NOFOLLOW).map(drop), fails(Errno::LOOP)),
    ("open a dangling symlink", |r| open(r, "dangling", OFlags::RDONLY).map(drop), fails(Errno::NOENT)),
    ("open symlinks in a circle", |r| open(r, "circle", OFlags::RDONLY).map(drop), fails(Errno::LOOP)),
    ("open a name of 255 bytes", |r| open(r, &long(255), OFlags::RDONLY).map(drop), OK),
    ("open a name of 256 bytes", |r| open(r, &long(256), OFlags::RDONLY).map(drop), fails(Errno::NAMETOOLONG)),
    ("open a path of 5000 bytes", |r| open(r, &"folder/".repeat(715), OFlags::RDONLY).map(drop), fails(Errno::NAMETOOLONG)),
    ("open a fifo", |r| open(r, "fifo", OFlags::RDONLY | OFlags::NONBLOCK).map(drop), OK),
    ("open a fifo for writing alone", |r| open(r, "fifo", OFlags::WRONLY | OFlags::NONBLOCK).map(drop), fails(Errno::NXIO)),
    ("open a socket", |r| open(r, "socket", OFlags::RDONLY).map(drop), fails(Errno::NXIO)),
    ("open a device", |r| open(r, "null", OFlags::RDONLY).map(drop), fails(Errno::ACCESS)),
];

/// Asking and reading.
const READING: &[(&str, Operation, Result<()>)] = &[
    ("stat", |r| rustix::fs::stat(r.join("file")).map(drop), OK),
    ("stat an absent name", |r| rustix::fs::stat(r.join("absent")).map(drop), fails(Errno::NOENT)),
    ("statfs", |r| rustix::fs::statfs(r.join("file")).map(drop), OK),
    ("access for reading", |r| rustix::fs::access(r.join("file"), Access::READ_OK), OK),
    ("access for writing", |r| rustix::fs::access(r.join("file"), Access::WRITE_OK), fails(Errno::ROFS)),
    ("access for running a script", |r| rustix::fs::access(r.join("script"), Access::EXEC_OK), OK),
    ("access for running anything else", |r| rustix::fs::access(r.join("file"), Access::EXEC_OK), fails(Errno::ACCESS)),
    ("readlink", |r| rustix::fs::readlink(r.join("link"), Vec::new()).map(drop), OK),
    ("readlink of a file", |r| rustix::fs::readlink(r.join("file"), Vec::new()).map(drop), fails(Errno::INVAL)),
    ("read", |r| rustix::io::read(read_only(r, "file"), &mut [0; 10]).map(drop), OK),
    ("read a folder", |r| rustix::io::read(read_only(r, "folder"), &mut [0; 10]).map(drop), fails(Errno::ISDIR)),
    ("list a folder", |r| rustix::fs::Dir::read_from(read_only(r, "folder"))?.next().unwrap().map(drop), OK),
    ("list a file", |r| rustix::fs::Dir::read_from(read_only(r, "file"))?.next().unwrap().map(drop), fails(Errno::NOTDIR)),
    ("seek data", |r| rustix::fs::seek(read_only(r, "file"), SeekFrom::Data(0)).map(drop), OK),
    ("seek data past the end", |r| rustix::fs::seek(read_only(r, "file"), SeekFrom::Data(99)).map(drop), fails(Errno::NXIO)),
    ("getxattr", |r| rustix::fs::getxattr(r.join("file"), "user.x", &mut [0u8; 8]).map(drop), OK),
    ("getxattr, short buffer", |r| rustix::fs::getxattr(r.join("file"), "user.x", &mut [0u8; 1]).map(drop), fails(Errno::RANGE)),
    ("getxattr, absent", |r| rustix::fs::getxattr(r.join("file"), "user.y", &mut [0u8; 8]).map(drop), fails(Errno::NODATA)),
    ("listxattr", |r| rustix::fs::listxattr(r.join("file"), &mut [0u8; 64]).map(drop), OK),
    ("listxattr, short buffer", |r| rustix::fs::listxattr(r.join("file"), &mut [0u8; 1]).map(drop), fails(Errno::RANGE)),
    ("sync a file", |r| rustix::fs::fsync(read_only(r, "file")), OK),
    ("sync a folder", |r| rustix::fs::fsync(read_only(r, "folder")), OK),
    ("sync the filesystem", |r| rustix::fs::syncfs(read_only(r, "folder")), OK),
    ("lock shared", |r| rustix::fs::flock(read_only(r, "file"), FlockOperation::NonBlockingLockShared), OK),
    ("lock exclusively", |r| rustix::fs::flock(read_only(r, "file"), FlockOperation::NonBlockingLockExclusive), OK),
    ("advise", |r| rustix::fs::fadvise(read_only(r, "file"), 0, None, rustix::fs::Advice::WillNeed), OK),
];

/// Operations that would change something.
const WRITING: &[(&str, Operation, Result<()>)] = &[
    ("write", |r| rustix::io::write(read_only(r, "file"), b"x").map(drop), fails(Errno::BADF)),
    ("ftruncate", |r| rustix::fs::ftruncate(read_only(r, "file"), 0), fails(Errno::INVAL)),
    ("fallocate", |r| rustix::fs::fallocate(read_only(r, "file"), FallocateFlags::empty(), 0, 9), fails(Errno::BADF)),
    ("mkdir", |r| rustix::fs::mkdir(r.join("new"), Mode::RWXU), fails(Errno::ROFS)),
    ("mkdir of an old folder", |r| rustix::fs::mkdir(r.join("folder"), Mode::RWXU), fails(Errno::EXIST)),
    ("mkdir below nothing", |r| rustix::fs::mkdir(r.join("absent/x"), Mode::RWXU), fails(Errno::NOENT)),
    ("mkdir below a file", |r| rustix::fs::mkdir(r.join("file/x"), Mode::RWXU), fails(Errno::NOTDIR)),
    ("mkdir of a long name", |r| rustix::fs::mkdir(r.join(long(256)), Mode::RWXU), fails(Errno::NAMETOOLONG)),
    ("rmdir", |r| rustix::fs::rmdir(r.join("empty")), fails(Errno::ROFS)),
    ("rmdir of a full folder", |r| rustix::fs::rmdir(r.join("folder")), fails(Errno::ROFS)),
    ("rmdir of itself", |r| rustix::fs::rmdir(r.join("folder/.")), fails(Errno::INVAL)),
    ("mknod", |r| rustix::fs::mknodat(CWD, r.join("new"), FileType::RegularFile, Mode::RWXU, 0), fails(Errno::ROFS)),
    ("mkfifo", |r| rustix::fs::mknodat(CWD, r.join("new"), FileType::Fifo, Mode::RWXU, 0), fails(Errno::ROFS)),
    ("symlink", |r| rustix::fs::symlink("x", r.join("new")), fails(Errno::ROFS)),
    ("symlink of an old name", |r| rustix::fs::symlink("x", r.join("file")), fails(Errno::EXIST)),
    ("link", |r| rustix::fs::link(r.join("file"), r.join("new")), fails(Errno::ROFS)),
    ("link of an old name", |r| rustix::fs::link(r.join("file"), r.join("link")), fails(Errno::EXIST)),
    ("link from elsewhere", |r| rustix::fs::link("/proc/self/status", r.join("new")), fails(Errno::ROFS)),
    ("unlink", |r| rustix::fs::unlink(r.join("file")), fails(Errno::ROFS)),
    ("unlink of an absent name", |r| rustix::fs::unlink(r.join("absent")), fails(Errno::ROFS)),
    ("rename", |r| rustix::fs::rename(r.join("file"), r.join("new")), fails(Errno::ROFS)),
    ("rename out of it", |r| rustix::fs::rename(r.join("file"), "/proc/new"), fails(Errno::XDEV)),
    ("chmod", |r| rustix::fs::chmod(r.join("file"), Mode::RWXU), fails(Errno::ROFS)),
    ("chown", |r| rustix::fs::chownat(CWD, r.join("file"), None, None, AtFlags::empty()), fails(Errno::ROFS)),
    ("utimensat", |r| rustix::fs::utimensat(CWD, r.join("file"), &now(), AtFlags::empty()), fails(Errno::ROFS)),
    (
        "utimensat of a symlink",
        |r| rustix::fs::utimensat(CWD, r.join("link"), &now(), AtFlags::SYMLINK_NOFOLLOW),
        fails(Errno::ROFS),
    ),
    ("setxattr", |r| rustix::fs::setxattr(r.join("file"), "user.x", b"z", XattrFlags::empty()), fails(Errno::ROFS)),
    ("removexattr", |r| rustix::fs::removexattr(r.join("file"), "user.x"), fails(Errno::ROFS)),
];

fn grow(root: &Path) {
    let at = |name: &str| root.join(name);
    fs::create_dir_all(at("folder/below")).unwrap();
    fs::create_dir(at("empty")).unwrap();
    for (name, text) in [("file", "some text"), ("script", "#!/bin/sh\nexit 7\n"), (&long(255), "long")] {
        fs::write(at(name), text).unwrap();
    }
    run(root, "chmod 755 script; ln -s file link; ln -s nowhere dangling; ln -s circle circle; mkfifo fifo");
    run(root, "mknod null c 1 3; setfattr -n user.x -v yes file");
    drop(std::os::unix::net::UnixListener::bind(at("socket")).unwrap());
}

/// A folder, shown read-only by its own filesystem.
struct Native(PathBuf);

impl Native {
    fn new(source: &Path, at: &Path) -> Self {
        let (source, shown) = (source.display(), at.display());
        run(Path::new("/"), &format!("mount --bind '{source}' '{shown}' && mount -o remount,bind,ro,nodev,nosuid '{shown}'"));
        Native(at.to_owned())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn every_operation_answers_as_a_native_read_only_mount_does() {
    let f = Fixture::new();
    grow(&f.workspace);
    let checkpoint = f.create("s");
    let _mounted = f.mount_tree(&checkpoint);
    let native = Native::new(&f.workspace, &f.folder("native"));
    let mut wrong = Vec::new();
    for (what, operation, expected) in [OPENING, READING, WRITING].concat() {
        let answers = (operation(&native.0), operation(&f.mountpoint));
        if answers != (expected, expected) {
            wrong.push(format!("{what}: expected {expected:?}, native {:?}, ours {:?}", answers.0, answers.1));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_same(&f.workspace, &f.mountpoint);
}

#[test]
fn programs_run_from_it() {
    let f = Fixture::new();
    grow(&f.workspace);
    // A program is mapped into memory, page by page.
    run(&f.workspace, "cp $(command -v sort) program");
    let checkpoint = f.create("s");
    let _mounted = f.mount_tree(&checkpoint);
    let status = std::process::Command::new(f.mountpoint.join("script")).status().unwrap();
    assert_eq!(status.code(), Some(7));
    assert_eq!(run(&f.mountpoint, "printf 'b\\na\\n' | ./program"), "a\nb\n");
}
