use super::*;
use crate::trouble::Trouble;

fn trouble(printed: &str) -> Option<Trouble> {
    KINDS[0].trouble(printed)
}

fn does_not_know(screen: &str, conversation: &str) -> bool {
    KINDS[0].does_not_know(screen, conversation)
}

#[test]
fn signs_are_seen_through_frames_colours_and_wrapped_lines() {
    let screen = "│ Do you \u{1b}[1mtrust\u{1b}[0m the files │\n│ in this folder?   │";
    assert_eq!(trouble(screen), Some(Trouble::Trust));
    let error = "No conversation found with session ID: 11111111-2222-4333-8444-555555555555";
    assert_eq!(trouble(error), Some(Trouble::NoConversation));
    assert_eq!(trouble("Error: Session ID 1111 is already in use."), Some(Trouble::AlreadyInUse));
    assert_eq!(trouble("Not logged in · Please run /login"), Some(Trouble::Login));
    assert_eq!(trouble("> fix the bug\n● Done."), None);
    assert_eq!(trouble("\u{1b}[31"), None);
}

#[test]
fn on_a_screen_the_conversation_is_named() {
    let screen = "$ claude --resume 1111-2222\nNo conversation found with session ID: 11\n11-2222\n";
    assert!(does_not_know(screen, "1111-2222"));
    assert!(!does_not_know(screen, "1111-3333"), "what was said of another one");
    assert!(!does_not_know("$ claude --resume 1111-2222\nno network\n", "1111-2222"));
}
