//! Comparing two folders: two checkpoints, or a checkpoint and a folder that was only looked at.

mod change;
mod folder;
mod renames;
#[cfg(test)]
mod tests;
mod text;
mod trees;

pub use change::{ChangeKind, Fields, Summary, TreeChange};
pub use renames::find_renames;
pub use text::{ContentOf, TEXT_BYTES_MAX, Text, TextOptions, file_diff, is_binary, line_counts, store_content, unified};
pub use trees::{DiffOptions, Side, compare, compare_each};
