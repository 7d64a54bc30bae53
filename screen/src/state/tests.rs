use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;

const OLDEST: Ulid = Ulid(1);
const MIDDLE: Ulid = Ulid(2);
const NEWEST: Ulid = Ulid(3);

pub fn facts(checkpoint: Ulid) -> Facts {
    Facts {
        session: "s".into(),
        agent: "claude".into(),
        status: "dead",
        checkpoint,
        trigger: "error".into(),
        created_at: Timestamp::UNIX_EPOCH,
        approval: None,
        base: Some(Ulid::nil()),
        base_approved: true,
        unseen: Default::default(),
        turns: Some(12),
        tokens: Some(3456),
        cost_usd: Some(1.5),
        active_seconds: 7200,
        errors: 1,
    }
}

fn file(path: &str) -> FileItem {
    FileItem { letter: 'M', path: path.into(), counts: None }
}

fn item(id: Ulid, waits: bool) -> LogItem {
    let state = if waits { "pending" } else { "approved" };
    LogItem { id, created_at: Timestamp::UNIX_EPOCH, trigger: "error".into(), state, waits, message: String::new() }
}

fn state(size: (u16, u16)) -> State {
    let mut state = State::new(size);
    state.take_log(vec![item(NEWEST, true), item(MIDDLE, false), item(OLDEST, true)]);
    state.show(facts(NEWEST), (0..40).map(|n| file(&format!("src/file{n}.rs"))).collect());
    state
}

fn press(state: &mut State, keys: &str) -> Option<Effect> {
    let code = |c| match c {
        '\n' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\x1b' => KeyCode::Esc,
        '\x08' => KeyCode::Backspace,
        c => KeyCode::Char(c),
    };
    keys.chars().map(|c| state.key(KeyEvent::new(code(c), KeyModifiers::NONE))).last().flatten()
}

#[test]
fn keys_move_in_the_pane_that_has_them() {
    let mut state = state((120, 20));
    press(&mut state, "jjk");
    assert_eq!((state.file.selected, state.wanted_diff()), (1, Some(1)));
    state.show_diff(1, (0..99).map(|n| Line::new("", Tone::Plain, &n.to_string())).collect());
    assert_eq!(state.wanted_diff(), None);
    press(&mut state, "\tG");
    assert_eq!((state.focus, state.file.selected, state.diff.place().0), (Pane::Diff, 1, 99 - 15));
    state.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
    assert_eq!(state.diff.place().0, 99 - 15 - 7);
    press(&mut state, "gl");
    assert_eq!((state.diff.place().0, state.focus), (0, Pane::Conversation));
    press(&mut state, "hhG");
    assert_eq!((state.focus, state.file.selected), (Pane::Files, 39));
}

#[test]
fn enter_opens_the_diff_in_full_width_and_escape_leads_back() {
    let mut state = state((120, 20));
    press(&mut state, "\n");
    assert!(state.is_wide && state.focus == Pane::Diff);
    assert_eq!(state.areas().unwrap().files, None);
    press(&mut state, "\x1b");
    assert!(!state.is_wide && state.focus == Pane::Files);
}

#[test]
fn brackets_go_to_the_checkpoints_that_wait() {
    let mut state = state((120, 20));
    assert_eq!(press(&mut state, "["), Some(Effect::Show(OLDEST)));
    state.show(facts(OLDEST), Vec::new());
    assert_eq!(press(&mut state, "]"), Some(Effect::Show(NEWEST)));
    assert_eq!(press(&mut state, "["), None);
    assert!(state.message.unwrap().text.contains("No older"));
}

#[test]
fn a_search_is_in_the_pane_that_has_the_keys() {
    let mut state = state((120, 20));
    press(&mut state, "/FILE2\n");
    assert!(state.message.as_ref().unwrap().is_error);
    press(&mut state, "/file2\n");
    assert_eq!(state.file.selected, 2);
    press(&mut state, "nn");
    assert_eq!(state.file.selected, 21);
    press(&mut state, "N");
    assert_eq!(state.file.selected, 20);
    press(&mut state, "/nothing\x1b");
    assert_eq!((state.file.selected, state.input.is_none()), (20, true));
}

#[test]
fn decisions_are_about_the_checkpoint_that_was_shown_when_they_began() {
    let mut state = state((120, 20));
    press(&mut state, "r");
    // A checkpoint that comes meanwhile changes nothing.
    state.take_log(vec![item(Ulid(4), true), item(NEWEST, true)]);
    let decide = |verdict, reason: &str| Some(Effect::Decide { checkpoint: NEWEST, verdict, reason: reason.into() });
    assert_eq!(press(&mut state, "q is a letter\n"), decide(Verdict::Reject, "q is a letter"));
    assert_eq!(press(&mut state, "r\n"), None);
    assert_eq!(press(&mut state, "\n"), decide(Verdict::Reject, ""));
    assert_eq!(press(&mut state, "a\n"), decide(Verdict::Approve, ""));
    assert_eq!(press(&mut state, "a\x1bq"), Some(Effect::Quit));
}

#[test]
fn a_paste_is_no_command() {
    let mut state = state((120, 20));
    state.paste("a\nq\n");
    assert!(state.input.is_none());
    press(&mut state, "a");
    state.paste("two\nlines");
    assert_eq!(state.input.unwrap().text(), ("two lines", ""));
}

#[test]
fn a_new_checkpoint_is_told_and_the_place_stays() {
    let mut state = state((120, 20));
    press(&mut state, "jjjjjL");
    state.take_log(vec![item(Ulid(4), true), item(NEWEST, true), item(MIDDLE, false), item(OLDEST, true)]);
    assert!(state.message.as_ref().unwrap().text.contains("] shows it"));
    assert_eq!((state.file.selected, state.log[state.log_list.selected].id), (5, NEWEST));
    assert_eq!(press(&mut state, "k\n"), Some(Effect::Show(Ulid(4))));
    assert_eq!(state.overlay, Overlay::None);
    state.show(facts(Ulid(4)), vec![file("other"), file("src/file5.rs")]);
    assert_eq!(state.file.selected, 1);
}

#[test]
fn the_base_changes_and_the_checkpoint_stays() {
    let mut state = state((120, 20));
    assert_eq!((press(&mut state, "b"), state.base), (Some(Effect::Show(NEWEST)), Base::Parent));
    assert_eq!((press(&mut state, "b"), state.base), (Some(Effect::Show(NEWEST)), Base::Approved));
}

#[test]
fn an_overlay_takes_the_keys() {
    let mut state = state((60, 15));
    press(&mut state, "?j");
    assert_eq!((state.overlay, state.help.place().0, state.file.selected), (Overlay::Help, 1, 0));
    assert_eq!((press(&mut state, "a"), state.input.is_none()), (None, true));
    assert_eq!((press(&mut state, "q"), state.overlay), (None, Overlay::None));
    assert_eq!(press(&mut state, "c"), Some(Effect::Continue));
}

#[test]
fn nothing_fails_on_any_size_or_without_anything_to_show() {
    let all = "jkGg\n\x1b\t/x\nnN[]bL\nL\x1b?j\x1bha\x1br\x1bs";
    for size in [(0, 0), (1, 1), (49, 12), (50, 12), (60, 15), (109, 30), (110, 12), (300, 100)] {
        let mut state = State::new(size);
        press(&mut state, all);
        state = self::state(size);
        press(&mut state, all);
        state.resize((80, 24));
        press(&mut state, all);
    }
}
