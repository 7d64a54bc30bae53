//! Rollback: a session's workspace and conversation become what they were at a checkpoint, and that can be undone.
//!
//! look (refuse what would do harm) -> safety checkpoint -> what differs from it is whole -> stash entry -> intent, committed -> restore in
//! place -> conversation -> head moved and intent cleared, in one commit. A crash behind the intent leaves it to be found: whoever comes
//! next does the rest, or, where that fails, restores the safety checkpoint; what was done since goes into another safety checkpoint first.

mod execute;
mod intent;
mod look;
mod stash;

pub use execute::{Done, Finished, execute, finish, plan, settle};
pub use intent::{Intent, Last, Turn, held, last, open};
pub use look::{Look, Wanted, look, whole};
pub use stash::Stash;
