//! Reading what a checkpoint has beside its workspace.

use parhelia_store::{
    Store,
    create::STATE_FOLDER,
    id::TreeId,
    record::Checkpoint,
    tree::{Kind, Node},
};
use serde_json::Value;

use crate::error::Result;

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

/// A file's bytes.
pub fn state_bytes(store: &Store, checkpoint: &Checkpoint, path: &str) -> Result<Option<Vec<u8>>> {
    let Some(Node { kind: Kind::File { blob, size, .. }, .. }) = state_file(store, checkpoint, path)? else { return Ok(None) };
    Ok(Some(store.blob(blob, size)?.read_all()?))
}

/// A file that holds JSON; none where it does not decode.
pub fn state_json(store: &Store, checkpoint: &Checkpoint, path: &str) -> Result<Option<Value>> {
    Ok(state_bytes(store, checkpoint, path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// All files below a folder of `state`, with paths from there.
pub(crate) fn files_below(store: &Store, tree: TreeId) -> Result<Vec<(String, Node)>> {
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
