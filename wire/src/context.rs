//! The model's context window.

use parhelia_knowledge::window;
use schemars::JsonSchema;
use serde::Serialize;

/// The state of a session's context window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Context {
    /// The session.
    pub id: String,
    /// The checkpoint whose conversation was read; null for the conversation as it is now.
    pub checkpoint: Option<String>,
    /// The model's API name; null where the transcript does not tell.
    pub model: Option<String>,
    /// Size of the window in tokens.
    pub limit_tokens: u64,
    /// Source of the size: configured, reported (by the agent), model (by its name), assumed.
    #[schemars(extend("enum" = ["configured", "reported", "model", "assumed"]))]
    pub limit_source: String,
    /// Tokens in the window: as reported, or else as measured.
    pub context_tokens_used: u64,
    /// Source of `context_tokens_used`: reported (by the agent), measured.
    pub context_tokens_source: String,
    /// `context_tokens_used` in percent of the window.
    pub context_budget_percent: f64,
    /// Tokens of what the transcript shows: the sum of the shares.
    pub measured_tokens: u64,
    /// Truth of the measured numbers: exact, estimate (the model's tokenizer is not public).
    #[schemars(extend("enum" = ["exact", "estimate"]))]
    pub measured_with: String,
    /// Tokens as the agent reported them last; null where it has not.
    pub reported_tokens: Option<u64>,
    /// The shares of the window.
    pub shares: Vec<Share>,
    /// True if the window is over 80 % full, so that the conversation was compressed.
    pub compression_applied: bool,
    /// Tokens of the compressed conversation; null where it was not compressed.
    pub compressed_tokens: Option<u64>,
    /// The part of all runs of 8 tokens that occur for the first time, from 0 to 1.
    pub information_density: f64,
    /// The same of the compressed conversation.
    pub compressed_density: Option<f64>,
    /// The conversation as Markdown, compressed if `compression_applied` (`--compressed`).
    pub markdown: Option<String>,
}

/// A share of a context window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Share {
    /// system_prompt, project_memory, summary, recent_conversation, tool_results.
    pub name: String,
    /// Tokens of what the transcript shows of it.
    pub tokens: u64,
    /// Its tokens in percent of the window.
    pub percent: f64,
    /// Its budget in percent of the window.
    pub budget_percent: u64,
    /// Its budget in tokens.
    pub budget_tokens: u64,
    /// True if it takes more than its budget.
    pub over: bool,
}

impl Context {
    /// A report on a session's window.
    pub fn of(id: String, checkpoint: Option<String>, report: &window::Report, markdown: Option<String>) -> Self {
        let limit = report.limit;
        let share = |share: window::Share| {
            let (tokens, budget) = (report.measured.tokens(share), share.budget(limit.tokens));
            Share {
                name: share.name().into(),
                tokens,
                percent: rounded(window::percent(tokens, limit.tokens)),
                budget_percent: share.percent(),
                budget_tokens: budget,
                over: tokens > budget,
            }
        };
        Context {
            id,
            checkpoint,
            model: report.model.clone(),
            limit_tokens: limit.tokens,
            limit_source: limit.known.name().into(),
            context_tokens_used: report.used_tokens(),
            context_tokens_source: if report.reported_tokens.is_some() { "reported" } else { "measured" }.into(),
            context_budget_percent: rounded(report.used_percent()),
            measured_tokens: report.measured.total(),
            measured_with: report.counted.name().into(),
            reported_tokens: report.reported_tokens,
            shares: window::Share::ALL.map(share).to_vec(),
            compression_applied: report.compressed.is_some(),
            compressed_tokens: report.compressed_tokens,
            information_density: rounded(report.density),
            compressed_density: report.compressed_density.map(rounded),
            markdown,
        }
    }
}

/// A number with four places.
fn rounded(number: f64) -> f64 {
    (number * 10_000.0).round() / 10_000.0
}
