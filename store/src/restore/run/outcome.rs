//! Counts of a restore, and entries that it lost.

use std::{collections::HashSet, sync::PoisonError};

use super::Run;
use crate::{
    error::Result,
    restore::{link_plan::Link, publish::PublishOutcome, summary::Counts, table::Action},
};

impl Run<'_> {
    /// The counts of what was made: those of the plan, but for what was skipped.
    pub fn made(&self, published: &PublishOutcome) -> Result<Counts> {
        let plan = self.plan;
        let mut counts = plan.summary.counts.clone();
        (counts.deleted, counts.metadata_changed) = (published.deleted, published.metadata);
        let lost = self.lost();
        if lost.is_nothing() {
            return Ok(counts);
        }
        let gone = plan.folders.iter().zip(&lost.folders).filter(|(line, is_lost)| **is_lost && line.wanted);
        counts.folders_created -= gone.count() as u64;
        let is_lost = |folder: u32, index: u32| lost.has(folder, index);
        for item in plan.items.iter().filter(|item| item.action != Action::Meta && is_lost(item.folder, item.index)) {
            let node = plan.node(item.folder, item.index)?;
            if node.as_folder().is_none() && !plan.options.withholds(&node) {
                counts.take(item.action, &node);
            }
        }
        let is_parted = |link: &&Link| is_lost(link.folder, link.index) || is_lost(link.from_folder, link.from_index);
        counts.linked -= plan.links.iter().filter(is_parted).count() as u64;
        Ok(counts)
    }

    /// The entries that were not made, by now.
    pub fn lost(&self) -> FailedEntries {
        let entries = self.not_made.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut folders = vec![false; self.plan.folders.len()];
        for (folder, line) in self.plan.folders.iter().enumerate().skip(1).filter(|(_, line)| line.is_new) {
            folders[folder] = folders[line.parent as usize] || entries.contains(&(line.parent, line.index));
        }
        FailedEntries { entries, folders }
    }
}

/// Entries that a restore could not make.
pub struct FailedEntries {
    entries: HashSet<(u32, u32)>,
    /// Of each folder, whether it is a new one that was not made, or is in one.
    pub(super) folders: Vec<bool>,
}

impl FailedEntries {
    pub(super) fn is_nothing(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if an entry is among it, or is in a folder that is.
    pub fn has(&self, folder: u32, index: u32) -> bool {
        self.folders[folder as usize] || self.entries.contains(&(folder, index))
    }
}
