//! Counting tokens: with o200k, the tokenizer of OpenAI's models. Other makers do not publish theirs, so that a number for their models is
//! an estimate. For text and code in English it is near; Anthropic's count is usually higher.

use std::sync::OnceLock;

use tiktoken::CoreBpe;

use crate::budget;

/// The truth of a number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accuracy {
    /// The model has this tokenizer.
    Exactly,
    /// The model's tokenizer is not public.
    Estimated,
}

impl Accuracy {
    /// The truth of numbers for a model.
    pub fn of(model: Option<&str>) -> Self {
        let model = model.unwrap_or_default().to_lowercase();
        let name = model.rsplit('/').next().unwrap_or_default();
        let is_openai =
            ["gpt-4o", "gpt-4.1", "gpt-5", "gpt-oss", "o1", "o3", "o4", "codex"].iter().any(|start| name.starts_with(start));
        if is_openai { Accuracy::Exactly } else { Accuracy::Estimated }
    }

    /// Its name in objects for programs.
    pub fn name(self) -> &'static str {
        match self {
            Accuracy::Exactly => "exact",
            Accuracy::Estimated => "estimate",
        }
    }
}

/// The tokenizer, which takes a few tenths of a second to load: nothing that an agent waits for uses it.
fn tokenizer() -> Option<&'static CoreBpe> {
    static LOADED: OnceLock<Option<&'static CoreBpe>> = OnceLock::new();
    *LOADED.get_or_init(|| tiktoken::get_encoding("o200k_base"))
}

/// The number of tokens of a text.
pub fn count(text: &str) -> usize {
    tokenizer().map_or_else(|| budget::tokens(text), |tokenizer| tokenizer.count(text))
}

/// The tokens of a text, as numbers.
pub fn tokens(text: &str) -> Vec<u32> {
    tokenizer().map_or_else(|| text.chars().map(u32::from).collect(), |tokenizer| tokenizer.encode(text))
}
