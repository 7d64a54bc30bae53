//! Content that differs between two checkpoints of a workspace.

use parhelia_store::{
    Store,
    diff::{ChangeKind, Side, TreeChange, compare_each},
    name,
    record::Checkpoint,
    restore::is_staged,
};

use crate::error::Result;

/// Calls `visit` with each file, link or other entry without entries of its own whose content is not as it was. Git's own folders, and what a
/// restore was building, are left out.
pub fn each_content(store: &Store, then: &Checkpoint, now: &Checkpoint, visit: &mut dyn FnMut(TreeChange)) -> Result<()> {
    let (then, now) = (store.workspace_node(then)?, store.workspace_node(now)?);
    compare_each(Side::new(store, &then), Side::new(store, &now), false, &mut |change| {
        let is_metadata = matches!(change.kind, ChangeKind::Metadata(_));
        let is_folder = change.new.as_ref().or(change.old.as_ref()).is_some_and(|node| node.as_folder().is_some());
        if !is_metadata && !is_folder && !name::components(&change.path).any(|part| part == b".git" || is_staged(part)) {
            visit(change);
        }
        Ok(())
    })?;
    Ok(())
}
