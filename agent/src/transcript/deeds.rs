//! Deeds of tools, as an index takes them in.

use super::{index::Index, story::ToolAction};

impl Index {
    /// Takes in what a tool did. `at` is the offset of the record that says so.
    pub(crate) fn did(&mut self, deed: ToolAction, at: u64) {
        match &deed {
            ToolAction::Ran { line, output, .. } => self.statements.printed(line, output, self.counts.prompts, at),
            ToolAction::Changed(change) => {
                let (added, removed) = change.lines();
                if let Some(used) = self.files.get_mut(&change.path) {
                    used.lines_added = used.lines_added.saturating_add(added);
                    used.lines_removed = used.lines_removed.saturating_add(removed);
                }
            }
            ToolAction::Rejected(_) | ToolAction::Fetched(_) => {}
        }
        self.story.did(deed, at);
    }
}
