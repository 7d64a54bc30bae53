//! Reads what was written once more.

use std::{fs::File, os::fd::AsFd};

use super::{compare::hash, run::Run, table::Action};
use crate::{
    error::{Result, TargetContext},
    progress::{self, Phase},
    sys, tasks,
    tree::Kind,
};

impl Run<'_> {
    /// Reads every file that was written, and fails on the first that is not what it should be.
    pub fn verify(&self) -> Result<()> {
        let counts = &self.plan.summary.counts;
        self.progress.phase(Phase::Verify, Some(self.plan.items.len() as u64), Some(counts.bytes));
        tasks::in_order(self.threads(), self.plan.items.len(), |i, _: &mut ()| {
            let item = &self.plan.items[i];
            if item.action == Action::Meta || self.is_skipped(item.folder, item.index) {
                return Ok(());
            }
            progress::check(self.progress)?;
            let node = self.plan.node(item.folder, item.index)?;
            let Kind::File { size, blob, .. } = node.kind else { return Ok(()) };
            let path = self.path(item.folder, &node.name);
            let found = self
                .dirs
                .get(item.folder)
                .and_then(|folder| sys::open_file_at(folder.as_fd(), &self.name_now(item.folder, item.index, &node.name)))
                .and_then(|fd| hash(File::from(fd), self.store.ids()))
                .at_target("read", &path)?;
            if found != blob {
                let reason = format!("it was written as {blob} and reads back as {found}; the disk it is on may be failing");
                return Err(std::io::Error::other(reason)).at_target("verify", path);
            }
            self.progress.advance(1, size);
            Ok(())
        })?;
        Ok(())
    }
}
