//! Rollback: a session's workspace and conversation become what they were at a checkpoint, and that can be undone.
//!
//! look (refuse what would do harm) -> safety checkpoint -> what differs from it is whole -> stash entry -> intent, committed -> restore in
//! place -> conversation -> head moved and intent cleared, in one commit. A crash behind the intent leaves it to be found: whoever comes
//! next does the rest, or, where that fails, restores the safety checkpoint; what is there by then goes into another safety checkpoint first.
//! The rollback is given up instead if newer checkpoints of agents, or git, tell that work has gone on since; files that were changed by hand
//! are left as they are.

mod execute;
mod finish;
mod leave;
mod look;
mod since;
mod spared;
mod spoken;
mod stash;
mod workflow;

pub use execute::{RollbackReport, execute, foresee, plan};
use execute::{refuse_early, unwritable};
pub use finish::{finish, finish_earlier, take_turn};
pub use look::{Look, RollbackRequest, look, whole};
pub use parhelia_host::intent::{GoesBack, Intent, Last, Turn, last, open};
pub use since::{interrupted, interrupted_in};
pub use spoken::ConversationEffect;
pub use stash::Stash;
pub use workflow::{Options, Preview, Rollback, RollbackOutcome, begin, ensure_folder, session_to_undo, to_undo};

#[cfg(test)]
mod tests;
