use jiff::Timestamp;
use parhelia_ledger::{Approval, ApprovalStatus};
use parhelia_store::id::Ulid;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::{Color, Modifier},
};

use super::*;
use crate::{
    diff,
    state::{Counts, Excerpt, Facts, FileItem, LogItem},
    syntax::{self, Colours},
    text::{Line, Tone},
};

const PENDING: Approval = Approval {
    status: ApprovalStatus::Pending,
    user: None,
    by_agent: false,
    timestamp: Timestamp::UNIX_EPOCH,
    reason: None,
    policy: None,
    rule: None,
    definition: None,
    rejected: None,
};

const DIFF: &[u8] =
    b"--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1,2 +1,2 @@\n fn main() {\n-    old(\"text\");\n+    new(\"text\");\n }\n";

fn state(size: (u16, u16)) -> State {
    let mut state = State::new(size);
    let facts = Facts {
        session: "work".into(),
        agent: "claude".into(),
        status: "dead",
        checkpoint: Ulid(7),
        trigger: "error".into(),
        created_at: Timestamp::UNIX_EPOCH,
        approval: Some(Approval { rule: Some("trigger error".into()), ..PENDING }),
        base: Some(Ulid(6)),
        base_approved: true,
        unseen: Default::default(),
        turns: Some(12),
        tokens: Some(3456),
        cost_usd: Some(1.5),
        active_seconds: 7200,
        errors: 1,
    };
    let file = |letter, path: &str, counts| FileItem { letter, path: path.into(), counts: Some(counts) };
    let files = vec![
        file('M', "src/main.rs", Counts::Lines(12, 3)),
        file('A', "漢字.txt", Counts::Lines(1, 0)),
        file('D', "image.png", Counts::Binary),
        file('R', "old -> new", Counts::Lines(0, 0)),
    ];
    state.show(facts, files);
    state.show_diff(0, diff::unified(DIFF));
    let lines = vec![
        Line::new(">", Tone::Prompt, "fix the bug"),
        Line::new("!", Tone::Bad, "cargo test"),
        Line::new("?", Tone::Question, "which one?"),
    ];
    state.show_said(Excerpt { lines, failed: 1, questions: 1 });
    let item = |id, state, waits| LogItem {
        id,
        created_at: Timestamp::UNIX_EPOCH,
        trigger: "error".into(),
        state,
        waits,
        message: "note".into(),
    };
    state.take_log(vec![item(Ulid(7), "pending", true), item(Ulid(6), "approved", false)]);
    state
}

fn drawn(state: &State, has_colours: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(state.size.0, state.size.1)).unwrap();
    terminal.draw(|frame| draw(frame, state, Palette::new(has_colours))).unwrap();
    terminal.backend().buffer().clone()
}

fn rows(buffer: &Buffer) -> Vec<String> {
    let row = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..buffer.area.height).map(row).collect()
}

fn text(state: &State) -> String {
    rows(&drawn(state, true)).join("\n")
}

fn press(state: &mut State, code: KeyCode) {
    state.key(KeyEvent::new(code, KeyModifiers::NONE));
}

/// The cell at which a text begins.
fn cell<'a>(buffer: &'a Buffer, wanted: &str) -> &'a ratatui::buffer::Cell {
    for y in 0..buffer.area.height {
        for x in 0..buffer.area.width {
            let rest: String = (x..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
            if rest.starts_with(wanted) {
                return &buffer[(x, y)];
            }
        }
    }
    panic!("no '{wanted}' in\n{}", rows(buffer).join("\n"));
}

