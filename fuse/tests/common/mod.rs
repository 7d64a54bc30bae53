//! Stores, trees and mounts for the tests. They need root and /dev/fuse, and fail without.
#![allow(dead_code, clippy::unwrap_used)]

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    io::Write,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, PermissionsExt, chown, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use parhelia_fuse::{Log, MountHandle, Options, What, mount};
use parhelia_life::manifest::Manifest;
use parhelia_store::{OpenOptions, Store, create, record::Checkpoint};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, makedev, mknodat, utimensat};

/// A store, a workspace and a mountpoint in a temporary folder.
pub struct Fixture {
    pub mountpoint: PathBuf,
    pub workspace: PathBuf,
    pub store_path: PathBuf,
    pub log: Arc<Mutex<Vec<String>>>,
    // Last, so that it is removed when nothing is mounted in it any more.
    _dir: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        assert!(rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists(), "these tests need root and /dev/fuse");
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("workspace")).unwrap();
        fs::create_dir(at("mnt")).unwrap();
        Fixture { mountpoint: at("mnt"), workspace: at("workspace"), store_path: at("store"), log: Arc::default(), _dir: dir }
    }

    /// With a store whose packs have no parity, so that damage is not healed.
    pub fn without_parity() -> Self {
        let fixture = Self::new();
        parhelia_ledger::open(&fixture.store_path, &OpenOptions { create: true, parity: false, ..OpenOptions::default() })
            .unwrap();
        fixture
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self._dir.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn store(&self) -> Arc<Store> {
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        Arc::new(parhelia_ledger::open(&self.store_path, &options).unwrap())
    }

    pub fn create(&self, session: &str) -> Checkpoint {
        let options =
            create::Options { workspace: self.workspace.clone(), session: session.into(), ..create::Options::default() };
        let outcome = create::run(&self.store(), &options, &()).unwrap();
        assert!(outcome.omissions.is_empty(), "{:?}", outcome.omissions);
        outcome.checkpoint
    }

    pub fn options(&self) -> Options {
        let log = self.log.clone();
        let log: Log = Arc::new(move |line| log.lock().unwrap().push(line.to_owned()));
        Options { log, manifest: |store, checkpoint| Manifest::sealed(store, checkpoint).to_text(), ..Options::default() }
    }

    pub fn mount(&self, what: What) -> MountHandle {
        mount(self.store(), what, &self.mountpoint, &self.options()).unwrap()
    }

    pub fn mount_tree(&self, checkpoint: &Checkpoint) -> MountHandle {
        self.mount(tree(checkpoint, ""))
    }

    pub fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

pub fn tree(checkpoint: &Checkpoint, path: &str) -> What {
    What::Tree { checkpoint: checkpoint.record.id, path: path.into() }
}

pub fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

pub fn text(bytes: usize, seed: u64) -> Vec<u8> {
    noise(bytes, seed).iter().map(|b| b'a' + b % 8).collect()
}

pub fn run(folder: &Path, command: &str) -> String {
    let output = Command::new("bash").args(["-c", &format!("set -o pipefail; {command}")]).current_dir(folder).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command}: {out}{}", String::from_utf8_lossy(&output.stderr));
    out
}

