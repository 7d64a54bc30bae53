//! Filesystems of every kind that people keep their work on, each mounted for one test. They need root, loop devices and `/dev/fuse`.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount},
};

/// The ordinary user that tests act as: `nobody` on most systems.
pub const ORDINARY: u32 = 65534;

/// A kind of filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ext4 as it is made today.
    Ext4,
    /// ext4 with inodes of 128 bytes, whose stamps are whole seconds.
    Ext4Seconds,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// tmpfs.
    Tmpfs,
    /// overlayfs, with both layers on one ext4.
    Overlay,
    /// overlayfs, with the upper layer on an ext4 of whole seconds, and the lower one on another filesystem.
    OverlaySeconds,
    /// A folder of ext4 that bindfs serves with FUSE.
    Fuse,
    /// squashfs, read-only.
    Squashfs,
}

impl Kind {
    /// Every kind that can be written.
    pub const WRITABLE: [Kind; 8] =
        [Kind::Ext4, Kind::Ext4Seconds, Kind::Xfs, Kind::Btrfs, Kind::Tmpfs, Kind::Overlay, Kind::OverlaySeconds, Kind::Fuse];

    /// The kernel's names of the filesystems that it is made of.
    fn types(self) -> &'static [&'static str] {
        match self {
            Kind::Ext4 | Kind::Ext4Seconds => &["ext4"],
            Kind::Xfs => &["xfs"],
            Kind::Btrfs => &["btrfs"],
            Kind::Tmpfs => &["tmpfs"],
            Kind::Overlay | Kind::OverlaySeconds => &["overlay", "ext4"],
            Kind::Fuse => &["fuse", "ext4"],
            Kind::Squashfs => &["squashfs"],
        }
    }

    /// True if its stamps have no fractions of a second.
    pub fn has_whole_seconds(self) -> bool {
        matches!(self, Kind::Ext4Seconds | Kind::OverlaySeconds)
    }

    /// True if files of it can share extents.
    pub fn clones(self) -> bool {
        matches!(self, Kind::Xfs | Kind::Btrfs)
    }

    /// The program that makes an image of it, the size of the image, and the options.
    fn maker(self) -> (&'static str, u64, &'static [&'static str]) {
        match self {
            Kind::Xfs => ("mkfs.xfs", 400 << 20, &["-q"]),
            Kind::Btrfs => ("mkfs.btrfs", 160 << 20, &["-q"]),
            Kind::Ext4Seconds | Kind::OverlaySeconds => ("mkfs.ext4", 96 << 20, &["-q", "-I", "128"]),
            _ => ("mkfs.ext4", 96 << 20, &["-q"]),
        }
    }
}

/// A mounted filesystem. Dropping it unmounts, also after a panic, and gives its loop device back.
pub struct Mounted {
    /// Mounts, in order. Dropped before the folder.
    mounts: Vec<Mountpoint>,
    at: PathBuf,
    _folder: tempfile::TempDir,
}

/// A folder that something is mounted on. Dropping it unmounts.
pub struct Mountpoint(PathBuf);

impl Mountpoint {
    /// A folder on which a test has mounted something itself.
    pub fn of(folder: &Path) -> Self {
        Mountpoint(folder.to_owned())
    }
}

