//! State of a checkpoint beside its workspace: the folder `state`, and the fields of the record that go with it. A caller
//! gives it by implementing [`State`]; the store takes it in by the same way as a workspace's files.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use rustix::{fs::MemfdFlags, io::Errno};
use serde_json::Value;

use super::{
    append_cache::{self, AppendCache},
    content::{Earlier, Failure, Reader},
    sink::{Batch, Sink},
};
use crate::{
    clock::{self, Clock},
    error::{Error, IoContext, Result},
    filesystem::Filesystems,
    format::SINGLE_CHUNK_BYTES,
    id::{BlobId, TreeId, Ulid},
    keys::Ids,
    name,
    omitted::{OMISSIONS_FILE, Omission, Reason},
    pin::Pin,
    progress::Progress,
    record::{Consistency, Part},
    statcache,
    store::Store,
    sys,
    tree::{Kind, Meta, Node, STATE_FOLDER, Time, Totals},
    writers::Writers,
};

/// Tries to read a file that changes meanwhile.
const ATTEMPTS: usize = 3;

/// Knows what belongs to a checkpoint beside its workspace.
pub trait State {
    /// Called before the workspace is looked at. What is read here may be older than the workspace, never younger.
    fn begin(&mut self);

    /// Called when the workspace has been looked at.
    fn finish(&mut self, seen: &Seen<'_>) -> Captured;
}

/// The state of a folder that nothing but its files belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoState;

impl State for NoState {
    fn begin(&mut self) {}

    fn finish(&mut self, _seen: &Seen<'_>) -> Captured {
        Captured::default()
    }
}

/// The workspace as it was captured, before that is committed.
pub struct Seen<'a> {
    /// The workspace folder's sums.
    pub totals: Totals,
    /// Entries that were left out.
    pub omissions: &'a [Omission],
    /// The maker of the ids of captured objects.
    pub ids: &'a Ids,
    pub(super) entries: Option<statcache::Lookup>,
}

impl Seen<'_> {
    /// True if the entry at a path from the workspace folder, or a folder that it is in, was left out.
    pub fn is_left_out(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
        ends.into_iter().any(|end| {
            let at = self.omissions.partition_point(|omission| omission.path.as_slice() < &path[..end]);
            let here = self.omissions[at..].iter().take_while(|omission| omission.path == path[..end]);
            here.into_iter().any(|omission| omission.reason != Reason::Changing)
        })
    }

    /// The entry at a path from the workspace folder, as it was captured. `None` where there is none, or nothing is known of it.
    pub fn entry(&self, path: &[u8]) -> Option<Node> {
        self.entries.as_ref()?.find(path)
    }
}

/// Sources of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateContent {
    /// They are here.
    Bytes(Vec<u8>),
    /// A file as it is when it is read. One that did not change since the last checkpoint is not read again.
    File {
        /// The file.
        path: PathBuf,
    },
    /// The beginning of a file that only grows. Of what the last checkpoint has of it nothing is read again.
    Beginning {
        /// The file.
        path: PathBuf,
        /// Number of its first bytes.
        bytes: u64,
    },
}

/// A file of the folder `state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// Its path from `state`, with `/`.
    pub path: String,
    /// The part that it belongs to, which fails where it cannot be read.
    pub part: String,
    /// Its content.
    pub content: StateContent,
    /// Its modification time; that of the capture where there is none.
    pub mtime: Option<Time>,
}

/// State of a checkpoint beside its workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Captured {
    /// The files.
    pub files: Vec<StateFile>,
    /// The state of each part.
    pub parts: BTreeMap<String, Part>,
    /// The agent's state while the workspace was captured.
    pub consistency: Consistency,
    /// The conversation. Two checkpoints of equal workspaces and equal values here are taken for unchanged.
    pub conversation: Option<Value>,
    /// The state of git.
    pub git: Option<Value>,
    /// The environment.
    pub environment: Option<Value>,
    /// Tokens and cost.
    pub usage: Option<Value>,
}

/// A state as it was stored.
pub(super) struct Taken {
    /// The folder `state`; none where it has no files.
    pub(super) folder: Option<Node>,
    /// Append caches of its files that grow, by their paths.
    pub(super) grown: Vec<(PathBuf, AppendCache)>,
    /// Files that were read, and their bytes.
    pub(super) read: (u64, u64),
}

