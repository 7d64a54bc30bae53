//! Tells, from the agent's output, that it waits for the user or will not start.

use serde::Serialize;

use crate::kind::Kind;

/// The reason why the agent does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// It knows no conversation of this id.
    NoConversation,
    /// Another process has the conversation open.
    AlreadyInUse,
    /// It wants somebody to log in.
    Login,
    /// It asks whether the folder is trusted.
    Trust,
    /// It asks whether hooks may run.
    HookTrust,
    /// It asks whether a key from the environment may be used.
    ApiKey,
    /// It asks whether permission checks may really be off.
    BypassWarning,
    /// It waits for first choices, such as a theme.
    FirstStart,
    /// It shows a list of conversations to choose from.
    Picker,
}

/// Signs of each trouble, all in lower case with single spaces. Signs of what ends the agent come first.
pub type Signs = &'static [(Trouble, &'static [&'static str])];

/// The reason why the agent does not go on, from its screen or its standard error; none if there is no sign of one.
pub fn trouble(kind: Kind, printed: &str) -> Option<Trouble> {
    let plain = plain(printed);
    kind.signs().iter().find(|(_, signs)| signs.iter().any(|sign| plain.contains(sign))).map(|(trouble, _)| *trouble)
}

/// Checks whether a screen says that the agent does not know this conversation. The screen may show older text, too.
pub fn does_not_know(kind: Kind, screen: &str, conversation: &str) -> bool {
    let together = |text: &str| plain(text).replace(' ', "");
    let screen = together(screen);
    kind.unknown_conversation(conversation).iter().any(|sentence| screen.contains(&together(sentence)))
}

impl Trouble {
    /// The trouble in words, and what to do about it.
    pub fn text(self) -> &'static str {
        match self {
            Trouble::NoConversation => "the agent knows no such conversation",
            Trouble::AlreadyInUse => "another process of the agent has the conversation open; end that first",
            Trouble::Login => "the agent waits for a login; log in there",
            Trouble::Trust => "the agent asks whether it may trust the folder; answer there",
            Trouble::HookTrust => "the agent asks whether it may run the hooks by which checkpoints are made; answer there",
            Trouble::ApiKey => "the agent asks whether it may use the API key of the environment; answer there",
            Trouble::BypassWarning => "the agent asks whether permission checks may be off; answer there",
            Trouble::FirstStart => "the agent waits for its first settings; answer there",
            Trouble::Picker => "the agent waits for a conversation to be chosen",
        }
    }

    /// True if the user has to answer first; only then can it be told whether the agent goes on.
    pub fn waits_for_someone(self) -> bool {
        !matches!(self, Trouble::NoConversation | Trouble::AlreadyInUse)
    }
}

/// Text without escape sequences and frames, in lower case, with single spaces: a screen wraps lines where it likes.
fn plain(printed: &str) -> String {
    let mut words = String::with_capacity(printed.len());
    let mut chars = printed.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            c if c.is_whitespace() || ('\u{2500}'..='\u{259f}').contains(&c) => {
                if !words.ends_with(' ') {
                    words.push(' ');
                }
            }
            '\u{2019}' => words.push('\''),
            c => words.extend(c.to_lowercase()),
        }
    }
    words
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    if chars.next() != Some('[') {
        return;
    }
    for c in chars.by_ref() {
        if ('@'..='~').contains(&c) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::Claude;

    fn trouble(printed: &str) -> Option<Trouble> {
        super::trouble(&Claude, printed)
    }

    fn does_not_know(screen: &str, conversation: &str) -> bool {
        super::does_not_know(&Claude, screen, conversation)
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
}
