//! Work that a checkpoint has saved: the task, next steps and decisions of its conversation.

use parhelia_store::{Store, record::Checkpoint};
use serde_json::Value;

use parhelia_host::{
    Result,
    state::{CONVERSATION, state_json},
};

/// The work that a checkpoint can tell of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedWork {
    /// True if it has the task.
    pub has_task: bool,
    /// Steps of the to-do list that are not done.
    pub next_steps: u64,
    /// Number of the user's decisions that its conversation tells of.
    pub decisions: u64,
}

impl SavedWork {
    /// The work of a checkpoint; none where it has no conversation.
    pub fn of(store: &Store, checkpoint: &Checkpoint) -> Result<Option<Self>> {
        if checkpoint.record.conversation.is_none() {
            return Ok(None);
        }
        let told = state_json(store, checkpoint, &format!("{CONVERSATION}/conversation.json"))?;
        Ok(told.map(|told| Self::told(&told["summary"])))
    }

    fn told(summary: &Value) -> Self {
        let has_text = |name: &str| summary[name].as_str().is_some_and(|text| !text.trim().is_empty());
        let todos = summary["todos"].as_array().map(Vec::as_slice).unwrap_or_default();
        SavedWork {
            has_task: has_text("last_prompt") || has_text("first_prompt"),
            next_steps: todos.iter().filter(|todo| todo["status"] != "completed").count() as u64,
            decisions: summary["decisions"].as_array().map_or(0, |list| list.len() as u64),
        }
    }

    /// It in words: `the task, 2 next steps, 1 decision`.
    pub fn text(&self) -> String {
        let count = |number: u64, one: &str| match number {
            0 => None,
            1 => Some(format!("1 {one}")),
            more => Some(format!("{more} {one}s")),
        };
        let parts = [
            self.has_task.then(|| "the task".to_owned()),
            count(self.next_steps, "next step"),
            count(self.decisions, "decision"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "a conversation without a task yet".to_owned() } else { parts.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn work_is_counted_and_told() {
        let summary = json!({
            "first_prompt": "fix it",
            "todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}],
            "decisions": ["x", "y"],
        });
        let work = SavedWork::told(&summary);
        assert_eq!(work, SavedWork { has_task: true, next_steps: 1, decisions: 2 });
        assert_eq!(work.text(), "the task, 1 next step, 2 decisions");
        assert_eq!(SavedWork::told(&json!({})).text(), "a conversation without a task yet");
    }
}
