//! The full-screen review of a session: files that changed, their diffs, the conversation beside them, and a person's decision.
//!
//! [`review()`] takes the terminal, shows a session until the person leaves, and says what comes next. It reads a store and decides through
//! the workflows of [`parhelia_life`] and its neighbours. The [`Caller`] stands for whoever has a command line: it mounts, and puts errors into words.
//!
//! Everything that is shown and selected is one state, which knows neither a terminal nor a store: keys and what was read come in, effects
//! go out. A thread reads, so that no key waits for a diff. [`shell`] opens a shell in a checkpoint, [`human`] and [`words`] have the
//! figures and phrases that the screen and the command line share.
//!
//! Map of the modules; a folder is a noun or a verb:
//!
//! | | |
//! |---|---|
//! | `human` `words` | sizes, counts and times as people read them; phrases about checkpoints: shared with the command line |
//! | `keys` | keys and their actions: the table that the screen, its help and `docs/approval.md` have them from |
//! | `text` `layout` | lines that are wrapped, scrolled and searched; the places of the panes |
//! | `state/` | what is shown and selected; knows no terminal and no store: keys and what was read come in, effects go out |
//! | `diff` `syntax` `conversation` | the lines of a file's diff, their colours, and the lines of a conversation |
//! | `draw/` | the state, in cells; whatever is drawn is made harmless there once more |
//! | `worker` | a thread that reads from the store: a checkpoint, diffs, the conversation, line counts |
//! | `terminal` `shell` `review` | the terminal, which is given back whatever happens; a shell in a mounted checkpoint; the loop |

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod conversation;
mod diff;
mod draw;
pub mod human;
mod keys;
mod layout;
mod review;
pub mod shell;
mod state;
mod syntax;
mod terminal;
mod text;
pub mod words;
mod worker;

use std::{any::Any, io, path::Path, sync::Arc};

use parhelia_host::Host;
use parhelia_store::{Store, id::Ulid};

pub use crate::{review::review, state::LogItem, worker::log};
use parhelia_oversight::review::decide::{DecisionOutcome, Verdict};

/// The caller of the screen.
pub trait Caller: Sync {
    /// Its environment and person.
    fn host(&self) -> &dyn Host;

    /// An error as a sentence, with the next step.
    fn explain(&self, error: &parhelia_host::Error) -> String;

    /// Mounts a checkpoint's workspace read-only on an empty folder until the result is dropped. Fails with the reason.
    fn mount(&self, store: &Arc<Store>, checkpoint: Ulid, folder: &Path) -> Result<Box<dyn Any>, String>;

    /// True once it was asked to stop, as by a signal.
    fn is_stopped(&self) -> bool;

    /// True if colours are wanted.
    fn has_colours(&self) -> bool;
}

/// The step after the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Quit,
    /// The session is resumed.
    Continue,
    /// The caller was asked to stop.
    Stopped,
}

/// The result of a review.
#[derive(Debug)]
pub struct Outcome {
    /// The step after it.
    pub next: Next,
    /// The decisions that were recorded, in order.
    pub decisions: Vec<(Ulid, Verdict, DecisionOutcome)>,
}

/// A failure of the screen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The session, or its store.
    #[error(transparent)]
    Session(#[from] parhelia_host::Error),
    /// The terminal could not be set up, read or written.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[from] io::Error),
}