/// Reads a state's files into the sink. `before` is the tree of the state folder in the session's checkpoint before. A file that cannot be read makes its part a failed one; the others are kept.
pub(super) fn take(
    store: &Store,
    sink: &Sink<'_>,
    pin: &mut Pin,
    before: Option<TreeId>,
    captured: &mut Captured,
    progress: &dyn Progress,
) -> Result<Taken> {
    let mut taking = Taking {
        store,
        pin,
        before,
        batch: Batch::new(sink)?,
        reader: Reader::new(store, progress),
        grown: Vec::new(),
        read: (0, 0),
        filesystems: Filesystems::default(),
        writers: Writers::default(),
    };
    let mut root = Folder::default();
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let now = clock::now();
    for file in &captured.files {
        let parts: Vec<&str> = file.path.split('/').collect();
        if !parts.iter().all(|part| name::is_valid(part.as_bytes())) {
            return Err(Error::Invalid(format!("'{}' is no path of a file beside a workspace", file.path)));
        }
        let name = parts.last().copied().unwrap_or_default();
        let before = taking.before(&file.path)?;
        match taking.content(&file.content, name, &Earlier::new(store, before)) {
            Ok((blob, size)) => {
                let meta = meta(0o600, owner, file.mtime.unwrap_or(now));
                let kind = Kind::File { size, blob, holes: Vec::new() };
                root.put(&parts, Node { name: name.into(), meta, links: 1, kind })?;
            }
            Err(Failure::Store(error)) => return Err(error),
            // Without it, nobody would know what a restore must not delete.
            Err(Failure::Unreadable(errno)) if file.path == OMISSIONS_FILE => {
                return Err(errno).at("put down the list of what was left out for", &store.layout().root);
            }
            Err(Failure::Unreadable(errno)) => {
                let place = match &file.content {
                    StateContent::File { path } | StateContent::Beginning { path, .. } => path.display().to_string(),
                    StateContent::Bytes(_) => file.path.clone(),
                };
                let error = format!("{place}: {}", std::io::Error::from(errno));
                captured.parts.insert(file.part.clone(), Part::Failed { error });
            }
        }
    }
    let tree_before = taking.before;
    let mut batch = taking.batch;
    let folder = match root.entries.is_empty() {
        true => None,
        false => Some(root.encode(STATE_FOLDER, &meta(0o700, owner, now), &mut batch, store, tree_before)?),
    };
    batch.finish()?;
    Ok(Taken { folder, grown: taking.grown, read: taking.read })
}

fn meta(mode: u32, (uid, gid): (u32, u32), mtime: Time) -> Meta {
    Meta { mode, uid, gid, mtime, xattrs: Vec::new() }
}

struct Taking<'t, 'a> {
    store: &'t Store,
    pin: &'t mut Pin,
    before: Option<TreeId>,
    batch: Batch<'a>,
    reader: Reader<'a>,
    grown: Vec<(PathBuf, AppendCache)>,
    read: (u64, u64),
    filesystems: Filesystems,
    writers: Writers,
}

impl Taking<'_, '_> {
    /// Content of the file at a path of the state in the checkpoint before. One that cannot be read there is not built upon.
    fn before(&self, path: &str) -> Result<Option<(BlobId, u64)>> {
        let mut tree = self.before;
        let mut found = None;
        for part in path.split('/') {
            let Some(folder) = tree.take() else { return Ok(None) };
            found = match self.store.entry(folder, part.as_bytes()) {
                Ok(entry) => entry,
                Err(e) if e.is_damage() => None,
                Err(e) => return Err(e),
            };
            tree = found.as_ref().and_then(|node| node.as_folder()).map(|(tree, _)| tree);
        }
        Ok(found.and_then(|node| match node.kind {
            Kind::File { size, blob, .. } => Some((blob, size)),
            _ => None,
        }))
    }

    fn content(&mut self, content: &StateContent, name: &str, earlier: &Earlier<'_>) -> Result<(BlobId, u64), Failure> {
        let (blob, size, read) = match content {
            StateContent::Bytes(bytes) => {
                let blob = put_bytes(&mut self.reader, &mut self.batch, bytes, name, earlier)?;
                (blob, bytes.len() as u64, bytes.len() as u64)
            }
            StateContent::File { path } => self.file(path, name, earlier)?,
            StateContent::Beginning { path, bytes } => self.beginning(path, *bytes, name, earlier)?,
        };
        self.read = (self.read.0 + 1, self.read.1 + read);
        Ok((blob, size))
    }

    /// The first bytes of a file that only grows.
    fn beginning(&mut self, path: &Path, bytes: u64, name: &str, earlier: &Earlier<'_>) -> Result<(BlobId, u64, u64), Failure> {
        let file = open(path)?;
        let before = self.known(path)?;
        let found = append_cache::read(&mut self.reader, &mut self.batch, &file, bytes, before, name.as_bytes(), earlier)?;
        self.grown.push((path.to_owned(), found.grown));
        Ok((found.blob, bytes, found.bytes_read))
    }

