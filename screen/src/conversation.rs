//! The conversation that a checkpoint adds to another, as lines.

use std::collections::VecDeque;

use parhelia_agent::transcript::messages::{Message, Role};
use parhelia_host::{Result, conversation::added};
use parhelia_life::review_report;
use parhelia_store::{Store, record::Checkpoint};

use crate::{
    human,
    state::Excerpt,
    text::{Line, Tone},
};

/// Bytes of each message that are shown.
const TEXT_BYTES_MAX: usize = 4000;
/// Lines of a tool's result that are shown.
const RESULT_LINES_MAX: usize = 6;
/// Messages that are shown, the newest ones.
const MESSAGES_MAX: usize = 5000;

/// Reads it, with the questions that are open at its end.
pub fn read(store: &Store, then: Option<&Checkpoint>, now: &Checkpoint) -> Result<Excerpt> {
    let mut messages: VecDeque<Message> = VecDeque::new();
    let mut left_out = 0;
    let found = added::read(store, then, now, TEXT_BYTES_MAX, |message| {
        messages.push_back(message);
        if messages.len() > MESSAGES_MAX {
            messages.pop_front();
            left_out += 1;
        }
    })?;
    let mut lines = Lines::default();
    match found {
        None => lines.note("The checkpoint holds no conversation."),
        Some(found) if !found.continues && found.has_older => {
            lines.note("The conversation is another one, or was rewritten: all of it is shown.");
        }
        Some(found) if found.skipped_bytes > 0 => {
            lines.note(&format!("{} before this are not shown.", human::size(found.skipped_bytes)));
        }
        Some(_) if messages.is_empty() => lines.note("Nothing was said since."),
        Some(_) => {}
    }
    if left_out > 0 {
        lines.note(&format!("{} before these are not shown.", human::count(left_out, "message")));
    }
    messages.iter().for_each(|message| lines.add(message));
    let questions = review_report::open_questions(store, now)?;
    lines.questions(&questions);
    Ok(Excerpt { lines: lines.lines, failed: lines.failed, questions: questions.len() })
}

/// Lines of a conversation, and which of its calls still have no result.
#[derive(Default)]
struct Lines {
    lines: Vec<Line>,
    failed: usize,
    /// Of each call without a result its line, and true if it runs a command.
    open: VecDeque<(usize, bool)>,
}

impl Lines {
    fn note(&mut self, text: &str) {
        self.lines.push(Line::new("", Tone::Dim, text));
    }

    fn put(&mut self, sign: &'static str, tone: Tone, text: &str) {
        self.lines.extend(text.lines().map(|line| Line::new(sign, tone, line)));
        if text.len() + 4 > TEXT_BYTES_MAX {
            self.note("… the rest is not shown.");
        }
    }

    fn gap(&mut self) {
        if !self.lines.is_empty() {
            self.lines.push(Line::default());
        }
    }

    fn add(&mut self, message: &Message) {
        match message.role {
            Role::User => {
                self.gap();
                self.put(">", Tone::Prompt, &message.text);
                // What had no result by then gets none.
                self.open.clear();
            }
            Role::Assistant => {
                if !message.text.trim().is_empty() {
                    self.gap();
                }
                self.put("", Tone::Plain, &message.text);
                for call in &message.calls {
                    let runs = review_report::runs_command(call);
                    self.open.push_back((self.lines.len(), runs));
                    let about = call.about.lines().next().unwrap_or_default();
                    let text = if runs { about.to_owned() } else { format!("{}: {about}", call.tool) };
                    self.lines.push(Line::new(if runs { "$" } else { "*" }, Tone::Call, &text));
                }
            }
            Role::Tool => self.result(message),
        }
    }

    /// Results come in the order of the calls.
    fn result(&mut self, message: &Message) {
        let call = self.open.pop_front();
        let tone = if message.is_error { Tone::Bad } else { Tone::Dim };
        if let Some(line) = call.and_then(|(line, _)| self.lines.get_mut(line)).filter(|_| message.is_error) {
            (line.sign, line.tone) = ("!", Tone::Bad);
        }
        self.failed += usize::from(message.is_error && call.is_some_and(|(_, runs)| runs));
        let count = message.text.lines().count();
        if message.is_error {
            self.lines.push(Line::new("!", Tone::Bad, "failed:"));
        }
        for line in message.text.lines().take(RESULT_LINES_MAX) {
            self.lines.push(Line::new("|", tone, line));
        }
        if let Some(more) = count.checked_sub(RESULT_LINES_MAX).filter(|more| *more > 0) {
            self.lines.push(Line::new("|", Tone::Dim, &format!("… {}", human::count(more as u64, "more line"))));
        }
    }

    fn questions(&mut self, questions: &[String]) {
        if questions.is_empty() {
            return;
        }
        self.gap();
        self.lines.push(Line::new("", Tone::Heading, "Open questions"));
        questions.iter().for_each(|question| self.put("?", Tone::Question, question));
    }
}

#[cfg(test)]
mod tests {
    use parhelia_agent::transcript::messages::Call;

    use super::*;

    fn message(role: Role, text: &str, calls: &[(&str, &str)], is_error: bool) -> Message {
        let calls = calls.iter().map(|(tool, about)| Call { tool: (*tool).into(), about: (*about).into() }).collect();
        Message { role, record: None, at: None, text: text.into(), text_bytes: text.len() as u64, calls, is_error }
    }

    #[test]
    fn failed_commands_and_open_questions_are_marked() {
        let mut lines = Lines::default();
        lines.add(&message(Role::User, "fix\nit", &[], false));
        lines.add(&message(Role::Assistant, "I look.", &[("Bash", "cargo test"), ("Read", "a\x1b[2J.rs")], false));
        lines.add(&message(Role::Tool, "1\n2\n3\n4\n5\n6\n7\n8", &[], true));
        lines.add(&message(Role::Tool, "content", &[], false));
        lines.questions(&["which one?".into()]);
        let shown: Vec<String> = lines.lines.iter().map(|line| format!("{}{}", line.sign, line.text)).collect();
        let expected = [
            ">fix",
            ">it",
            "",
            "I look.",
            "!cargo test",
            "*Read: a\\x1b[2J.rs",
            "!failed:",
            "|1",
            "|2",
            "|3",
            "|4",
            "|5",
            "|6",
            "|… 2 more lines",
            "|content",
            "",
            "Open questions",
            "?which one?",
        ];
        assert_eq!(shown, expected);
        assert_eq!(lines.failed, 1);
    }
}
