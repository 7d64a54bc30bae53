//! Restore: into a new folder, and in place.

use std::path::Path;

use crate::error::{Error, Result};
use crate::process;
use crate::side::lab::Lab;
use crate::side::launch::sync_filesystem;
use crate::walk;

/// Restore of the whole tree into a folder that does not exist yet.
pub fn new_folder(lab: &mut Lab) -> Result<()> {
    lab.store_tree()?;
    let tree = lab.tree()?;
    let to = lab.root.join("restored");
    lab.rounds("restore", |lab| {
        for tool in lab.tools.all() {
            process::remove(&to)?;
            sync_filesystem(&lab.root)?;
            let Some((outcome, restored)) = tool.restore(&lab.runner, &to)? else {
                continue;
            };
            lab.figures.add("restore", tool.name(), outcome);
            if tool.complete() {
                same_files(tool.name(), &tree, &restored)?;
            }
        }
        process::remove(&to)
    })
}

/// A cheap check that the work was done: as many entries, files and bytes.
fn same_files(tool: &str, tree: &Path, restored: &Path) -> Result<()> {
    let (wanted, got) = (walk::count(tree)?, walk::count(restored)?);
    if (wanted.entries, wanted.files, wanted.bytes) == (got.entries, got.files, got.bytes) {
        return Ok(());
    }
    Err(Error::new(format!(
        "{tool} restored {} entries, {} files, {} bytes of {} entries, {} files, {} bytes",
        got.entries, got.files, got.bytes, wanted.entries, wanted.files, wanted.bytes
    )))
}

/// Restore of a live tree in which ten files were edited.
pub fn in_place(lab: &mut Lab) -> Result<()> {
    lab.store_tree()?;
    let tree = lab.tree()?;
    // Taken out, because editing the tree needs the whole lab.
    let mut tools = std::mem::take(&mut lab.tools);
    let outcome = lab.rounds("in-place", |lab| {
        for tool in tools.all() {
            // Untimed: what another tool wrote back is no difference to be found.
            let settled = tool.restore_in_place(&lab.runner, &tree)?;
            if settled.is_none() {
                continue;
            }
            lab.edit_ten()?;
            if let Some(outcome) = tool.restore_in_place(&lab.runner, &tree)? {
                lab.figures.add("in-place", tool.name(), outcome);
            }
        }
        lab.time_walk("in-place", &tree)
    });
    lab.tools = tools;
    outcome
}