impl Drop for Mountpoint {
    fn drop(&mut self) {
        // A process that another test has just forked holds what is open here until it becomes another program.
        let until = Instant::now() + Duration::from_secs(10);
        while unmount(&self.0, UnmountFlags::empty()) == Err(Errno::BUSY) {
            if Instant::now() > until {
                eprintln!("{} is busy; it is detached", self.0.display());
                let _ = unmount(&self.0, UnmountFlags::DETACH);
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Runs a program of the system that must succeed.
pub fn system(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|e| panic!("{program} is needed by this test: {e}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Mounts an empty filesystem in memory on a folder; anybody may enter it.
pub fn in_memory(folder: &Path) -> Mountpoint {
    system("mount", &["-t", "tmpfs", "-o", "size=2g,mode=755", "tmpfs", &text(folder)]);
    Mountpoint(folder.to_owned())
}

/// True if the kernel has this type of filesystem; asked after it has been asked for, which may load a module.
fn is_known(kind: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.split_whitespace().last() == Some(kind))
}

/// A folder that anybody may enter, and that a user owns.
fn folder_of(path: &Path, user: u32) {
    fs::create_dir_all(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    chown(path, Some(user), Some(user)).unwrap_or_else(|e| panic!("this test needs root: {e}"));
}

impl Mounted {
    /// Mounts a new filesystem whose root belongs to `user`, and lets `fill` write what it has from the beginning: of overlays into the
    /// lower layer, of a squashfs before it becomes one. `None`, and a line on standard error, where the kernel has no such filesystem.
    pub fn new(kind: Kind, user: u32, fill: impl FnOnce(&Path)) -> Option<Self> {
        for name in kind.types() {
            if !is_known(name) {
                let _ = Command::new("modprobe").args(["--quiet", name]).status();
            }
            if !is_known(name) {
                eprintln!("NOT TESTED: the kernel has no {name}, so that {kind:?} cannot be mounted");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("no scratch folder: {e}"));
        // Images lie in memory, so that no test waits for a disk that others use.
        let memory = in_memory(folder.path());
        let at = folder.path().join("mounted");
        folder_of(&at, user);
        let mut mounted = Mounted { mounts: vec![memory], at: at.clone(), _folder: folder };
        match kind {
            Kind::Tmpfs => mounted.mount(&["-t", "tmpfs", "-o", "size=256m", "tmpfs"], &at),
            Kind::Overlay | Kind::OverlaySeconds => return Some(mounted.overlay(kind, user, fill)),
            Kind::Fuse => {
                let behind = mounted.image(kind, "behind");
                folder_of(&behind.join("root"), user);
                system("bindfs", &[&text(&behind.join("root")), &text(&at)]);
                mounted.mounts.push(Mountpoint(at.clone()));
            }
            Kind::Squashfs => {
                let source = mounted.at.with_file_name("source");
                folder_of(&source, user);
                fill(&source);
                mounted.squash(&source);
                return Some(mounted);
            }
            _ => _ = mounted.image(kind, "mounted"),
        }
        folder_of(&at, user);
        fill(&at);
        Some(mounted)
    }

    /// Makes an image and mounts it on a folder beside the others.
    fn image(&mut self, kind: Kind, name: &str) -> PathBuf {
        let (program, bytes, options) = kind.maker();
        let image = self.at.with_file_name("image");
        let file = fs::File::create(&image).and_then(|file| file.set_len(bytes));
        file.unwrap_or_else(|e| panic!("{}: {e}", image.display()));
        system(program, &[options, &[&text(&image)]].concat());
        let at = self.at.with_file_name(name);
        folder_of(&at, 0);
        self.mount(&["-o", "loop", &text(&image)], &at);
        at
    }

    /// The loop device of such a mount goes with it.
    fn mount(&mut self, arguments: &[&str], at: &Path) {
        system("mount", &[arguments, &[&text(at)]].concat());
        self.mounts.push(Mountpoint(at.to_owned()));
    }

    fn overlay(mut self, kind: Kind, user: u32, fill: impl FnOnce(&Path)) -> Self {
        let upper = self.image(kind, "upper");
        let lower = if kind == Kind::Overlay { upper.join("lower") } else { self.at.with_file_name("lower") };
        for folder in [&lower, &upper.join("files"), &upper.join("work")] {
            folder_of(folder, user);
        }
        fill(&lower);
        let layers =
            format!("lowerdir={},upperdir={},workdir={}", text(&lower), text(&upper.join("files")), text(&upper.join("work")));
        let at = self.at.clone();
        self.mount(&["-t", "overlay", "overlay", "-o", &layers], &at);
        self
    }

    /// Mounts a squashfs with what a folder holds, in which every time is the same, in the place of the one before.
    pub fn squash(&mut self, source: &Path) {
        // What lies below it, the memory, stays.
        while self.mounts.len() > 1 {
            self.mounts.pop();
        }
        let (image, at) = (self.at.with_file_name("image"), self.at.clone());
        let _ = fs::remove_file(&image);
        system("mksquashfs", &[&text(source), &text(&image), "-quiet", "-no-progress", "-all-time", "0", "-mkfs-time", "0"]);
        self.mount(&["-o", "loop,ro", &text(&image)], &at);
    }

    /// Shows a folder of it at another place, too, as long as what is returned lives.
    pub fn bind(&self, name: &str, at: &Path) -> Mountpoint {
        system("mount", &["--bind", &text(&self.at.join(name)), &text(at)]);
        Mountpoint(at.to_owned())
    }

    /// The folder that it is mounted on.
    pub fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        while self.mounts.pop().is_some() {}
    }
}

/// A path of a test's own, which is text.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A small filesystem in memory, unmounted in the end.
pub struct Disk(pub PathBuf);

impl Disk {
    /// Mounts one of so many KiB.
    pub fn mount(at: PathBuf, kib: u64) -> Self {
        fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(&at).status();
        assert!(mounted.is_ok_and(|status| status.success()), "this test needs to mount a tmpfs");
        Disk(at)
    }

    /// Number of bytes that are free.
    pub fn free(&self) -> u64 {
        let found = rustix::fs::statvfs(&self.0).unwrap();
        found.f_bavail * found.f_frsize
    }

    /// Fills it up to so many bytes that are left.
    pub fn fill(&self, leave: u64) {
        let bytes = self.free().saturating_sub(leave);
        if let Ok(mut file) = File::create(self.0.join("filler")) {
            let _ = file.write_all(&vec![1; bytes as usize]);
        }
    }

    /// Makes room again.
    pub fn unfill(&self) {
        let _ = fs::remove_file(self.0.join("filler"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(&self.0).status();
    }
}
