//! The model's context window: how much of it a conversation fills, how that is shared out, and the conversation made shorter so that it
//! fits (SPEC-07.32).
//!
//! [`measure()`] counts the tokens of each [`Share`] of a window and compares them with what the window allows ([`limit`]). Above
//! [`ACT_ABOVE_PERCENT`], [`compress()`] makes the conversation fit again: the system prompt, the newest memory and summary and the last turns
//! stay; of older turns errors and what ended them, decisions, prompts, last replies and shortened results of tools. [`kept`] has the part
//! of that which an agent is told when its conversation was compacted or replaced: no agent takes a compressed conversation itself.

mod bounds;
pub mod compress;
mod density;
pub mod kept;
pub mod limit;
pub mod markdown;
pub mod measure;
mod shorten;
mod source;
mod story;
#[cfg(test)]
mod tests;
pub mod tokenizer;

pub use bounds::{ACT_ABOVE_PERCENT, Bounds, Share};
pub use compress::compress;
pub use density::density;
pub use limit::{Limit, LimitSource};
pub use measure::{Report, TokenShares, measure, percent, report};
pub use measure::{is_full, used_now};
pub use shorten::middle_out;
pub use source::{Source, of_checkpoint, of_session, of_transcript};
