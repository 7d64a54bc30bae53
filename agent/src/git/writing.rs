//! The folders of a repository that a stash entry is written to. Each is opened without following a link, so that what a repository brings cannot
//! lead git's files anywhere else; the program itself writes into a new folder of objects, whose files are moved to the others when it is done.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    process::Command,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid},
    io::Errno,
};

use super::Repository;

/// The reference whose log is the stash.
const STASH: &str = "stash";
/// ... and the file that keeps others from changing it, as git has it.
const LOCK: &str = "stash.lock";
/// The longest log of it, in bytes.
const LOG_BYTES_MAX: u64 = 64 << 20;

type Result<T> = std::result::Result<T, String>;

/// A repository, to be written to.
#[derive(Debug)]
pub struct RepositoryWriter {
    /// The folder that worktrees share, and its path.
    common: OwnedFd,
    path: PathBuf,
    objects: OwnedFd,
    /// The folder of new objects, and its name below `objects`.
    new: OwnedFd,
    name: OsString,
}

/// An entry of the stash.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The reference's commit before; none where there is no entry.
    pub before: Option<&'a str>,
    /// Id of the stash commit, in hex.
    pub commit: &'a str,
    /// Committer and time, as `git var GIT_COMMITTER_IDENT` prints them.
    pub by: &'a str,
    /// Message of the entry; white space in it becomes single spaces.
    pub message: &'a str,
}

impl RepositoryWriter {
    /// Opens the folders. `worktree` is the folder of files that the repository's settings name.
    pub(super) fn of(repository: &Repository, worktree: Option<&Path>) -> Result<Self> {
        let path = common(repository, worktree)?;
        let common = folder(CWD, path.as_os_str()).map_err(said(&path))?;
        let objects = folder(common.as_fd(), OsStr::new("objects")).map_err(said(&path.join("objects")))?;
        // Git removes one that is left over.
        let name = OsString::from(format!("tmp_objdir-parhelia-{}", uuid::Uuid::new_v4().simple()));
        let new = made(&objects, &name).map_err(said(&path.join("objects")))?;
        Ok(RepositoryWriter { common, path, objects, new, name })
    }

    /// Has git write new objects into the new folder, and find the others.
    pub fn direct(&self, command: &mut Command) {
        let objects = self.path.join("objects");
        let new = by_number(&self.new).unwrap_or_else(|| objects.join(&self.name));
        let old = by_number(&self.objects).map_or_else(|| quoted(&objects), PathBuf::into_os_string);
        command.env("GIT_OBJECT_DIRECTORY", new).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", old);
    }

    /// Moves the new objects to the others.
    pub fn keep_objects(&self) -> Result<()> {
        for part in names(&self.new).map_err(said(&self.path))? {
            let is_one = part == "pack" || part.len() == 2 && part.as_bytes().iter().all(u8::is_ascii_hexdigit);
            if is_one {
                self.keep(&part).map_err(said(&self.path.join("objects").join(&part)))?;
            }
        }
        Ok(())
    }

