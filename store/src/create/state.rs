//! State of a checkpoint beside its workspace: the folder `state`, and the fields of the record that go with it. A caller
//! gives it by implementing [`State`]; the store takes it in by the same way as a workspace's files.

mod content;
mod folder;

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::Value;

pub(super) use self::content::put_bytes;
use self::{content::StateWriter, folder::Folder};
use super::{
    append_cache::AppendCache,
    content::{Earlier, Failure, Reader},
    sink::{Batch, Sink},
};
use crate::{
    clock,
    error::{Error, IoContext, Result},
    filesystem::Filesystems,
    id::{TreeId, Ulid},
    keys::Ids,
    name,
    omitted::{ATTRIBUTES_FILE, OMISSIONS_FILE, Omission},
    pin::Pin,
    progress::Progress,
    record::{Consistency, Part},
    statcache,
    store::Store,
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
    fn finish(&mut self, seen: &CapturedWorkspace<'_>) -> CapturedState;
}

/// The state of a folder that nothing but its files belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoState;

impl State for NoState {
    fn begin(&mut self) {}

    fn finish(&mut self, _seen: &CapturedWorkspace<'_>) -> CapturedState {
        CapturedState::default()
    }
}

/// The workspace as it was captured, before that is committed.
pub struct CapturedWorkspace<'a> {
    /// The workspace folder's sums.
    pub totals: Totals,
    /// Entries that were left out.
    pub omissions: &'a [Omission],
    /// The maker of the ids of captured objects.
    pub ids: &'a Ids,
    pub(super) entries: Option<statcache::Lookup>,
}

impl CapturedWorkspace<'_> {
    /// True if the entry at a path from the workspace folder, or a folder that it is in, was left out.
    pub fn is_left_out(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
        ends.into_iter().any(|end| {
            let at = self.omissions.partition_point(|omission| omission.path.as_slice() < &path[..end]);
            let here = self.omissions[at..].iter().take_while(|omission| omission.path == path[..end]);
            here.into_iter().any(|omission| omission.reason.is_left_out())
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
    /// The bytes, or the file that has them.
    pub content: StateContent,
    /// Its modification time; that of the capture where there is none.
    pub mtime: Option<Time>,
}

/// State of a checkpoint beside its workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapturedState {
    /// Files to store below `state/`, in any order.
    pub files: Vec<StateFile>,
    /// The state of each part.
    pub parts: BTreeMap<String, Part>,
    /// The agent's state while the workspace was captured.
    pub consistency: Consistency,
    /// The conversation. Two checkpoints of equal workspaces and equal values here are taken for unchanged.
    pub conversation: Option<Value>,
    /// The state of git.
    pub git: Option<Value>,
    /// Facts about the machine and the agent's settings, as the record has them; none where they were not captured.
    pub environment: Option<Value>,
    /// Tokens and cost.
    pub usage: Option<Value>,
}

/// A state as it was stored.
pub(super) struct StoredState {
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
    captured: &mut CapturedState,
    progress: &dyn Progress,
) -> Result<StoredState> {
    let mut taking = StateWriter {
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
            Err(Failure::Unreadable(errno)) if [OMISSIONS_FILE, ATTRIBUTES_FILE].contains(&&*file.path) => {
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
    Ok(StoredState { folder, grown: taking.grown, read: taking.read })
}

fn meta(mode: u32, (uid, gid): (u32, u32), mtime: Time) -> Meta {
    Meta { mode, uid, gid, mtime, xattrs: Vec::new() }
}

/// Keeps what is known of files that grow, tied to the checkpoint that has their chunks.
pub(super) fn remember(store: &Store, grown: &[(PathBuf, AppendCache)], checkpoint: Ulid) {
    for (path, grown) in grown {
        // Without it the next run reads more; that is no reason to fail this one.
        let _ = grown.write(store.layout(), path, checkpoint);
    }
}
