//! A line that is typed in the footer: a search, or the reason of a decision.

use parhelia_oversight::review::decide::Verdict;
use parhelia_store::id::Ulid;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use tui_input::{InputRequest, backend::crossterm::EventHandler as _};

/// A line that is typed.
#[derive(Clone, Debug)]
pub struct Input {
    line: tui_input::Input,
    purpose: Purpose,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    Search,
    Reason {
        verdict: Verdict,
        checkpoint: Ulid,
        /// True if Enter was pressed on an empty line of a rejection.
        is_confirmed: bool,
    },
}

/// The outcome of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyOutcome {
    /// The line goes on.
    More,
    /// The line was left without an outcome, by Esc, Ctrl-C or Backspace on an empty one.
    Left,
    /// A search; empty for the last one again.
    Search(String),
    /// A decision.
    Decided {
        /// Id of the checkpoint that was shown when the line began.
        checkpoint: Ulid,
        /// The decision.
        verdict: Verdict,
        /// The reason; empty for none.
        reason: String,
    },
}

impl Input {
    /// A line for the words of a search.
    pub fn search() -> Self {
        Input { line: tui_input::Input::default(), purpose: Purpose::Search }
    }

    /// The reason of a decision about a checkpoint.
    pub fn reason(verdict: Verdict, checkpoint: Ulid) -> Self {
        Input { line: tui_input::Input::default(), purpose: Purpose::Reason { verdict, checkpoint, is_confirmed: false } }
    }

    /// The words before the text.
    pub fn prompt(&self) -> &'static str {
        match self.purpose {
            Purpose::Search => "/",
            Purpose::Reason { verdict: Verdict::Approve, .. } => "Approve (Esc leaves), reason: ",
            Purpose::Reason { is_confirmed: false, .. } => "Reject (Esc leaves), reason: ",
            Purpose::Reason { .. } => "Enter again rejects without a reason: ",
        }
    }

    /// The text before the cursor, and from there on.
    pub fn text(&self) -> (&str, &str) {
        let text = self.line.value();
        text.split_at(text.char_indices().nth(self.line.cursor()).map_or(text.len(), |(at, _)| at))
    }

    /// Takes a text that was pasted; line ends become blanks.
    pub fn paste(&mut self, text: &str) {
        for c in text.chars() {
            self.line.handle(InputRequest::InsertChar(if c.is_control() { ' ' } else { c }));
        }
    }

    /// Takes a key that was pressed while the line is typed.
    pub fn key(&mut self, key: KeyEvent) -> KeyOutcome {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return self.entered(),
            KeyCode::Esc => return KeyOutcome::Left,
            KeyCode::Char('c') if is_control => return KeyOutcome::Left,
            KeyCode::Backspace if self.line.value().is_empty() => return KeyOutcome::Left,
            _ => _ = self.line.handle_event(&Event::Key(key)),
        }
        if let Purpose::Reason { is_confirmed, .. } = &mut self.purpose {
            *is_confirmed = false;
        }
        KeyOutcome::More
    }

    fn entered(&mut self) -> KeyOutcome {
        match &mut self.purpose {
            Purpose::Search => KeyOutcome::Search(self.line.value().to_owned()),
            Purpose::Reason { verdict: Verdict::Reject, is_confirmed, .. }
                if self.line.value().trim().is_empty() && !*is_confirmed =>
            {
                *is_confirmed = true;
                KeyOutcome::More
            }
            Purpose::Reason { verdict, checkpoint, .. } => {
                KeyOutcome::Decided { checkpoint: *checkpoint, verdict: *verdict, reason: self.line.value().trim().to_owned() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(input: &mut Input, code: KeyCode) -> KeyOutcome {
        input.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn a_rejection_without_a_reason_takes_two_enters_in_a_row() {
        let mut input = Input::reason(Verdict::Reject, Ulid::nil());
        assert_eq!(press(&mut input, KeyCode::Enter), KeyOutcome::More);
        assert!(input.prompt().contains("again"));
        press(&mut input, KeyCode::Char('x'));
        press(&mut input, KeyCode::Backspace);
        assert_eq!(press(&mut input, KeyCode::Enter), KeyOutcome::More);
        let decided = KeyOutcome::Decided { checkpoint: Ulid::nil(), verdict: Verdict::Reject, reason: String::new() };
        assert_eq!(press(&mut input, KeyCode::Enter), decided);
    }

    #[test]
    fn an_approval_takes_one_enter_and_escape_leaves() {
        let mut input = Input::reason(Verdict::Approve, Ulid::nil());
        assert_eq!(press(&mut input, KeyCode::Esc), KeyOutcome::Left);
        "  fine ".chars().for_each(|c| assert_eq!(press(&mut input, KeyCode::Char(c)), KeyOutcome::More));
        let decided = KeyOutcome::Decided { checkpoint: Ulid::nil(), verdict: Verdict::Approve, reason: "fine".into() };
        assert_eq!(press(&mut input, KeyCode::Enter), decided);
    }

    #[test]
    fn a_pasted_text_decides_nothing() {
        let mut input = Input::reason(Verdict::Reject, Ulid::nil());
        input.paste("first\nsecond\x1b[2J");
        assert_eq!(input.text(), ("first second [2J", ""));
    }

    #[test]
    fn lines_are_edited() {
        let mut input = Input::search();
        input.paste("one two");
        input.key(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        assert_eq!(input.text(), ("one ", ""));
        [KeyCode::Left, KeyCode::Left, KeyCode::Char('l')].into_iter().for_each(|code| drop(press(&mut input, code)));
        assert_eq!(input.text(), ("onl", "e "));
        input.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(press(&mut input, KeyCode::Backspace), KeyOutcome::Left);
        assert_eq!(press(&mut input, KeyCode::Enter), KeyOutcome::Search(String::new()));
    }
}
