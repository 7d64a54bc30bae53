//! Knowledge of a session's work: [`summary`] says what was done in it, [`memory`] what a project's sessions have learned, [`briefing`] has the words for a
//! resumed agent, [`phase`] checkpoints are files that need no store, and [`window`] measures the model's context, and makes a conversation shorter.
//!
//! Map of the modules; a folder is a noun or a verb:
//!
//! | | |
//! |---|---|
//! | `window/` | the model's context window: its size, tokens by share, the conversation made shorter, and the part of it that an agent is told |
//! | `memory/` | what a project's sessions have learned: one document for each project |
//! | `phase/` | phase checkpoints: files of other programs' form, which need no store |
//! | `briefing/` | words for a resumed agent, within a budget |
//! | `summary/` | what was done in a session, as part of each checkpoint, in Markdown and JSON; the newest as a file in the store's folder; `model/`: a model's summary beside it, asked for by a process that nobody waits for |
//! | `context` | which files whoever takes up the work should see first |
//! | `budget` | sizes of texts in tokens and characters, and their limits |
//! | `decide` | a decision of oversight's, and what the project learns of it |

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod briefing;
pub mod budget;
pub mod context;
pub mod decide;
pub mod memory;
pub mod phase;
pub mod summary;
pub mod window;