    fn keep(&self, part: &OsStr) -> io::Result<()> {
        let from = folder(self.new.as_fd(), part)?;
        let mut files = names(&from)?;
        // A pack is there once its index is.
        files.sort_by_key(|name| (name.as_bytes().ends_with(b".idx"), name.clone()));
        if files.is_empty() {
            return Ok(());
        }
        let to = made_or_there(&self.objects, part)?;
        let owner = owner(&to)?;
        for file in files {
            if let Some((uid, gid)) = owner {
                rustix::fs::chownat(&from, &file, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            match stat(&to, &file)? {
                None => rustix::fs::renameat(&from, &file, &to, &file)?,
                // The same object, by its name.
                Some(found) if is_file(&found) => {}
                Some(_) => return Err(io::Error::other(format!("'{}' in it is no regular file", file.display()))),
            }
        }
        Ok(())
    }

    /// The folder of the references' tables, where they are in such, and a path of it by which git can write there while it is open.
    pub fn reftable(&self) -> Result<Option<(OwnedFd, PathBuf)>> {
        let path = self.path.join("reftable");
        let tables = match folder(self.common.as_fd(), OsStr::new("reftable")) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(said(&path))?,
        };
        for name in names(&tables).map_err(said(&path))? {
            let found = stat(&tables, &name).map_err(said(&path))?;
            if found.is_some_and(|found| !is_file(&found) || found.st_nlink != 1) {
                return Err(format!("'{}' in {} is a link, or no regular file", name.display(), path.display()));
            }
        }
        let reached = by_number(&tables).unwrap_or(path);
        Ok(Some((tables, reached)))
    }

    /// Appends an entry to the log and moves `refs/stash` to it, under git's lock.
    pub fn add(&self, entry: Entry<'_>) -> Result<()> {
        let refs = self.below("refs", false)?;
        let lock = Lock::take(&refs)?;
        let before = match loose(&refs)? {
            Some(found) => Some(found),
            None => entry.before.map(str::to_owned),
        };
        let before = before.unwrap_or_else(|| "0".repeat(entry.commit.len()));
        let message = entry.message.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("{before} {} {}\t{message}\n", entry.commit, entry.by);
        let logs = self.logs(true)?;
        let append = || -> io::Result<()> {
            let mut log = opened(&logs, STASH, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
            log.write_all(line.as_bytes())?;
            log.sync_all()
        };
        append().map_err(said(&self.path.join("logs/refs/stash")))?;
        lock.set(entry.commit)
    }

    /// Takes an entry away, if it is there.
    pub fn drop_entry(&self, commit: &str) -> Result<()> {
        let refs = self.below("refs", false)?;
        let lock = Lock::take(&refs)?;
        let path = self.path.join("logs/refs/stash");
        let logs = match self.logs(false) {
            Ok(logs) => logs,
            Err(_) if stat(&self.common, OsStr::new("logs")).is_ok_and(|found| found.is_none()) => return Ok(()),
            Err(e) => return Err(e),
        };
        let text = match opened(&logs, STASH, OFlags::RDONLY).and_then(|file| read(&file)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text.map_err(said(&path))?,
        };
        let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let Some(at) = lines.iter().rposition(|line| after(line) == Some(commit.as_bytes())) else { return Ok(()) };
        let before = lines.remove(at).split(|byte| *byte == b' ').next().unwrap_or_default();
        // The line behind it follows the one before it now.
        let next = lines.get(at).map(|line| [before, line.get(before.len()..).unwrap_or_default()].concat());
        if let Some(next) = &next {
            lines[at] = next;
        }
        match lines.last().and_then(|line| after(line)).and_then(|id| std::str::from_utf8(id).ok()) {
            Some(newest) => {
                replace(&logs, &lines.concat()).map_err(said(&path))?;
                lock.set(newest)
            }
            // Somebody has packed the reference: without the log it would be an entry of its own.
            None if loose(&refs)?.is_none() => Ok(()),
            None => {
                rustix::fs::unlinkat(&refs, STASH, AtFlags::empty()).map_err(|e| said(&path)(e.into()))?;
                rustix::fs::unlinkat(&logs, STASH, AtFlags::empty()).map_err(|e| said(&path)(e.into()))
            }
        }
    }

    fn below(&self, name: &str, is_made: bool) -> Result<OwnedFd> {
        let found = match is_made {
            true => made_or_there(&self.common, OsStr::new(name)),
            false => folder(self.common.as_fd(), OsStr::new(name)),
        };
        found.map_err(said(&self.path.join(name)))
    }

    fn logs(&self, is_made: bool) -> Result<OwnedFd> {
        let logs = self.below("logs", is_made)?;
        let refs = match is_made {
            true => made_or_there(&logs, OsStr::new("refs")),
            false => folder(logs.as_fd(), OsStr::new("refs")),
        };
        refs.map_err(said(&self.path.join("logs/refs")))
    }
}

impl Drop for RepositoryWriter {
    fn drop(&mut self) {
        for part in names(&self.new).unwrap_or_default() {
            let inner = folder(self.new.as_fd(), &part);
            for name in inner.as_ref().ok().and_then(|inner| names(inner).ok()).unwrap_or_default() {
                let _ = inner.as_ref().map(|inner| rustix::fs::unlinkat(inner, &name, AtFlags::empty()));
            }
            let flags = if inner.is_ok() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            let _ = rustix::fs::unlinkat(&self.new, &part, flags);
        }
        let _ = rustix::fs::unlinkat(&self.objects, &self.name, AtFlags::REMOVEDIR);
    }
}

/// The reference is locked, until this goes.
struct Lock<'a> {
    refs: &'a OwnedFd,
    file: File,
    is_done: bool,
}

impl<'a> Lock<'a> {
    fn take(refs: &'a OwnedFd) -> Result<Self> {
        match opened(refs, LOCK, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL) {
            Ok(file) => Ok(Lock { refs, file, is_done: false }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                Err("another program changes the stash (refs/stash.lock is there)".into())
            }
            Err(e) => Err(format!("cannot lock refs/stash: {e}")),
        }
    }

    fn set(mut self, commit: &str) -> Result<()> {
        let written = writeln!(self.file, "{commit}").and_then(|()| self.file.sync_all());
        let placed = written.and_then(|()| Ok(rustix::fs::renameat(self.refs, LOCK, self.refs, STASH)?));
        self.is_done = placed.is_ok();
        placed.map_err(|e| format!("cannot write refs/stash: {e}"))
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = rustix::fs::unlinkat(self.refs, LOCK, AtFlags::empty());
        }
    }
}

