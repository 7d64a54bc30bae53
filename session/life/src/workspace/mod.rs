//! The folder that a session works in: where it is by now, at which checkpoint it stands, and what is beside it.

pub mod beside;
pub mod moved;
pub mod place;
pub mod position;
pub mod worktrees;
