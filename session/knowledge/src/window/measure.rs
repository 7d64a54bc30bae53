//! The tokens of a conversation, by share, against its window.

use parhelia_agent::transcript::window::{Piece, Window, Windows};

use crate::budget;

use super::{ACT_ABOVE_PERCENT, Bounds, Limit, Share, compress, density, tokenizer, tokenizer::Accuracy};

/// The tokens of pieces, by share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenShares {
    shares: [u64; Share::ALL.len()],
}

impl TokenShares {
    /// The tokens of a share.
    pub fn tokens(&self, share: Share) -> u64 {
        self.shares[share as usize]
    }

    /// All tokens.
    pub fn total(&self) -> u64 {
        self.shares.iter().sum()
    }
}

/// Counts the tokens of pieces, by share of the window.
pub fn measure(pieces: &[Piece]) -> TokenShares {
    let mut measured = TokenShares::default();
    for (share, text) in pieces.iter().flat_map(Share::parts) {
        measured.shares[share as usize] += tokenizer::count(text) as u64;
    }
    measured
}

/// The state of a context window.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The model's API name, as the transcript has it; none where it does not tell.
    pub model: Option<String>,
    /// The truth of the measured numbers.
    pub counted: Accuracy,
    /// The size of the window.
    pub limit: Limit,
    /// Tokens of what the transcript shows, by share.
    pub measured: TokenShares,
    /// Tokens in the window as the agent reported them, with what no transcript shows, such as descriptions of tools.
    pub reported_tokens: Option<u64>,
    /// The compressed conversation; none where the window has room.
    pub compressed: Option<Vec<Piece>>,
    /// Tokens of the compressed conversation.
    pub compressed_tokens: Option<u64>,
    /// [`density()`] of the conversation.
    pub density: f64,
    /// The same of the compressed one.
    pub compressed_density: Option<f64>,
}

impl Report {
    /// Tokens in the window: the agent's own number, where there is one.
    pub fn used_tokens(&self) -> u64 {
        self.reported_tokens.unwrap_or_else(|| self.measured.total())
    }

    /// Tokens in the window, in percent of its size.
    pub fn used_percent(&self) -> f64 {
        percent(self.used_tokens(), self.limit.tokens)
    }

    /// The conversation as it would fit.
    pub fn pieces<'a>(&'a self, windows: &'a Windows) -> &'a [Piece] {
        self.compressed.as_deref().unwrap_or(&windows.now.pieces)
    }
}

/// A number in percent of another.
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// True of a window that is fuller than it should be.
pub fn is_full(used_tokens: u64, limit: Limit) -> bool {
    u128::from(used_tokens) * 100 > u128::from(limit.tokens) * u128::from(ACT_ABOVE_PERCENT)
}

/// Tokens in the window, by the agent's own number or a quick estimate, and its size.
pub fn used_now(windows: &Windows, configured: u64) -> (u64, Limit) {
    let used = windows.now.reported_tokens.unwrap_or_else(|| estimated(&windows.now.pieces));
    (used, Limit::of(windows, configured))
}

/// A quick estimate of the tokens of pieces, which needs no tokenizer.
pub(super) fn estimated(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| budget::tokens(&piece.text) as u64).sum()
}

/// Measures a conversation's window, and compresses what is in it if that is too much. `configured` is `context.window_tokens`.
pub fn report(windows: &Windows, configured: u64) -> Report {
    let Window { pieces, reported_tokens } = &windows.now;
    let limit = Limit::of(windows, configured);
    let measured = measure(pieces);
    let used = reported_tokens.unwrap_or_else(|| measured.total());
    let compressed = is_full(used, limit).then(|| {
        let bounds = Bounds::of(limit.tokens, used.saturating_sub(measured.total()));
        compress(pieces, &bounds, &tokenizer::count)
    });
    Report {
        model: windows.model.clone(),
        counted: Accuracy::of(windows.model.as_deref()),
        limit,
        reported_tokens: *reported_tokens,
        compressed_tokens: compressed.as_deref().map(|pieces| measure(pieces).total()),
        density: density_of(pieces),
        compressed_density: compressed.as_deref().map(density_of),
        measured,
        compressed,
    }
}

fn density_of(pieces: &[Piece]) -> f64 {
    let tokens: Vec<Vec<u32>> = pieces.iter().map(|piece| tokenizer::tokens(&piece.text)).collect();
    density(tokens.iter().map(Vec::as_slice))
}
