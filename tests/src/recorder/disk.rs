//! The disk: inodes, and the operations that change them.

use parhelia_store::clock;
use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// An inode number.
pub type Ino = u64;
/// The root folder's.
pub const ROOT: Ino = 1;

/// Content of an inode.
#[derive(Clone, Debug)]
pub enum Body {
    /// Bytes.
    File(Vec<u8>),
    /// Names.
    Folder(BTreeMap<OsString, Ino>),
    /// A target.
    Symlink(PathBuf),
    /// A fifo, socket or device, by its type.
    Special(fuser::FileType, u32),
}

/// An inode.
#[derive(Clone, Debug)]
pub struct Inode {
    /// Its content.
    pub body: Body,
    /// Permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Time of the last change of its content.
    pub mtime: SystemTime,
    /// Time of the last change of anything of it.
    pub ctime: SystemTime,
}

/// A change, or a sync.
#[derive(Clone, Debug)]
pub enum Op {
    /// An inode came to be. It is nothing until it is named.
    Make(Ino, Box<Inode>),
    /// A folder got a name: a file or folder was made, or a link.
    Name(Ino, OsString, Ino),
    /// A folder lost a name that led to the inode.
    Unname(Ino, OsString, Ino),
    /// The inode's name moved from one folder to another.
    Rename((Ino, OsString), (Ino, OsString), Ino),
    /// Two names changed what they lead to.
    Exchange((Ino, OsString), (Ino, OsString)),
    /// Bytes were written at an offset.
    Write(Ino, u64, Vec<u8>),
    /// The length was set.
    Length(Ino, u64),
    /// Mode, owner or time was set.
    Attributes(Ino, u32, (u32, u32), SystemTime),
    /// The inode was synced: a file's bytes, or a folder's names.
    Sync(Ino),
    /// The file could not be synced: as on Linux, what was written to it and not synced can still be read, and no later sync writes it.
    FailedSync(Ino),
}

/// The clock that stamps what changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Seconds that it is ahead of the machine's clock, which may be less than nothing.
    pub ahead_seconds: i64,
    /// Stamps are multiples of this.
    pub step_nanos: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { ahead_seconds: 0, step_nanos: 1 }
    }
}

impl Clock {
    /// The time that it shows now.
    pub fn now(&self) -> SystemTime {
        let ahead = Duration::from_secs(self.ahead_seconds.unsigned_abs());
        let now = SystemTime::from(clock::timestamp());
        self.stamp(if self.ahead_seconds < 0 { now - ahead } else { now + ahead })
    }

    /// A time as it can be kept.
    pub fn stamp(&self, time: SystemTime) -> SystemTime {
        let nanos = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        time - Duration::from_nanos((nanos % u128::from(self.step_nanos)) as u64)
    }
}

/// All inodes.
#[derive(Clone, Debug)]
pub struct Disk {
    inodes: HashMap<Ino, Inode>,
    next: Ino,
    /// The clock that stamps them.
    pub clock: Clock,
}

impl Default for Disk {
    fn default() -> Self {
        let now = SystemTime::from(clock::timestamp());
        let root = Inode { body: Body::Folder(BTreeMap::new()), mode: 0o755, owner: (0, 0), mtime: now, ctime: now };
        Disk { inodes: HashMap::from([(ROOT, root)]), next: ROOT + 1, clock: Clock::default() }
    }
}

impl Disk {
    /// A number that no inode has.
    pub fn new_ino(&mut self) -> Ino {
        self.next += 1;
        self.next - 1
    }

    /// An inode.
    pub fn get(&self, ino: Ino) -> Option<&Inode> {
        self.inodes.get(&ino)
    }

    /// The names in a folder.
    pub fn names(&self, folder: Ino) -> Option<&BTreeMap<OsString, Ino>> {
        match &self.get(folder)?.body {
            Body::Folder(names) => Some(names),
            _ => None,
        }
    }

    /// The inode that a name in a folder leads to.
    pub fn find(&self, folder: Ino, name: &OsStr) -> Option<Ino> {
        self.names(folder)?.get(name).copied()
    }

    /// Number of names that lead to an inode.
    pub fn links(&self, ino: Ino) -> u32 {
        let in_folder = |inode: &Inode| match &inode.body {
            Body::Folder(names) => names.values().filter(|found| **found == ino).count() as u32,
            _ => 0,
        };
        self.inodes.values().map(in_folder).sum()
    }

    fn names_mut(&mut self, folder: Ino) -> Option<&mut BTreeMap<OsString, Ino>> {
        let inode = self.inodes.get_mut(&folder)?;
        inode.mtime = self.clock.now();
        inode.ctime = inode.mtime;
        match &mut inode.body {
            Body::Folder(names) => Some(names),
            _ => None,
        }
    }

