//! Keys, and what each does: the one table that the screen, its help and the documentation have them from.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Actions that a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Moves down by a line.
    Down,
    /// Moves up by a line.
    Up,
    /// Moves down by a page.
    PageDown,
    /// Moves up by a page.
    PageUp,
    /// Down half a page.
    HalfDown,
    /// Up half a page.
    HalfUp,
    /// To the beginning.
    Top,
    /// To the end.
    Bottom,
    /// To the next pane.
    NextPane,
    /// To the previous pane.
    PreviousPane,
    /// Opens the diff in full width; shows the checkpoint that the log has selected.
    Open,
    /// Back to where one came from.
    Back,
    /// Begins a search in the pane that has the keys.
    Search,
    /// To the next match.
    NextMatch,
    /// To the match before.
    PreviousMatch,
    /// The checkpoint before that waits.
    Older,
    /// The next checkpoint that waits.
    Newer,
    /// Changes what is compared with.
    Base,
    /// Begins an approval of the checkpoint that is shown.
    Approve,
    /// Begins a rejection of the checkpoint that is shown.
    Reject,
    /// Lists the session's checkpoints.
    Log,
    /// Opens a shell in the checkpoint.
    Shell,
    /// Resumes the session.
    Continue,
    /// Shows the keys.
    Help,
    /// Leaves.
    Quit,
}

/// Keys of one action.
#[derive(Debug)]
pub struct Binding {
    /// The action that its keys stand for.
    pub action: Action,
    keys: &'static [(KeyModifiers, KeyCode)],
    /// The keys, as people write them.
    pub shown: &'static str,
    /// The action in words.
    pub does: &'static str,
}

const fn bind(action: Action, keys: &'static [(KeyModifiers, KeyCode)], shown: &'static str, does: &'static str) -> Binding {
    Binding { action, keys, shown, does }
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;

/// All of them, in the order in which they are told.
pub static KEYS: [Binding; 25] = [
    bind(Action::Down, &[(NONE, KeyCode::Char('j')), (NONE, KeyCode::Down)], "j, ↓", "down a line"),
    bind(Action::Up, &[(NONE, KeyCode::Char('k')), (NONE, KeyCode::Up)], "k, ↑", "up a line"),
    bind(Action::PageDown, &[(NONE, KeyCode::PageDown), (NONE, KeyCode::Char(' '))], "PgDn, Space", "down a page"),
    bind(Action::PageUp, &[(NONE, KeyCode::PageUp)], "PgUp", "up a page"),
    bind(Action::HalfDown, &[(CTRL, KeyCode::Char('d'))], "Ctrl-d", "down half a page"),
    bind(Action::HalfUp, &[(CTRL, KeyCode::Char('u'))], "Ctrl-u", "up half a page"),
    bind(Action::Top, &[(NONE, KeyCode::Char('g')), (NONE, KeyCode::Home)], "g, Home", "to the beginning"),
    bind(Action::Bottom, &[(NONE, KeyCode::Char('G')), (NONE, KeyCode::End)], "G, End", "to the end"),
    bind(
        Action::NextPane,
        &[(NONE, KeyCode::Tab), (NONE, KeyCode::Char('l')), (NONE, KeyCode::Right)],
        "Tab, l, →",
        "to the next pane: files, diff, conversation",
    ),
    bind(
        Action::PreviousPane,
        &[(NONE, KeyCode::BackTab), (NONE, KeyCode::Char('h')), (NONE, KeyCode::Left)],
        "Shift-Tab, h, ←",
        "to the pane before",
    ),
    bind(Action::Open, &[(NONE, KeyCode::Enter)], "Enter", "the file's diff in full width; in the log, show that checkpoint"),
    bind(Action::Back, &[(NONE, KeyCode::Esc)], "Esc", "back"),
    bind(Action::Search, &[(NONE, KeyCode::Char('/'))], "/", "search in the pane; capital letters count if there are any"),
    bind(Action::NextMatch, &[(NONE, KeyCode::Char('n'))], "n", "the next match"),
    bind(Action::PreviousMatch, &[(NONE, KeyCode::Char('N'))], "N", "the match before"),
    bind(Action::Older, &[(NONE, KeyCode::Char('['))], "[", "the checkpoint before that waits"),
    bind(Action::Newer, &[(NONE, KeyCode::Char(']'))], "]", "the next checkpoint that waits"),
    bind(Action::Base, &[(NONE, KeyCode::Char('b'))], "b", "compare with the last approved state, or with the checkpoint before"),
    bind(Action::Approve, &[(NONE, KeyCode::Char('a'))], "a", "approve the checkpoint, with a reason if you like"),
    bind(Action::Reject, &[(NONE, KeyCode::Char('r'))], "r", "reject it, with a reason"),
    bind(Action::Log, &[(NONE, KeyCode::Char('L'))], "L", "the session's checkpoints and their states"),
    bind(Action::Shell, &[(NONE, KeyCode::Char('s'))], "s", "a shell in the checkpoint, which is mounted read-only"),
    bind(Action::Continue, &[(NONE, KeyCode::Char('c'))], "c", "leave, and resume the session"),
    bind(Action::Help, &[(NONE, KeyCode::Char('?'))], "?", "these keys"),
    bind(Action::Quit, &[(NONE, KeyCode::Char('q')), (CTRL, KeyCode::Char('c'))], "q, Ctrl-c", "quit"),
];

/// The action of a key.
pub fn action(key: KeyEvent) -> Option<Action> {
    // A capital letter comes with or without shift, by terminal.
    let pressed = (key.modifiers - KeyModifiers::SHIFT, key.code);
    KEYS.iter().find(|binding| binding.keys.contains(&pressed)).map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_key_has_one_action() {
        let mut seen = HashSet::new();
        for binding in &KEYS {
            assert!(binding.keys.iter().all(|key| seen.insert(*key)), "{binding:?}");
        }
        let actions: Vec<Action> = KEYS.iter().map(|binding| binding.action).collect();
        assert!(actions.iter().enumerate().all(|(n, action)| !actions[..n].contains(action)));
    }

    #[test]
    fn capital_letters_come_with_and_without_shift() {
        for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
            assert_eq!(action(KeyEvent::new(KeyCode::Char('G'), modifiers)), Some(Action::Bottom));
            assert_eq!(action(KeyEvent::new(KeyCode::BackTab, modifiers)), Some(Action::PreviousPane));
        }
        assert_eq!(action(KeyEvent::new(KeyCode::Char('d'), KeyModifiers::NONE)), None);
        assert_eq!(action(KeyEvent::new(KeyCode::Char('d'), KeyModifiers::CONTROL)), Some(Action::HalfDown));
    }

    #[test]
    fn the_documentation_has_every_key() {
        let docs = include_str!("../../docs/approval.md");
        for Binding { shown, does, .. } in &KEYS {
            let keys: Vec<String> = shown.split(", ").map(|key| format!("`{key}`")).collect();
            let row = format!("| {} | {does} |", keys.join(", "));
            assert!(docs.contains(&row), "docs/approval.md has no row\n{row}");
        }
    }
}
