//! Trees: a folder's entries as content-addressed nodes. Equal folders have equal ids, wherever they are.

mod encoding;
mod extension;
mod node;
mod read;
#[cfg(test)]
mod tests;

pub use encoding::{Child, ENTRIES_UNSPLIT, TreeNode, decode, encode_folder, encode_folder_parts};
pub use node::{Kind, Node, Totals, features, is_xattr_name};
pub use read::{DEPTH_MAX, Trees};

pub use crate::meta::{Hole, Meta, Time, Xattr};

/// The folder of a checkpoint that holds the workspace's files.
pub const WORKSPACE_FOLDER: &str = "workspace";
/// The folder of a checkpoint that holds what belongs to it beside the workspace.
pub const STATE_FOLDER: &str = "state";
