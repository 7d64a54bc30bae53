//! Going back to before a prompt, as an agent does whose user withdraws it.

use super::{
    index::Index,
    parts::{Mark, Phase},
};

/// Prompts that can be gone back to; the oldest go first.
const MARKS_MAX: usize = 16;

impl Index {
    /// Notes what there is before a prompt.
    pub(crate) fn mark(&mut self, record: &str) {
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark {
            record: record.to_owned(),
            prompts: self.counts.prompts,
            first_prompt: self.first_prompt.clone(),
            last_prompt: self.last_prompt.clone(),
            last_reply: self.last_reply.clone(),
            todos: self.todos.clone(),
        });
    }

    /// Goes back to before a prompt. Where that is not known any more, nothing is said of what is to be done.
    pub(crate) fn rewind(&mut self, record: &str) {
        self.phase = Phase::Idle;
        self.counts.tool_calls_abandoned += self.pending.len() as u64;
        self.pending.clear();
        if let Some(turn) = self.turns.iter().position(|turn| turn.record.as_deref() == Some(record)) {
            if let Some(turn) = self.turns.get(turn) {
                self.story.withdraw(turn.offset);
                self.statements.withdraw(turn.offset);
            }
            self.turns.truncate(turn);
        }
        let Some(at) = self.marks.iter().position(|mark| mark.record == record) else {
            self.marks.clear();
            (self.last_prompt, self.last_reply) = (None, None);
            self.todos.clear();
            return;
        };
        let Some(mark) = self.marks.drain(at..).next() else { return };
        self.counts.prompts = mark.prompts;
        (self.first_prompt, self.last_prompt, self.last_reply) = (mark.first_prompt, mark.last_prompt, mark.last_reply);
        self.todos = mark.todos;
    }
}