#[test]
fn a_wide_terminal_shows_everything_side_by_side() {
    let text = text(&state((140, 24)));
    for part in [
        "Session work  claude, dead",
        "1 waiting",
        "error  pending review (trigger error)",
        "(approved), 12 turns, 3,456 tokens, $1.50, 2 hours, 1 error, 1 failed command, 1 open question",
        "Files (4)",
        ">M src/main.rs",
        "+12 -3",
        "binary",
        "@@ -1,2 +1,2 @@",
        "+     new(\"text\");",
        "> fix the bug",
        "! cargo test",
        "? which one?",
        "a approve",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
}

#[test]
fn a_small_terminal_is_of_use() {
    let mut state = state((60, 15));
    let shown = text(&state);
    for part in ["Files (4)", "M src/main.rs", "@@ -1,2 +1,2 @@", "Tab: diff, conversation", "? help  a approve"] {
        assert!(shown.contains(part), "no '{part}' in\n{shown}");
    }
    assert!(!shown.contains("fix the bug"));
    press(&mut state, KeyCode::BackTab);
    let shown = text(&state);
    assert!(shown.contains("> fix the bug") && !shown.contains("Files (4)"), "{shown}");
    press(&mut state, KeyCode::Char('L'));
    let shown = text(&state);
    assert!(shown.contains("pending") && shown.contains("approved"), "{shown}");
}

#[test]
fn a_terminal_that_is_too_small_says_what_is_needed() {
    let shown = rows(&drawn(&state((30, 6)), true)).concat();
    assert!(shown.contains("needs 50 columns"), "{shown}");
    for size in [(1, 1), (3, 2), (49, 12), (200, 2)] {
        drawn(&state(size), true);
    }
}

#[test]
fn nothing_from_a_workspace_or_a_conversation_steers_the_terminal() {
    let mut state = state((140, 24));
    let hostile = "\x1b[2J\x1b]0;title\x07a\u{202e}b\u{9b}31m\r\x08";
    state.files[1].path = parhelia_store::name::display(hostile.as_bytes());
    state.files[2].path = hostile.into();
    state.show_diff(0, diff::unified(format!("--- a/x\n+++ b/{hostile}\n@@ -0,0 +1 @@\n+{hostile}\n").as_bytes()));
    let lines = vec![Line::new(">", Tone::Prompt, hostile)];
    state.show_said(Excerpt { lines, failed: 0, questions: 0 });
    state.log[0].message = hostile.into();
    if let Some(facts) = &mut state.facts {
        (facts.session, facts.agent, facts.trigger) = (hostile.into(), hostile.into(), hostile.into());
        facts.approval = Some(Approval { rule: Some(hostile.into()), user: Some(hostile.into()), ..PENDING });
    }
    state.say(hostile);
    let is_harmless = |shown: &str| !shown.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}');
    let shown = text(&state);
    assert!(is_harmless(&shown) && shown.contains("\\x1b[2J"), "{shown}");
    press(&mut state, KeyCode::Char('L'));
    assert!(is_harmless(&text(&state)));
    press(&mut state, KeyCode::Esc);
    press(&mut state, KeyCode::Char('/'));
    state.paste(hostile);
    assert!(is_harmless(&text(&state)));
}

#[test]
fn wide_characters_push_nothing_out_of_the_pane() {
    let mut state = state((110, 20));
    state.show_diff(0, diff::unified(format!("--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+{}end\n", "漢字".repeat(60)).as_bytes()));
    let shown = text(&state);
    let count = shown.matches('漢').count();
    assert_eq!(count, 60 + 1, "{shown}");
    assert!(shown.contains("end"), "{shown}");
}

#[test]
fn a_diff_has_the_colours_of_its_language_and_signs_of_its_own() {
    let mut state = state((140, 24));
    syntax::load();
    let last = state.diff.lines.len();
    Colours::of(b"src/main.rs").reach(&mut state.diff.lines, last);
    let buffer = drawn(&state, true);
    assert_eq!(cell(&buffer, "fn main").fg, Color::Magenta);
    assert_eq!(cell(&buffer, "+     new").bg, Color::Green);
    assert_eq!(cell(&buffer, "-     old").bg, Color::Red);
    let buffer = drawn(&state, false);
    let is_plain = |cell: &ratatui::buffer::Cell| cell.fg == Color::Reset && cell.bg == Color::Reset;
    assert!(buffer.content().iter().all(is_plain));
    assert!(cell(&buffer, "+     new").modifier.contains(Modifier::BOLD));
}

#[test]
fn a_line_that_is_typed_and_a_long_sentence_are_seen() {
    let mut state = state((60, 15));
    press(&mut state, KeyCode::Char('r'));
    state.paste("it drops the table");
    assert!(text(&state).contains("Reject (Esc leaves), reason: it drops the table"));
    press(&mut state, KeyCode::Esc);
    state.complain(&format!("cannot decide about it: {}; the attempt is recorded", "a long reason ".repeat(8)));
    let shown = text(&state);
    assert!(shown.contains("cannot decide") && shown.contains("is recorded"), "{shown}");
}

#[test]
fn the_help_has_every_key() {
    let mut state = state((100, 40));
    press(&mut state, KeyCode::Char('?'));
    let shown = text(&state);
    for key in &crate::keys::KEYS {
        assert!(shown.contains(key.shown) && shown.contains(key.does), "no {key:?} in\n{shown}");
    }
}
