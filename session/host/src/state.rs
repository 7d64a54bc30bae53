//! Reading what a checkpoint has beside its workspace.

use std::collections::BTreeMap;

use parhelia_store::{
    Store,
    create::{STATE_FOLDER, StateContent, StateFile},
    id::TreeId,
    record::{Checkpoint, Part},
    tree::{Kind, Node},
};
use serde_json::Value;

use crate::Result;

/// The part that holds the conversation.
pub const CONVERSATION: &str = "conversation";
/// The part that lists the files that the session worked on.
pub const CONTEXT: &str = "context";
/// The part that says which session, and which run of it, this is.
pub const SESSION_STATE: &str = "session_state";

/// The entry at a path in a checkpoint's `state`.
pub fn state_file(store: &Store, checkpoint: &Checkpoint, path: &str) -> Result<Option<Node>> {
    let Some(mut node) = store.entry(checkpoint.record.root, STATE_FOLDER.as_bytes())? else { return Ok(None) };
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let Some((tree, _)) = node.as_folder() else { return Ok(None) };
        match store.entry(tree, part.as_bytes())? {
            Some(next) => node = next,
            None => return Ok(None),
        }
    }
    Ok(Some(node))
}

/// Whole content of the regular file at a path below `state/`; none where there is no such file.
pub fn state_bytes(store: &Store, checkpoint: &Checkpoint, path: &str) -> Result<Option<Vec<u8>>> {
    let Some(Node { kind: Kind::File { blob, size, .. }, .. }) = state_file(store, checkpoint, path)? else { return Ok(None) };
    Ok(Some(store.blob(blob, size)?.read_all()?))
}

/// A file that holds JSON; none where it does not decode.
pub fn state_json(store: &Store, checkpoint: &Checkpoint, path: &str) -> Result<Option<Value>> {
    Ok(state_bytes(store, checkpoint, path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// All files below a folder of `state`, with paths from there.
pub fn files_below(store: &Store, tree: TreeId) -> Result<Vec<(String, Node)>> {
    let mut found = Vec::new();
    let mut folders = vec![(String::new(), tree)];
    while let Some((prefix, tree)) = folders.pop() {
        for node in store.folder(tree)? {
            let path = format!("{prefix}{}", String::from_utf8_lossy(&node.name));
            match node.as_folder() {
                Some((below, _)) => folders.push((format!("{path}/"), below)),
                None => found.push((path, node)),
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// A file of a part, from bytes in memory.
pub fn file(part: &str, path: &str, bytes: Vec<u8>) -> StateFile {
    StateFile { path: path.to_owned(), part: part.to_owned(), content: StateContent::Bytes(bytes), mtime: None }
}

/// Records the state of a part: `Ok(true)` is captured, `Ok(false)` absent, an error failed.
pub fn set_part(parts: &mut BTreeMap<String, Part>, name: &str, looked: Result<bool, String>) {
    let part = match looked {
        Ok(true) => Part::Captured,
        Ok(false) => Part::Absent,
        Err(error) => Part::Failed { error },
    };
    parts.insert(name.to_owned(), part);
}
