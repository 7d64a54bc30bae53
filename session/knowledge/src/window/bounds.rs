//! The shares of a context window, and the bounds of a compressed conversation.

use parhelia_agent::{
    briefing::{KNOWN_OF_PROJECT, is_told},
    transcript::window::{Piece, What},
};

/// A window that is fuller, in percent, is acted on (SPEC-07.30.04).
pub const ACT_ABOVE_PERCENT: u64 = 80;

/// A part of a context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Share {
    /// The agent's system prompt, as far as the transcript has it.
    System,
    /// Knowledge of the project: parhelia's memory, and the agent's own memory files.
    Memory,
    /// Briefings of ours, and the agent's own summary of what was compacted.
    Summary,
    /// Prompts, replies, deliberation, calls and attached files.
    Recent,
    /// Results of tool calls, errors included.
    Tools,
}

impl Share {
    /// All shares, in the order of a report.
    pub const ALL: [Share; 5] = [Share::System, Share::Memory, Share::Summary, Share::Recent, Share::Tools];

    /// Its budget, in percent of the window (SPEC-07.32.01).
    pub fn percent(self) -> u64 {
        match self {
            Share::System | Share::Memory => 10,
            Share::Summary | Share::Tools => 15,
            Share::Recent => 50,
        }
    }

    /// Its budget in a window of so many tokens.
    pub fn budget(self, limit_tokens: u64) -> u64 {
        percent_of(limit_tokens, self.percent())
    }

    /// Its name in objects for programs.
    pub fn name(self) -> &'static str {
        match self {
            Share::System => "system_prompt",
            Share::Memory => "project_memory",
            Share::Summary => "summary",
            Share::Recent => "recent_conversation",
            Share::Tools => "tool_results",
        }
    }

    /// The share of a piece that is in one alone.
    pub(super) fn of(piece: &Piece) -> Share {
        match piece.what {
            What::System => Share::System,
            What::Summary => Share::Summary,
            What::Result => Share::Tools,
            What::Told if piece.tool.as_deref() == Some("nested_memory") => Share::Memory,
            What::Told | What::Prompt if piece.text.trim_start().starts_with(KNOWN_OF_PROJECT) => Share::Memory,
            What::Told if is_told(&piece.text) => Share::Summary,
            _ => Share::Recent,
        }
    }

    /// The texts of a piece with the share of each: a hook's text may be a briefing with what is known of the project behind it, and a prompt
    /// may stand behind a briefing.
    pub(super) fn parts(piece: &Piece) -> Vec<(Share, &str)> {
        let own = Share::of(piece);
        if !matches!(piece.what, What::Told | What::Prompt) || !is_told(&piece.text) {
            return vec![(own, &piece.text)];
        }
        let prompt = parhelia_agent::briefing::without_briefing(&piece.text);
        let (told, prompt) = match prompt.len() < piece.text.len() {
            true => (&piece.text[..piece.text.len() - prompt.len()], prompt),
            false => (piece.text.as_str(), ""),
        };
        let known = told.find(KNOWN_OF_PROJECT).unwrap_or(told.len());
        let parts = [(Share::Summary, &told[..known]), (Share::Memory, &told[known..]), (Share::Recent, prompt)];
        parts.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }
}

/// Bounds of a compressed conversation, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Everything together.
    pub total: usize,
    /// The system prompt, in tokens.
    pub system: usize,
    /// Knowledge of the project, in tokens.
    pub memory: usize,
    /// Summaries, and what is kept of older turns besides results.
    pub summary: usize,
    /// The last turns, which stay whole.
    pub recent: usize,
    /// Shortened results of older turns.
    pub tools: usize,
}

impl Bounds {
    /// The bounds in a window of which so many tokens are used by what no transcript shows, such as descriptions of tools. Together it must not
    /// be acted on again at once.
    pub fn of(limit_tokens: u64, unseen_tokens: u64) -> Bounds {
        let at_most = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let share = |share: Share| at_most(share.budget(limit_tokens));
        let total = percent_of(limit_tokens, ACT_ABOVE_PERCENT).saturating_sub(unseen_tokens);
        Bounds {
            // A number that an agent reports may be absurd; the last turns have their room all the same.
            total: at_most(total.max(Share::Recent.budget(limit_tokens))),
            system: share(Share::System),
            memory: share(Share::Memory),
            summary: share(Share::Summary),
            recent: share(Share::Recent),
            tools: share(Share::Tools),
        }
    }
}

fn percent_of(number: u64, percent: u64) -> u64 {
    (u128::from(number) * u128::from(percent) / 100) as u64
}
