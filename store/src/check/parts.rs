//! Parts of a checkpoint: is there what its record says was captured?

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    error::Result,
    record::{Checkpoint, Part},
    store::Store,
    tree::{Kind, STATE_FOLDER, WORKSPACE_FOLDER},
};

/// A part that a checkpoint lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lack {
    /// Name of the part, such as `conversation`.
    pub part: String,
    /// Reason.
    pub error: String,
}

/// Parts that a checkpoint lacks: those that failed, and those that were captured and have no file. A part's files are the folder of its name
/// in `state`, or the file of its name there that ends in `.json`.
pub(super) fn lacks(store: &Store, checkpoint: &Checkpoint) -> Vec<Lack> {
    // What cannot be read is damage, which is named by its path.
    let there = names(store, checkpoint).ok();
    let missing = |name: &str| there.as_ref().is_some_and(|there| !there.contains(name));
    let lacks = checkpoint.record.parts.iter().filter_map(|(part, state)| {
        let error = match state {
            Part::Failed { error } => error.clone(),
            Part::Captured if missing(part) => "it was captured, and none of its files is there".to_owned(),
            Part::Captured | Part::Absent | Part::NotAsked | Part::Unknown => return None,
        };
        Some(Lack { part: part.clone(), error })
    });
    lacks.collect()
}

/// Names of the parts of which something is there.
fn names(store: &Store, checkpoint: &Checkpoint) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    for node in store.folder(checkpoint.record.root)? {
        let Some((tree, totals)) = node.as_folder() else { continue };
        if node.name == WORKSPACE_FOLDER.as_bytes() {
            names.insert(WORKSPACE_FOLDER.to_owned());
        } else if node.name == STATE_FOLDER.as_bytes() && totals.entries > 0 {
            names.extend(store.folder(tree)?.into_iter().filter_map(|node| {
                let name = String::from_utf8(node.name).ok()?;
                match node.kind {
                    Kind::Folder { totals, .. } => (totals.files > 0).then_some(name),
                    _ => name.strip_suffix(".json").map(str::to_owned),
                }
            }));
        }
    }
    Ok(names)
}
