//! Reviews of sessions.

use parhelia_ledger::Issue;
use parhelia_life::review_report::{self, Command};
use parhelia_oversight::review::unseen::Exclusions;
use schemars::JsonSchema;
use serde::Serialize;

use crate::checkpoint::Approval;

/// A review of a session, for whoever decides; the files that changed stand before it, as `change` lines.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Review {
    /// Id of the session that is reviewed.
    pub session: String,
    /// Observed state.
    pub status: String,
    /// Checkpoint to decide about: the session's head.
    pub checkpoint: String,
    /// Decision about that.
    pub approval: Option<Approval>,
    /// Last checkpoint before it that a person approved, or else the session's first one; null if that is the newest.
    pub since: Option<String>,
    /// True if a person approved that.
    pub since_approved: bool,
    /// Checkpoints since then that wait for a person, the newest first.
    pub waiting: Vec<String>,
    /// Issues that its checkpoints are linked to by an agent or an import alone.
    pub asked_links: Vec<Issue>,
    /// Entries that rules leave out of the checkpoint, so that no comparison shows them.
    pub unseen: Exclusions,
    /// Possible secrets in these and in the newest one, each with its place and rule.
    pub secrets: Vec<String>,
    /// Turns of the conversation.
    pub turns: Option<u64>,
    /// Tokens, those from the cache included.
    pub tokens: Option<u64>,
    /// Cost of the session in US dollars, where it was reported.
    pub cost_usd: Option<f64>,
    /// Time that was worked in it, in seconds.
    pub active_seconds: u64,
    /// Checkpoints that an error caused.
    pub errors: u64,
    /// Commands that the agent ran since then, oldest first, at most 50.
    pub commands: Vec<Command>,
    /// Number of earlier commands, which are left out.
    pub commands_more: u64,
    /// Questions of the agent that nobody answered.
    pub open_questions: Vec<String>,
    /// End of what the agent said last.
    pub last_reply: Option<String>,
}

impl Review {
    /// A review of a session.
    pub fn of(review: &review_report::Review) -> Self {
        let totals = &review.session.totals;
        Review {
            session: review.session.id.clone(),
            status: review.overview.observed.name().into(),
            checkpoint: review.newest.id(),
            approval: review.approval.as_ref().map(Approval::from),
            since: review.since.as_ref().map(|since| since.id()),
            since_approved: review.since_approved,
            waiting: review.waiting.iter().map(ToString::to_string).collect(),
            asked_links: review.asked_links.clone(),
            unseen: review.unseen.clone(),
            secrets: review.secrets.clone(),
            turns: review.turns,
            tokens: review.tokens,
            cost_usd: totals.cost_usd,
            active_seconds: totals.active_seconds,
            errors: totals.errors,
            commands: review.commands.clone(),
            commands_more: review.commands_more as u64,
            open_questions: review.open_questions.clone(),
            last_reply: review.last_reply.clone(),
        }
    }
}