    /// A whole file. One that changes while it is read is read again.
    fn file(&mut self, path: &Path, name: &str, earlier: &Earlier<'_>) -> Result<(BlobId, u64, u64), Failure> {
        let mut bytes_read = 0;
        for attempt in 1..=ATTEMPTS {
            // Whoever replaces a file leaves us the one that we have opened.
            let file = open(path)?;
            let stat = sys::stat_fd(&file)?;
            let clock = Clock::now();
            let filesystem = self.filesystems.of(file.as_fd(), stat.dev);
            let known = self.known(path)?.filter(|known| known.is_unchanged(&filesystem, &stat, &clock));
            let may_change_unseen = self.writers.may_change_unseen(file.as_fd(), &filesystem, &stat);
            let read = append_cache::read(&mut self.reader, &mut self.batch, &file, stat.size, known, name.as_bytes(), earlier);
            let found = match read {
                Err(Failure::Unreadable(Errno::AGAIN)) => continue,
                read => read?,
            };
            bytes_read += found.bytes_read;
            let after = sys::stat_fd(&file)?;
            let is_still = (after.size, after.mtime, after.ctime) == (stat.size, stat.mtime, stat.ctime);
            // One that keeps growing is kept as it was when it was looked at last.
            if is_still || attempt == ATTEMPTS && after.size > stat.size {
                let is_settled = is_still && !may_change_unseen;
                let grown = if is_settled { found.grown.settled(&filesystem, &stat, clock) } else { found.grown };
                self.grown.push((path.to_owned(), grown));
                return Ok((found.blob, stat.size, bytes_read));
            }
        }
        Err(Failure::Unreadable(Errno::AGAIN))
    }

    /// Append cache of a file that grows, if the checkpoint that has its chunks still exists, and is kept for as long as this run.
    fn known(&mut self, path: &Path) -> Result<Option<AppendCache>> {
        let Some((base, grown)) = AppendCache::read(self.store.layout(), path) else { return Ok(None) };
        self.pin.add([base])?;
        Ok(self.store.refresh()?.checkpoint(base)?.map(|_| grown))
    }
}

/// Stores bytes as the content of a file of this name.
pub(super) fn put_bytes(
    reader: &mut Reader<'_>,
    batch: &mut Batch<'_>,
    bytes: &[u8],
    name: &str,
    earlier: &Earlier<'_>,
) -> Result<BlobId, Failure> {
    if bytes.len() <= SINGLE_CHUNK_BYTES {
        let blob = reader.ids().blob(bytes);
        if !bytes.is_empty() {
            batch.small_chunk(blob.object(), bytes, name.as_bytes(), earlier.small())?;
        }
        return Ok(blob);
    }
    // Large files are cut while they are read, so that it becomes one.
    let mut file = File::from(rustix::fs::memfd_create("state", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes).map_err(errno)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    let (blob, _) = reader.read_once(file.as_fd(), name.as_bytes(), bytes.len() as u64, &[], earlier, batch)?;
    Ok(blob)
}

fn errno(e: std::io::Error) -> Errno {
    Errno::from_io_error(&e).unwrap_or(Errno::IO)
}

fn open(path: &Path) -> Result<File, Errno> {
    use std::os::unix::fs::OpenOptionsExt;
    // A fifo in the file's place must not make us wait.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(nonblock).open(path).map_err(errno)?;
    if sys::stat_fd(&file)?.is_file() { Ok(file) } else { Err(Errno::INVAL) }
}

/// A folder on its way into a tree.
#[derive(Default)]
struct Folder {
    entries: BTreeMap<Vec<u8>, Item>,
}

enum Item {
    File(Node),
    Folder(Folder),
}

impl Folder {
    fn put(&mut self, parts: &[&str], node: Node) -> Result<()> {
        let twice = || Error::Invalid(format!("two files beside a workspace are called {}", parts.join("/")));
        match parts {
            [] => Err(twice()),
            [name] => match self.entries.insert(name.as_bytes().to_vec(), Item::File(node)) {
                None => Ok(()),
                Some(_) => Err(twice()),
            },
            [name, rest @ ..] => {
                match self.entries.entry(name.as_bytes().to_vec()).or_insert_with(|| Item::Folder(Folder::default())) {
                    Item::Folder(folder) => folder.put(rest, node),
                    Item::File(_) => Err(twice()),
                }
            }
        }
    }

    /// Stores the folder, which had the tree `before` in the checkpoint before.
    fn encode(self, name: &str, meta: &Meta, batch: &mut Batch<'_>, store: &Store, before: Option<TreeId>) -> Result<Node> {
        let mut nodes = Vec::with_capacity(self.entries.len());
        for (name, item) in self.entries {
            nodes.push(match item {
                Item::File(node) => node,
                Item::Folder(folder) => {
                    let inside = before.and_then(|before| store.entry(before, &name).ok().flatten());
                    let inside = inside.as_ref().and_then(Node::as_folder).map(|(tree, _)| tree);
                    folder.encode(&String::from_utf8_lossy(&name), meta, batch, store, inside)?
                }
            });
        }
        let (tree, totals) = batch.folder(&nodes, before)?;
        Ok(Node { name: name.into(), meta: meta.clone(), links: 1, kind: Kind::Folder { tree, totals } })
    }
}

/// Keeps what is known of files that grow, tied to the checkpoint that has their chunks.
pub(super) fn remember(store: &Store, grown: &[(PathBuf, AppendCache)], checkpoint: Ulid) {
    for (path, grown) in grown {
        // Without it the next run reads more; that is no reason to fail this one.
        let _ = grown.write(store.layout(), path, checkpoint);
    }
}
