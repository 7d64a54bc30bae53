//! The cases that are measured. Each leaves its samples in the lab's figures.

mod curve;
mod edited;
mod grown;
mod many;
mod mounts;
mod releases;
mod restore;
mod sessions;
mod tree;

pub use curve::SIZES as CURVE_SIZES;
pub use edited::FRESH;

use super::lab::Lab;
use super::options::Case;
use crate::error::Result;

type Run = fn(&mut Lab) -> Result<()>;

/// The cases in the order in which they run: those about one tree first, as they share its stores.
const CASES: [(Case, Run); 13] = [
    (Case::First, tree::first),
    (Case::Unchanged, tree::unchanged),
    (Case::Edits, tree::edits),
    (Case::Restore, restore::new_folder),
    (Case::InPlace, restore::in_place),
    (Case::Diff, tree::diff),
    (Case::Edited, edited::run),
    (Case::Versions, releases::run),
    (Case::Transcript, grown::run),
    (Case::Many, many::run),
    (Case::Scale, curve::run),
    (Case::Mounts, mounts::run),
    (Case::Sessions, sessions::run),
];

/// Runs every case that the options ask for.
pub fn run(lab: &mut Lab) -> Result<()> {
    for (case, run) in CASES {
        if lab.options.wants(case) {
            run(lab)?;
        }
    }
    Ok(())
}