fn set_time(path: &Path, secs: i64, nanos: i64) {
    let time = Timespec { tv_sec: secs, tv_nsec: nanos };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// A tree with every kind of entry, and everything about them that is kept.
pub fn grow_everything(root: &Path) {
    let at = |path: &str| root.join(path);
    fs::create_dir_all(at("a/b/c")).unwrap();
    fs::write(at("a/b/c/text"), text(10_000, 1)).unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::create_dir(at("empty folder")).unwrap();
    fs::write(at("raw"), noise(3 << 20, 2)).unwrap();
    fs::write(at("compressible"), text(5 << 20, 3)).unwrap();
    fs::write(at("middle"), text(100_000, 4)).unwrap();
    for i in 0..1500 {
        let path = at(&format!("many/entry {i}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("number {i}")).unwrap();
    }
    let deep = (0..60).map(|i| format!("level{i}")).collect::<Vec<_>>().join("/");
    fs::create_dir_all(at(&deep)).unwrap();
    fs::write(at(&format!("{deep}/bottom")), "bottom").unwrap();

    fs::write(root.join(OsStr::from_bytes(b"not\xffutf8\n\\")), "odd").unwrap();
    fs::write(at(&"x".repeat(255)), "long").unwrap();
    symlink("a/b", at("link")).unwrap();
    symlink(OsStr::from_bytes(b"nowhere/\xfe\xff"), at("dangling")).unwrap();
    symlink("y".repeat(4000), at("long link")).unwrap();

    fs::hard_link(at("raw"), at("a/raw again")).unwrap();
    fs::hard_link(at("raw"), at("a/b/raw once more")).unwrap();
    fs::hard_link(at("a/b/c/text"), at("text too")).unwrap();
    symlink("twice", at("linked link")).unwrap();
    fs::hard_link(at("linked link"), at("a/linked link")).unwrap();

    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    drop(UnixListener::bind(at("socket")).unwrap());
    mknodat(CWD, at("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 3)).unwrap();
    mknodat(CWD, at("disk"), FileType::BlockDevice, Mode::from_raw_mode(0o600), makedev(259, 70_000)).unwrap();

    let sparse = File::create(at("sparse")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    sparse.write_all_at(b"in the middle", 4 << 20).unwrap();
    File::create(at("all hole")).unwrap().set_len(1 << 20).unwrap();

    run(root, "setfattr -n user.note -v 'some value' empty && setfattr -n user.binary -v 0x00ff0a a");
    run(root, "setfattr -n trusted.secret -v hidden middle && setfattr -h -n trusted.of-link -v l link");
    run(root, "setfacl -m u:1234:rwx,g:77:r-x a/b/c/text && setfacl -d -m u:1234:r-x a/b && setfattr -n user.root -v top .");
    chown(at("middle"), Some(1234), Some(5678)).unwrap();
    for (path, mode) in [("empty", 0o4755), ("middle", 0o000), ("a", 0o1777), ("a/b", 0o2750), ("compressible", 0o440)] {
        fs::set_permissions(at(path), Permissions::from_mode(mode)).unwrap();
    }
    set_time(&at("empty"), 1_600_000_000, 123_456_789);
    set_time(&at("middle"), -86_401, 999_999_999);
    set_time(&at("dangling"), 1, 1);
    set_time(&at("a/b"), 4_000_000_000, 7);
}

/// Asserts that independent tools find no difference between two folders.
pub fn assert_same(source: &Path, shown: &Path) {
    let (a, b) = (source.display(), shown.display());
    let here = Path::new("/");
    // diff reports two special files of the same kind as a difference.
    run(here, &format!("diff -r --no-dereference -x fifo -x socket -x null -x disk '{a}' '{b}'"));
    assert_eq!(run(here, &format!("rsync -aHAXnci --checksum --delete '{a}/' '{b}/'")), "");
    let both = |command: &str| {
        let (expected, found) = (run(source, command), run(shown, command));
        if expected != found {
            let line = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
            panic!("{command}: {} and {} lines, first difference: {line:#?}", expected.lines().count(), found.lines().count());
        }
    };
    both(r"find . -printf '%P %y %m %U %G %T@ %n %l\n' | LC_ALL=C sort");
    both(r"find . -type f -printf '%P %s\n' | LC_ALL=C sort");
    // Which files have holes. A native filesystem may count blocks of its own, so that numbers of blocks are not compared.
    both(r"find . -type f -printf '%b %s %P\n' | awk '$1 * 512 < $2' | cut -d ' ' -f 2- | LC_ALL=C sort");
    both(r"find . -type l -printf '%P %s\n' | LC_ALL=C sort");
    both(r"find . \( -type b -o -type c \) -print0 | xargs -0r stat -c '%n %t %T'");
    // Where a tree has no attribute at all, asking is answered "not supported", which getfattr grumbles at.
    both("find . -print0 | LC_ALL=C sort -z | xargs -0 getfattr -h -d -m - -e hex 2>/dev/null || true");
    both("find . ! -type l -print0 | LC_ALL=C sort -z | xargs -0 getfacl -pn");
    // Which names are one file.
    both(
        r"find . -type f -links +1 -printf '%i %P\n' | LC_ALL=C sort -k2 | awk '{ if (!($1 in n)) n[$1] = ++c; $1 = n[$1]; print }'",
    );
}

/// The content of a file, read by another process: one that another test forks here meanwhile would keep the file open, and its mount busy.
pub fn cat(path: &Path) -> Vec<u8> {
    let output = Command::new("cat").arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The example that mounts, built beside this test.
pub fn example() -> Command {
    let path = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples/mount");
    assert!(path.exists(), "{} is missing; `cargo test -p parhelia-fuse` builds it", path.display());
    Command::new(path)
}

pub fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
