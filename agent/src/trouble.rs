//! Tells, from the agent's output, that it waits for the user or will not start.

use serde::Serialize;

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

/// The trouble of which a screen or standard error has a sign.
pub(crate) fn trouble(signs: Signs, printed: &str) -> Option<Trouble> {
    let plain = plain(printed);
    signs.iter().find(|(_, signs)| signs.iter().any(|sign| plain.contains(sign))).map(|(trouble, _)| *trouble)
}

/// True if a screen has one of these sentences.
pub(crate) fn does_not_know(sentences: &[String], screen: &str) -> bool {
    let together = |text: &str| plain(text).replace(' ', "");
    let screen = together(screen);
    sentences.iter().any(|sentence| screen.contains(&together(sentence)))
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
