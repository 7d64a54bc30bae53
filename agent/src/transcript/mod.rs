//! The conversation: an agent's transcript, kept byte for byte, and an index over it.
//!
//! The transcript's format is the agent's own and changes with its releases. So nothing here is needed to read one back: the raw
//! files ([`files`]) are what is kept, cut at a record boundary ([`cut`](mod@cut)), and the [`Index`] holds only counters, ids and
//! byte ranges over them. Records of unknown kinds, torn lines and lines that are no JSON are counted and passed over.
//!
//! An index goes on where it stopped, so that a turn costs its own bytes however long the transcript is. What it stands on is proven
//! by [`prefix`]; a transcript that was rewritten is indexed anew.

mod answer;
pub(crate) mod changes;
pub mod conversation;
pub mod cut;
pub(crate) mod decisions;
mod deeds;
pub(crate) mod facts;
pub mod files;
mod gather;
pub mod index;
pub(crate) mod json;
pub mod limits;
mod line;
pub mod locate;
pub(crate) mod message;
pub mod messages;
pub mod output_parser;
pub(crate) mod parts;
pub mod prefix;
mod prose;
pub(crate) mod raw;
pub(crate) mod reading;
pub(crate) mod records;
mod repair;
mod rewind;
pub mod statements;
pub mod story;
mod update;
pub mod usage;
pub mod window;

#[cfg(test)]
mod tests;

pub use crate::kind::TranscriptLocation;
pub use answer::{has_answer, has_any_answer};
pub use conversation::{Activity, Conversation, Summary};
pub use cut::cut;
pub use gather::gather;
pub use index::{Format, Index, IndexUpdate};
pub use locate::copies;
pub use parts::{FileUse, Phase, Snippet, Todo, ToolCall, Turn};
pub use repair::{RepairReport, repair, whole_bytes};
pub use update::update;