/// The folder that the repository's worktrees share, if it is this repository's: a `.git` that is a link, or a file that names the folder of another
/// repository, would have the entry written there.
fn common(repository: &Repository, worktree: Option<&Path>) -> Result<PathBuf> {
    let (root, git) = (repository.root(), repository.git());
    let found = rustix::fs::lstat(root.join(".git")).map_err(|e| said(&root.join(".git"))(e.into()))?;
    let has_common = rustix::fs::lstat(git.join("commondir")).is_ok();
    let real = |path: &Path| path.canonicalize().map_err(said(path));
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory if has_common => Err("its .git is no worktree of the repository that it names".into()),
        FileType::Directory => Ok(git.to_owned()),
        FileType::RegularFile if has_common => {
            let (git, common) = (real(git)?, real(&repository.common())?);
            match git.parent() == Some(&common.join("worktrees")) {
                true => Ok(common),
                false => Err("its .git is no worktree of the repository that it names".into()),
            }
        }
        FileType::RegularFile => {
            let git = real(git)?;
            let named = worktree.map(|worktree| git.join(worktree).canonicalize().ok() == root.canonicalize().ok());
            match named.unwrap_or_else(|| git.file_name() != Some(OsStr::new(".git"))) {
                true => Ok(git),
                false => Err(format!("its .git names {}, which is another repository's", git.display())),
            }
        }
        _ => Err("its .git is a symbolic link".into()),
    }
}

/// Opens a folder that is no link.
fn folder(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    match rustix::fs::openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => Err(io::Error::other("it is a link, or no folder")),
        other => Ok(other?),
    }
}

/// Makes a folder, with the mode and the owner of the one that it is in.
fn made(at: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    rustix::fs::mkdirat(at, name, Mode::RWXU)?;
    let made = folder(at.as_fd(), name)?;
    rustix::fs::fchmod(&made, Mode::from_raw_mode(rustix::fs::fstat(at)?.st_mode & 0o2777))?;
    if let Some((uid, gid)) = owner(at)? {
        rustix::fs::fchown(&made, Some(uid), Some(gid))?;
    }
    Ok(made)
}

fn made_or_there(at: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match made(at, name) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => folder(at.as_fd(), name),
        other => other,
    }
}

/// Opens a regular file that has no other name. One that is made has the mode and the owner of its folder.
fn opened(at: &OwnedFd, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let is_new = flags.contains(OFlags::CREATE) && stat(at, OsStr::new(name))?.is_none();
    let file = File::from(rustix::fs::openat(at, name, flags, Mode::RUSR | Mode::WUSR).map_err(|e| match e {
        Errno::LOOP | Errno::NXIO => io::Error::other("it is a link, or no regular file"),
        e => e.into(),
    })?);
    let found = rustix::fs::fstat(&file)?;
    if !is_file(&found) || found.st_nlink != 1 {
        return Err(io::Error::other("it has another name, or is no regular file"));
    }
    if is_new {
        rustix::fs::fchmod(&file, Mode::from_raw_mode(rustix::fs::fstat(at)?.st_mode & 0o666))?;
        if let Some((uid, gid)) = owner(at)? {
            rustix::fs::fchown(&file, Some(uid), Some(gid))?;
        }
    }
    Ok(file)
}

fn replace(logs: &OwnedFd, text: &[u8]) -> io::Result<()> {
    let mut file = opened(logs, LOCK, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
    let written = file.write_all(text).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| Ok(rustix::fs::renameat(logs, LOCK, logs, STASH)?));
    placed.inspect_err(|_| _ = rustix::fs::unlinkat(logs, LOCK, AtFlags::empty()))
}

fn read(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LOG_BYTES_MAX { Err(io::Error::other("it is too long")) } else { Ok(bytes) }
}

/// The commit that the reference's own file names.
fn loose(refs: &OwnedFd) -> Result<Option<String>> {
    let text = match opened(refs, STASH, OFlags::RDONLY).and_then(|file| read(&file)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|e| format!("cannot read refs/stash: {e}"))?,
    };
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    match matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(Some(text)),
        false => Err("refs/stash is another reference's name".into()),
    }
}

/// The second id of a line of a log.
fn after(line: &[u8]) -> Option<&[u8]> {
    line.split(|byte| *byte == b' ').nth(1)
}

fn stat(at: &OwnedFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        found => Ok(Some(found?)),
    }
}

fn is_file(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

/// The owner and the group of a folder that is another user's, where root writes there: what it makes is theirs.
fn owner(folder: &OwnedFd) -> io::Result<Option<(Uid, Gid)>> {
    let found = rustix::fs::fstat(folder)?;
    let is_guest = rustix::process::geteuid().is_root() && found.st_uid != 0;
    Ok(is_guest.then(|| (Uid::from_raw(found.st_uid), Gid::from_raw(found.st_gid))))
}

fn names(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            found.push(OsString::from_vec(name));
        }
    }
    Ok(found)
}

/// A path of an open folder by which another process reaches it, whatever is at its own path by then.
fn by_number(folder: &OwnedFd) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), folder.as_raw_fd()));
    path.is_dir().then_some(path)
}

/// A path in a list of git's, whose entries are separated by colons.
fn quoted(path: &Path) -> OsString {
    let mut quoted = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}

fn said(path: &Path) -> impl Fn(io::Error) -> String {
    let path = path.display().to_string();
    move |e| format!("cannot use {path}: {e}")
}
