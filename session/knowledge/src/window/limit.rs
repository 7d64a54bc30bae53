//! The size of a model's context window.

use parhelia_agent::transcript::window::Windows;

/// The source of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// `context.window_tokens`.
    Configured,
    /// The agent's transcript.
    Reported,
    /// The model's name.
    ByModel,
    /// Nothing says; most models have at least that.
    Assumed,
}

impl LimitSource {
    /// Its name in objects for programs.
    pub fn name(self) -> &'static str {
        match self {
            LimitSource::Configured => "configured",
            LimitSource::Reported => "reported",
            LimitSource::ByModel => "model",
            LimitSource::Assumed => "assumed",
        }
    }
}

/// The size of a context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Size of the window, in tokens.
    pub tokens: u64,
    /// Its source.
    pub known: LimitSource,
}

const ASSUMED: u64 = 200_000;
const MILLION: u64 = 1_000_000;
/// Windows by the beginning of the model's name, longer beginnings first.
const WINDOWS: [(&str, u64); 11] = [
    // By its own reports.
    ("claude-opus-5-5", MILLION),
    ("claude", 200_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-5", 400_000),
    ("gpt-oss", 131_072),
    ("codex-mini", 200_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("gemini", 1_048_576),
];

impl Limit {
    /// The size of a conversation's window. `configured` is 0 where the model decides.
    pub fn of(windows: &Windows, configured: u64) -> Limit {
        if configured > 0 {
            return Limit { tokens: configured, known: LimitSource::Configured };
        }
        if let Some(tokens) = windows.limit_tokens {
            return Limit { tokens, known: LimitSource::Reported };
        }
        let found = Limit::of_model(windows.model.as_deref().unwrap_or_default());
        let before = windows.before.as_ref().and_then(|before| before.reported_tokens);
        // Claude Code does not write down that a model was chosen with its larger window.
        match windows.now.reported_tokens.max(before) {
            Some(reported) if reported > found.tokens => Limit { tokens: reported.max(MILLION), known: LimitSource::Assumed },
            _ => found,
        }
    }

    fn of_model(model: &str) -> Limit {
        let model = model.to_lowercase();
        let name = model.rsplit('/').next().unwrap_or_default();
        if name.ends_with("[1m]") {
            return Limit { tokens: MILLION, known: LimitSource::ByModel };
        }
        let found = WINDOWS.iter().find(|(start, _)| name.starts_with(start));
        found.map_or(Limit { tokens: ASSUMED, known: LimitSource::Assumed }, |(_, tokens)| Limit {
            tokens: *tokens,
            known: LimitSource::ByModel,
        })
    }
}

#[cfg(test)]
mod tests {
    use parhelia_agent::transcript::window::Window;

    use super::*;

    #[test]
    fn a_size_is_configured_reported_of_the_model_or_assumed() {
        let of = |model: &str, reported, configured| {
            let now = Window { reported_tokens: reported, ..Window::default() };
            let limit = Limit::of(&Windows { now, model: Some(model.into()), ..Windows::default() }, configured);
            (limit.tokens, limit.known)
        };
        assert_eq!(of("claude-opus-4-5", None, 0), (200_000, LimitSource::ByModel));
        assert_eq!(of("claude-opus-5-5", None, 0), (1_000_000, LimitSource::ByModel));
        assert_eq!(of("claude-opus-4-5", Some(300_000), 0), (1_000_000, LimitSource::Assumed));
        assert_eq!(of("claude-sonnet-4-5[1m]", None, 0), (1_000_000, LimitSource::ByModel));
        assert_eq!(of("openai/GPT-5.2-codex", None, 0), (400_000, LimitSource::ByModel));
        assert_eq!(of("gemini-3-pro", Some(5), 0), (1_048_576, LimitSource::ByModel));
        assert_eq!(of("another", None, 0), (200_000, LimitSource::Assumed));
        assert_eq!(of("claude-opus-4-5", Some(300_000), 50_000), (50_000, LimitSource::Configured));
        let reported = Windows { limit_tokens: Some(272_000), model: Some("gpt-5".into()), ..Windows::default() };
        assert_eq!(Limit::of(&reported, 0), Limit { tokens: 272_000, known: LimitSource::Reported });
    }
}