    fn bytes_mut(&mut self, ino: Ino) -> Option<&mut Vec<u8>> {
        let inode = self.inodes.get_mut(&ino)?;
        inode.mtime = self.clock.now();
        inode.ctime = inode.mtime;
        match &mut inode.body {
            Body::File(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn unname(&mut self, folder: Ino, name: &OsStr, ino: Ino) {
        if let Some(names) = self.names_mut(folder)
            && names.get(name) == Some(&ino)
        {
            names.remove(name);
        }
    }

    fn name(&mut self, folder: Ino, name: &OsStr, ino: Ino) {
        if let Some(names) = self.names_mut(folder) {
            names.insert(name.to_owned(), ino);
        }
    }

    /// Changes the disk. What an operation needs and does not find, because a power cut has swallowed it, makes it do nothing.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Make(ino, inode) => {
                self.next = self.next.max(ino + 1);
                self.inodes.insert(*ino, (**inode).clone());
            }
            Op::Name(folder, name, ino) => self.name(*folder, name, *ino),
            Op::Unname(folder, name, ino) => self.unname(*folder, name, *ino),
            Op::Rename((from, old), (to, new), ino) => {
                self.unname(*from, old, *ino);
                self.name(*to, new, *ino);
            }
            Op::Exchange((from, old), (to, new)) => {
                if let (Some(a), Some(b)) = (self.find(*from, old), self.find(*to, new)) {
                    self.name(*from, old, b);
                    self.name(*to, new, a);
                }
            }
            Op::Write(ino, offset, data) => {
                if let Some(bytes) = self.bytes_mut(*ino) {
                    let (start, end) = (*offset as usize, *offset as usize + data.len());
                    if bytes.len() < end {
                        bytes.resize(end, 0);
                    }
                    bytes[start..end].copy_from_slice(data);
                }
            }
            Op::Length(ino, length) => {
                if let Some(bytes) = self.bytes_mut(*ino) {
                    bytes.resize(*length as usize, 0);
                }
            }
            Op::Attributes(ino, mode, owner, mtime) => {
                if let Some(inode) = self.inodes.get_mut(ino) {
                    (inode.mode, inode.owner, inode.mtime) = (*mode, *owner, *mtime);
                    inode.ctime = self.clock.now();
                }
            }
            Op::Sync(_) | Op::FailedSync(_) => {}
        }
    }

    /// Copies what a name in the root leads to, under another name.
    pub fn copy(&mut self, from: &str, to: &str) {
        if let Some(ino) = self.find(ROOT, from.as_ref()) {
            let copied = self.copy_inode(ino);
            self.name(ROOT, to.as_ref(), copied);
        }
    }

    /// Forgets what a name in the root leads to, with all that is in it.
    pub fn forget(&mut self, name: &str) {
        if let Some(ino) = self.find(ROOT, name.as_ref()) {
            self.unname(ROOT, name.as_ref(), ino);
            self.forget_inode(ino);
        }
    }

    fn forget_inode(&mut self, ino: Ino) {
        if let Some(Inode { body: Body::Folder(names), .. }) = self.inodes.remove(&ino) {
            names.into_values().for_each(|below| self.forget_inode(below));
        }
    }

    fn copy_inode(&mut self, ino: Ino) -> Ino {
        let mut inode = self.inodes[&ino].clone();
        if let Body::Folder(names) = &mut inode.body {
            names.values_mut().for_each(|below| *below = self.copy_inode(*below));
        }
        let copied = self.new_ino();
        self.inodes.insert(copied, inode);
        copied
    }

    /// The inode at a path.
    pub fn at(&self, path: &Path) -> Option<Ino> {
        path.iter().try_fold(ROOT, |folder, name| self.find(folder, name))
    }

    /// Writes what is at a path out to a folder of a real filesystem. Where there is nothing, makes nothing.
    pub fn write_out(&self, path: &Path, to: &Path) -> std::io::Result<()> {
        match self.at(path) {
            Some(ino) => self.write_inode(ino, to, &mut HashMap::new()),
            None => Ok(()),
        }
    }

    fn write_inode(&self, ino: Ino, to: &Path, written: &mut HashMap<Ino, PathBuf>) -> std::io::Result<()> {
        let Some(inode) = self.get(ino) else { return Ok(()) };
        match &inode.body {
            Body::Folder(names) => {
                fs::create_dir(to)?;
                for (name, below) in names {
                    self.write_inode(*below, &to.join(name), written)?;
                }
            }
            Body::File(bytes) => {
                if let Some(first) = written.get(&ino) {
                    return fs::hard_link(first, to);
                }
                fs::write(to, bytes)?;
                fs::File::options().write(true).open(to)?.set_modified(inode.mtime)?;
                written.insert(ino, to.to_owned());
            }
            Body::Symlink(target) => return symlink(target, to),
            Body::Special(..) => return Ok(()),
        }
        fs::set_permissions(to, fs::Permissions::from_mode(inode.mode))
    }
}
